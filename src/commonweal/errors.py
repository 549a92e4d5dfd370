"""Every exception that commonweal raises on purpose.

    CommonwealError
    ├── InputError           a value, file or option breaks a rule
    │   └── ScenarioError    a scenario or federation file breaks a rule
    ├── LedgerError          a ledger, its keys or its entries do not allow this
    ├── FederationError      a federation cannot start or continue
    ├── StorageError         a file or database cannot be read or written
    └── IncompletePathError  only a complete mu path could answer this

`assert` is for our own mistakes; these are for everybody else's. A message says what is wrong with which value, and
what to do about it.
"""

from __future__ import annotations


class CommonwealError(Exception):
    """Base class of all exceptions that commonweal raises on purpose."""


class InputError(CommonwealError, ValueError):
    """A value, file or option breaks a rule."""


class ScenarioError(InputError):
    """A scenario or federation file breaks a rule."""


class LedgerError(CommonwealError):
    """A ledger, its keys or its entries do not allow this."""


class FederationError(CommonwealError):
    """A federation cannot start or continue."""


class StorageError(CommonwealError):
    """A file or database cannot be read or written."""


class IncompletePathError(CommonwealError):
    """The mu path was cut at its limit, so ranges of mu would be a guess."""


def os_reason(error: OSError) -> str:
    """What the operating system says, to end a sentence: "no such file or directory"."""
    reason = error.strerror or str(error) or type(error).__name__
    return reason[:1].lower() + reason[1:]
