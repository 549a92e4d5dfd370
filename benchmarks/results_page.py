"""Tables that a page of docs/results quotes, between `<!-- table: NAME -->` and `<!-- end of table -->`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "docs" / "results"
_QUOTED = re.compile(r"(<!-- table: (\S+) -->\n)(.*?)(<!-- end of table -->)", re.DOTALL)


def quoted(page: str) -> dict[str, str]:
    """The tables of a page, by name."""
    return {name: body.strip() for _, name, body, _ in _QUOTED.findall(page)}


def update(page: Path, tables: Mapping[str, str]) -> None:
    """Put in the tables as they are now."""
    text = page.read_text(encoding="utf-8")
    current = _QUOTED.sub(lambda found: f"{found[1]}\n{tables[found[2]].strip()}\n\n{found[4]}", text)
    page.write_text(current, encoding="utf-8")
