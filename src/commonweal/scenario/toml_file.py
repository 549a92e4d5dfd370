"""Scenarios from TOML. Whatever is wrong is refused with the file, the line and the way out.

Every key is described in docs/reference/scenario.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from commonweal.scenario.assembly import assemble
from commonweal.scenario.settings import with_settings
from commonweal.scenario.spec import Scenario
from commonweal.scenario.toml_text import parse_tables, read_tables

_NONE: Mapping[str, object] = MappingProxyType({})
_ABOUT = ("a scenario", "let `commonweal init` write one to start from")


def read_scenario(path: Path, *, settings: Mapping[str, object] = _NONE) -> Scenario:
    """The scenario in a file; `settings` take the place of values in it, by dotted key."""
    tables, faults = read_tables(path, *_ABOUT)
    return assemble(with_settings(tables, settings), faults)


def parse_scenario(text: str, origin: str, *, settings: Mapping[str, object] = _NONE) -> Scenario:
    """The scenario in the text of a file; `origin` is the file's name, for messages."""
    tables, faults = parse_tables(text, origin, *_ABOUT)
    return assemble(with_settings(tables, settings), faults)
