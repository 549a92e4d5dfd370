"""What can go wrong, and whose mistake it is.

    CommonwealError
    ├── InputError          what was given breaks a rule; the text says which, where, and the way out
    └── IncompletePathError a question that only a complete μ path can answer was put to a cut one

`assert` is for our own mistakes; these are for everybody else's.
"""

from __future__ import annotations


class CommonwealError(Exception):
    """Root of everything that commonweal raises on purpose."""


class InputError(CommonwealError, ValueError):
    """Input breaks a rule: "<rule>, got <evidence>; <way out>"."""


class IncompletePathError(CommonwealError):
    """The μ path was cut at its limit, so ranges of μ would be a guess."""
