"""The line of each key in a TOML text, for error messages: `tomllib` does not report it.

The text must be one that `tomllib` accepts, so nothing is validated here.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from dataclasses import dataclass, field

KeyPath = tuple[str | int, ...]
"""Keys and positions in arrays from the root, e.g. ("clients", 0, "name")."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*'""")
_DOT = re.compile(r"[ \t]*\.[ \t]*")
_EQUALS = re.compile(r"[ \t]*=[ \t]*")
# Up to two quotes may precede the closing three.
_STRING = re.compile(
    r'''"""(?:[^\\]|\\.)*?"""(?:"{0,2})|"(?:[^"\\]|\\.)*"|'''
    r"""'''.*?'''(?:'{0,2})|'[^']*'""",
    re.DOTALL,
)
_PLAIN = re.compile(r"[^\n,#\]}]+")  # numbers, booleans and dates; a date may contain a space


@dataclass(slots=True)
class Place:
    """The line of a key, a table or an array's element, and the places inside it."""

    line: int
    children: dict[str | int, Place] = field(default_factory=dict)
    holds_tables: bool = False  # of [[...]] headers

    def line_of(self, path: KeyPath) -> int | None:
        """The line of the path, or of its longest part that exists; None if no part does."""
        place = self
        for step in path:
            if step not in place.children:
                break
            place = place.children[step]
        return None if place is self else place.line


def key_places(text: str) -> Place:
    """The places of all keys in a valid TOML text, starting at the root."""
    return _Walk(text).document()


class _Walk:
    """One pass through the text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._newlines = [match.start() for match in re.finditer("\n", text)]

    def document(self) -> Place:
        root = table = Place(line=0)
        while self._skip_blank():
            if self._take("[["):
                table = self._header(root, of_array=True)
                self._take("]]")
            elif self._take("["):
                table = self._header(root, of_array=False)
                self._take("]")
            else:
                self._pair(table)
        return root

    def _header(self, root: Place, *, of_array: bool) -> Place:
        self._skip_blank()
        line = self._line()
        *parents, last = self._dotted_key()
        self._skip_blank()
        place = root
        for part in parents:
            place = _newest(place.children.setdefault(part, Place(line)))
        known = last in place.children
        place = place.children.setdefault(last, Place(line))
        if not of_array:
            place.line = line  # [a] may follow [a.b], which implied it
            return place
        if not known:
            place.holds_tables = True
        return place.children.setdefault(len(place.children), Place(line))

    def _pair(self, table: Place) -> None:
        line = self._line()
        place = table
        for part in self._dotted_key():
            place = place.children.setdefault(part, Place(line))
        self._match(_EQUALS)
        self._value(place)

    def _dotted_key(self) -> list[str]:
        parts = [self._key()]
        while _DOT.match(self._text, self._position):
            self._match(_DOT)
            parts.append(self._key())
        return parts

    def _key(self) -> str:
        written = self._match(_KEY)
        if written[0] not in "\"'":
            return written
        return str(tomllib.loads(f"key = {written}")["key"])  # resolves escapes

    def _value(self, place: Place) -> None:
        if self._take("["):
            while self._skip_blank() and not self._take("]"):
                if not self._take(","):
                    element = place.children.setdefault(len(place.children), Place(self._line()))
                    self._value(element)
        elif self._take("{"):
            while self._skip_blank() and not self._take("}"):
                if not self._take(","):
                    self._pair(place)
        elif self._text[self._position] in "\"'":
            self._match(_STRING)
        else:
            self._match(_PLAIN)

    def _line(self) -> int:
        return bisect_right(self._newlines, self._position - 1) + 1

    def _skip_blank(self) -> bool:
        """Skip spaces, line breaks and comments; returns whether anything follows."""
        self._match(_BLANK)
        return self._position < len(self._text)

    def _take(self, mark: str) -> bool:
        found = self._text.startswith(mark, self._position)
        self._position += len(mark) * found
        return found

    def _match(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._position)
        assert match is not None, "tomllib accepted the text"
        self._position = match.end()
        return match.group()


def _newest(place: Place) -> Place:
    """The last table of an array of tables, to which later headers refer; otherwise the place itself."""
    return place.children[len(place.children) - 1] if place.holds_tables else place
