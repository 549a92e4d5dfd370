"""What an answer may contain and how long it may keep others waiting: a question says so, to the transport only.

Members need not be told: the limits follow from the question. A transport that looks at sizes before it decodes an
answer spares the coordinator what nobody asked for; the coordinator checks every answer anyway.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

LARGEST_TEXT = 3_000_000  # characters of all fields, in JSON
LARGEST_PROOF = 2_900_000  # characters, in JSON, of a signed file with which a member refuses to go back
_MORE_ARRAYS, _MORE_BYTES = 10, 1_000_000  # so that small mistakes are named by the rule that they break


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimit:
    """The most that a group of arrays may have."""

    array_count: int
    byte_count: int

    @classmethod
    def like(cls, arrays: Mapping[str, NDArray[Any]]) -> GroupLimit:
        """A group like these arrays."""
        return cls(array_count=len(arrays), byte_count=sum(array.nbytes for array in arrays.values()))

    @classmethod
    def of_doubles(cls, *counts: int) -> GroupLimit:
        """A group of one array of doubles for each count."""
        return cls(array_count=len(counts), byte_count=8 * sum(counts))


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLimit:
    """Groups that were not asked for are refused, and so are answers that are much larger than what was."""

    groups: Mapping[str, GroupLimit] = field(default_factory=dict)
    late_seconds: float = math.inf  # that the member may still answer later than most in this round

    def fault_of(self, text_length: int, sizes: Mapping[str, Sequence[int]]) -> str | None:
        """Why an answer is refused, or None: from the length of its fields in JSON, and the bytes of its arrays."""
        if text_length > LARGEST_TEXT:
            return f"the fields of its answer may have {LARGEST_TEXT:,} characters, got {text_length:,}"
        for name, arrays in sizes.items():
            limit = self.groups.get(name)
            if limit is None:
                asked = ", ".join(map(repr, self.groups)) or "no arrays"
                return f"its answer may contain {asked}, got {ascii(name)[:40]} with {sum(arrays):,} bytes"
            most = limit.byte_count + _MORE_BYTES
            if len(arrays) > limit.array_count + _MORE_ARRAYS or sum(arrays) > most:
                return (
                    f"its answer may contain {limit.byte_count:,} bytes in {limit.array_count:,} arrays as {name!r}, "
                    f"got {sum(arrays):,} in {len(arrays):,}"
                )
        return None
