"""Scenarios from TOML. Whatever is wrong is refused with the file, the line and the way out.

Every key is described in docs/reference/scenario.md.
"""

from __future__ import annotations

from pathlib import Path

from commonweal.scenario.assembly import assemble
from commonweal.scenario.spec import Scenario
from commonweal.scenario.toml_text import parse_tables, read_tables

_ABOUT = ("a scenario", "let `commonweal init` write one to start from")


def read_scenario(path: Path) -> Scenario:
    """The scenario in a file."""
    return assemble(*read_tables(path, *_ABOUT))


def parse_scenario(text: str, origin: str) -> Scenario:
    """The scenario in the text of a file; `origin` is the file's name, for messages."""
    return assemble(*parse_tables(text, origin, *_ABOUT))
