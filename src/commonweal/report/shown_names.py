"""Names that users gave, made fit to be shown: no control characters, and short where space is short."""

from __future__ import annotations

import unicodedata

_UNSHOWABLE = {"Cc", "Cs", "Co", "Cn"}  # control, surrogate, private, unassigned: XML and fonts refuse some of them


def shown(name: str) -> str:
    """The name with a replacement character for each that cannot be shown."""
    return "".join("\ufffd" if unicodedata.category(letter) in _UNSHOWABLE else letter for letter in name)


def shortened(name: str, limit: int = 22) -> str:
    """Both ends of a long name: consortia name their members alike at the front."""
    name = shown(name)
    if len(name) <= limit:
        return name
    tail = limit // 3
    return f"{name[: limit - tail - 1]}…{name[-tail:]}"
