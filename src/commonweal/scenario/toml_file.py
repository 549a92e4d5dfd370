"""Scenarios from TOML. Whatever is wrong is refused with the file, the line and the way out.

Every key is described in docs/reference/scenario.md.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from commonweal.errors import InputError
from commonweal.scenario.assembly import assemble
from commonweal.scenario.faults import Faults
from commonweal.scenario.lines import Place, key_places
from commonweal.scenario.spec import Scenario

SIZE_LIMIT = 1_000_000  # bytes; a thousand clients with all their keys take a third of it
_BYTE_ORDER_MARK = "\ufeff"  # some editors put one at the start
_TOML_FAULT = re.compile(
    r"(?P<what>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)", re.DOTALL
)


def read_scenario(path: Path) -> Scenario:
    """The scenario in a file."""
    return parse_scenario(_text(path), str(path))


def parse_scenario(text: str, origin: str) -> Scenario:
    """The scenario in the text of a file; `origin` is the file's name, for messages."""
    if not text.strip():
        raise InputError(
            f"the file must hold a scenario, got an empty one ({origin}); let `commonweal init` write one to start from"
        )
    document, places = _parsed(text.removeprefix(_BYTE_ORDER_MARK), origin)
    return assemble(document, Faults(origin, places))


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(SIZE_LIMIT + 1)
    except IsADirectoryError:
        raise InputError(f"a scenario must be a file, got the folder {path}; name a TOML file in it") from None
    except FileNotFoundError:
        raise InputError(
            f"a scenario must be a file that exists, got no {path}; "
            "check the path, or let `commonweal init` write one to start from"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"a scenario must be a readable file, got {reason} for {path}; check the path") from None
    if len(content) > SIZE_LIMIT:
        raise InputError(
            f"a scenario must be at most {SIZE_LIMIT} bytes long, got more ({path}); check that it is the right file"
        )
    bad = content.find(b"\0")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        bad = error.start if bad < 0 else min(bad, error.start)
    if bad >= 0:
        line = content.count(b"\n", 0, bad) + 1
        raise InputError(
            f"a scenario must be text in UTF-8, got the byte {content[bad]:#04x} (line {line} of {path}); "
            "save it as UTF-8"
        )
    return text


def _parsed(text: str, origin: str) -> tuple[dict[str, Any], Place]:
    try:
        return tomllib.loads(text), key_places(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(_sentence(str(error), text, origin)) from None
    except RecursionError:
        raise InputError(f"a scenario must be flat tables, got deep nesting in {origin}; flatten it") from None
    except ValueError:  # Python's own limit on the digits of a whole number
        raise InputError(
            f"numbers must have at most 4,300 digits, got a longer one in {origin}; write it like 1e-3"
        ) from None


def _sentence(message: str, text: str, origin: str) -> str:
    """What tomllib says, as one of our sentences."""
    match = _TOML_FAULT.fullmatch(message)
    if match is None:
        return f"a scenario must be valid TOML, got {message} ({origin}); correct it"
    what = match["what"][:1].lower() + match["what"][1:]
    if match["line"] is None:
        last = text.rstrip().count("\n") + 1
        return f"a scenario must be valid TOML, got {what} (line {last}, the last, of {origin}); complete it"
    place = f"(line {match['line']}, column {match['column']} of {origin})"
    if "twice" in what or "overwrite" in what:
        return (
            f"a key or table must be given once, got it for the second time {place}; drop one of them; "
            "of clients there may be many, with [[clients]] in double brackets"
        )
    return f"a scenario must be valid TOML, got {what} {place}; correct that line, and put texts in quotes"
