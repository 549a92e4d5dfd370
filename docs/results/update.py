"""Copy the results of a reproduction into this folder: the summary, plots, and the tables quoted in README.md.

    python docs/results/update.py out/paper

A quoted table is between `<!-- table: NAME -->` and `<!-- end of table -->`; a test compares it with the summary.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

from commonweal.report.study.tables import markdown_tables

HERE = Path(__file__).parent
QUOTED = re.compile(r"(<!-- table: (\S+) -->\n)(.*?)(<!-- end of table -->)", re.DOTALL)

SHOWN = re.compile(r"\]\((figures/[^)]+)\)")


def quoted(page: str) -> dict[str, str]:
    """The tables quoted on a page, by name."""
    return {name: body.strip() for _, name, body, _ in QUOTED.findall(page)}


def update(source: Path) -> None:
    document = json.loads((source / "summary.json").read_text(encoding="utf-8"))
    shutil.copy(source / "summary.json", HERE / "summary.json")
    current = markdown_tables(document)
    page = HERE / "README.md"
    text = page.read_text(encoding="utf-8")
    shutil.rmtree(HERE / "figures", ignore_errors=True)
    (HERE / "figures").mkdir()
    for picture in SHOWN.findall(text):
        shutil.copy(source / picture, HERE / picture)
    page.write_text(
        QUOTED.sub(lambda found: f"{found[1]}\n{current[found[2]].strip()}\n\n{found[4]}", text), encoding="utf-8"
    )


if __name__ == "__main__":
    update(Path(sys.argv[1]))
