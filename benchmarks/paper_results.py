"""Copy the results of a reproduction into docs/results: rows, summary, the page of the paper, what README.md quotes.

    python -m benchmarks.paper_results out/paper

Tests compare the tables with the summary, and the page of the paper with the rows.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

from benchmarks.results_page import FOLDER, update

from commonweal.report.study.tables import markdown_tables

SHOWN = re.compile(r"\]\((figures/[^)]+)\)")
PAGES = ("README.md", "paper.md")


def main(source: Path) -> None:
    for name in ("results.parquet", "summary.json", "paper.md"):
        shutil.copy(source / name, FOLDER / name)
    shutil.rmtree(FOLDER / "figures", ignore_errors=True)
    (FOLDER / "figures").mkdir()
    for page in PAGES:
        for picture in set(SHOWN.findall((FOLDER / page).read_text(encoding="utf-8"))):
            shutil.copy(source / picture, FOLDER / picture)
    summary = json.loads((source / "summary.json").read_text(encoding="utf-8"))
    update(FOLDER / "README.md", markdown_tables(summary))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
