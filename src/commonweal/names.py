"""Names of clients and metrics: one spelling for each, and no two that look the same.

A subset of Unicode's confusables (UTS 39): letters of the Greek, Cyrillic and Armenian alphabets that are drawn like
Latin ones, digits like letters, and characters that are not drawn at all.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

_DRAWN_LIKE = {  # Latin, digits and signs, Cyrillic, Greek, Armenian
    "A": "\u0410\u0391",
    "B": "\u0412\u0392",
    "C": "\u0421\u03f9",
    "E": "\u0415\u0395",
    "G": "\u050c",
    "H": "\u041d\u0397",
    "J": "\u0408",
    "K": "\u041a\u039a",
    "M": "\u041c\u039c",
    "N": "\u039d",
    "O": "0\u041e\u039f\u0555",
    "P": "\u0420\u03a1",
    "Q": "\u051a",
    "S": "\u0405\u054f",
    "T": "\u0422\u03a4",
    "U": "\u054d",
    "W": "\u051c",
    "X": "\u0425\u03a7",
    "Y": "\u0423\u03a5",
    "Z": "\u0396",
    "a": "\u0430\u03b1\u0251",
    "c": "\u0441\u03f2",
    "d": "\u0501",
    "e": "\u0435",
    "g": "\u0261\u0581",
    "h": "\u04bb\u0570",
    "i": "\u0456\u03b9\u0131\u0269",
    "j": "\u0458\u03f3",
    "l": "I1|\u0406\u04c0\u04cf\u0399\u01c0",
    "n": "\u0578",
    "o": "\u043e\u03bf\u0585",
    "p": "\u0440\u03c1",
    "q": "\u051b\u0566",
    "s": "\u0455",
    "u": "\u057d",
    "v": "\u0475\u03bd",
    "w": "\u051d",
    "x": "\u0445",
    "y": "\u0443",
    "-": "\u2010\u2011\u2012\u2013\u2212",
}
_SHAPES = str.maketrans({other: letter for letter, others in _DRAWN_LIKE.items() for other in others})
_NOT_DRAWN = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\U000e0000-\U000e0fff]"
)


def tidy_name(text: str) -> str:
    """The spelling that a name is stored in: composed characters, and no space around it."""
    return unicodedata.normalize("NFC", text.strip())


def look_alikes(names: Iterable[str]) -> tuple[str, str] | None:
    """The first two different names that look the same; None if there are none."""
    return next(all_look_alikes(names), None)


def all_look_alikes(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each name that looks like an earlier one, after the first that it looks like."""
    seen: dict[str, str] = {}
    for name in names:
        first = seen.setdefault(_shape(name), name)
        if first != name:
            yield first, name


def look_alike_of(name: str, known: Iterable[str]) -> str | None:
    """The known name that another name looks like; None if there is none, or if it is a known one itself."""
    every = tuple(known)
    return None if name in every else next((each for each in every if _shape(each) == _shape(name)), None)


def _shape(name: str) -> str:
    """The same text for all names that are drawn alike."""
    drawn = _NOT_DRAWN.sub("", unicodedata.normalize("NFKC", name)).translate(_SHAPES)
    return " ".join(unicodedata.normalize("NFC", drawn).split())
