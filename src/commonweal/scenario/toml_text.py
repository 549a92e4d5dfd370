"""Tables from TOML files. Whatever is wrong with the file is refused with its name, the line and the way out.

`what` is what the file should hold, and `start` how one comes by it, for messages: "a scenario", "let ... write one".
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from commonweal.errors import ScenarioError
from commonweal.scenario.faults import Faults
from commonweal.scenario.lines import Place, key_places

SIZE_LIMIT = 1_000_000  # bytes; a thousand clients with all their keys take a third of it
_BYTE_ORDER_MARK = "\ufeff"  # some editors put one at the start
_TOML_FAULT = re.compile(
    r"(?P<what>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)", re.DOTALL
)


def read_tables(path: Path, what: str, start: str) -> tuple[dict[str, Any], Faults]:
    """A file's tables, and where to gather faults of what they say."""
    return parse_tables(_text(path, what, start), str(path), what, start)


def parse_tables(text: str, origin: str, what: str, start: str) -> tuple[dict[str, Any], Faults]:
    """The same from the text of a file; `origin` is the file's name, for messages."""
    if not text.strip():
        raise ScenarioError(f"the file must hold {what}, got an empty one ({origin}); {start}")
    document, places = _parsed(text.removeprefix(_BYTE_ORDER_MARK), origin, what)
    return document, Faults(origin, places)


def _text(path: Path, what: str, start: str) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(SIZE_LIMIT + 1)
    except IsADirectoryError:
        raise ScenarioError(f"{what} must be a file, got the folder {path}; name a TOML file in it") from None
    except FileNotFoundError:
        raise ScenarioError(f"{what} must be a file that exists, got no {path}; check the path, or {start}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ScenarioError(f"{what} must be a readable file, got {reason} for {path}; check the path") from None
    if len(content) > SIZE_LIMIT:
        raise ScenarioError(
            f"{what} must be at most {SIZE_LIMIT} bytes long, got more ({path}); check that it is the right file"
        )
    bad = content.find(b"\0")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        bad = error.start if bad < 0 else min(bad, error.start)
    if bad >= 0:
        line = content.count(b"\n", 0, bad) + 1
        raise ScenarioError(
            f"{what} must be text in UTF-8, got the byte {content[bad]:#04x} (line {line} of {path}); save it as UTF-8"
        )
    return text


def _parsed(text: str, origin: str, what: str) -> tuple[dict[str, Any], Place]:
    try:
        return tomllib.loads(text), key_places(text)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(_sentence(str(error), text, origin, what)) from None
    except RecursionError:
        raise ScenarioError(f"{what} must be flat tables, got deep nesting in {origin}; flatten it") from None
    except ValueError:  # Python's own limit on the digits of a whole number
        raise ScenarioError(
            f"numbers must have at most 4,300 digits, got a longer one in {origin}; write it like 1e-3"
        ) from None


def _sentence(message: str, text: str, origin: str, what: str) -> str:
    """What tomllib says, as one of our sentences."""
    match = _TOML_FAULT.fullmatch(message)
    if match is None:
        return f"{what} must be valid TOML, got {message} ({origin}); correct it"
    fault = match["what"][:1].lower() + match["what"][1:]
    if match["line"] is None:
        last = text.rstrip().count("\n") + 1
        return f"{what} must be valid TOML, got {fault} (line {last}, the last, of {origin}); complete it"
    place = f"(line {match['line']}, column {match['column']} of {origin})"
    if "twice" in fault or "overwrite" in fault:
        return (
            f"a key or table must be given once, got it for the second time {place}; drop one of them; "
            "of clients there may be many, with [[clients]] in double brackets"
        )
    return f"{what} must be valid TOML, got {fault} {place}; correct that line, and put texts in quotes"
