"""Scenarios and other tables from TOML files. Errors name the file, the line and a way out.

All keys of a scenario are described in docs/reference/scenario.md.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from commonweal.bounded_read import check_no_device
from commonweal.errors import ScenarioError, StorageError, os_reason
from commonweal.scenario.assembly import assemble
from commonweal.scenario.faults import Faults
from commonweal.scenario.lines import Place, key_places
from commonweal.scenario.settings import with_settings
from commonweal.scenario.spec import Scenario

_NONE: Mapping[str, object] = MappingProxyType({})
SIZE_LIMIT = 1_000_000  # bytes; a thousand clients with all their keys take a third of it
_BYTE_ORDER_MARK = "\ufeff"  # some editors write one at the start
_TOML_ERROR = re.compile(
    r"(?P<what>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)", re.DOTALL
)
_ABOUT = ("a scenario", "Write one with `commonweal init`.")


def read_scenario(path: Path, *, settings: Mapping[str, object] = _NONE) -> Scenario:
    """The scenario in a file; `settings` replace values of it, by dotted key."""
    tables, faults = read_tables(path, *_ABOUT)
    return assemble(with_settings(tables, settings), faults, path.resolve().parent)


def parse_scenario(text: str, origin: str, *, settings: Mapping[str, object] = _NONE) -> Scenario:
    """The scenario in the text of a file; `origin` is the file's name, for messages."""
    tables, faults = parse_tables(text, origin, *_ABOUT)
    return assemble(with_settings(tables, settings), faults)


def read_tables(path: Path, what: str, start: str) -> tuple[dict[str, Any], Faults]:
    """A file's tables, and an object that collects the problems found in them.

    For messages: the file should contain `what` ("a scenario"), and `start` says how to get one.
    """
    return parse_tables(_text(path, what, start), str(path), what, start)


def parse_tables(text: str, origin: str, what: str, start: str) -> tuple[dict[str, Any], Faults]:
    """The same from the text of a file; `origin` is the file's name, for messages."""
    if not text.strip():
        raise ScenarioError(f"{origin} is empty; it should contain {what}. {start}")
    document, places = _parsed(text.removeprefix(_BYTE_ORDER_MARK), origin)
    return document, Faults(origin, places)


def _text(path: Path, what: str, start: str) -> str:
    try:
        check_no_device(path)
        with path.open("rb") as file:
            content = file.read(SIZE_LIMIT + 1)
    except IsADirectoryError:
        raise StorageError(f"{path} is a folder. Name a TOML file in it.") from None
    except FileNotFoundError:
        raise StorageError(f"Cannot read {path}: no such file. Check the path. {start}") from None
    except OSError as error:
        raise StorageError(f"Cannot read {path}: {os_reason(error)}. Check the path.") from None
    except ValueError as error:  # a path with a zero byte
        raise StorageError(f"Cannot read {path}: {error}. Check the path.") from None
    if len(content) > SIZE_LIMIT:
        raise ScenarioError(f"{path} is larger than {SIZE_LIMIT} bytes. Check that it is {what}.")
    bad = content.find(b"\0")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        bad = error.start if bad < 0 else min(bad, error.start)
    if bad >= 0:
        line = content.count(b"\n", 0, bad) + 1
        raise ScenarioError(
            f"{path}, line {line}: the byte {content[bad]:#04x} is not valid UTF-8 text. Save the file as UTF-8."
        )
    return text


def _parsed(text: str, origin: str) -> tuple[dict[str, Any], Place]:
    try:
        return tomllib.loads(text), key_places(text)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(_sentence(str(error), text, origin)) from None
    except RecursionError:
        raise ScenarioError(f"{origin}: the values are nested too deeply. Flatten them.") from None
    except ValueError:  # Python's own limit on the digits of an integer
        raise ScenarioError(f"{origin}: a number has more than 4,300 digits. Write it like 1e-3.") from None


def _sentence(message: str, text: str, origin: str) -> str:
    """What tomllib says, in our words."""
    match = _TOML_ERROR.fullmatch(message)
    if match is None:
        return f"{origin}: not valid TOML: {message}. Correct it."
    reason = match["what"][:1].lower() + match["what"][1:]
    if match["line"] is None:
        last = text.rstrip().count("\n") + 1
        return f"{origin}, line {last}: not valid TOML: {reason} at the end of the file. Complete it."
    place = f"{origin}, line {match['line']}"
    if "twice" in reason or "overwrite" in reason:
        return (
            f"{place}: this key or table was already given. Remove one of the two; for several clients write "
            "[[clients]] "
            "in double brackets."
        )
    return f"{place}: not valid TOML: {reason} (column {match['column']}). Correct the line; texts need quotes."
