"""Text of a ledger on its way to a terminal or a file: a signed entry can contain anything, terminal escapes too."""

from __future__ import annotations

import json
from typing import Any


def printable(text: object) -> str:
    """The text with control characters, and others that do not print, written as escapes such as \\x1b."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in str(text))


def printable_json(document: Any, *, indent: int | None = None) -> str:
    """The document as JSON that a terminal can show; programs read the same values from it."""
    written = json.dumps(document, indent=indent, ensure_ascii=False)
    if written.replace("\n", "").isprintable():
        return written
    return "".join(letter if letter.isprintable() or letter == "\n" else json.dumps(letter)[1:-1] for letter in written)
