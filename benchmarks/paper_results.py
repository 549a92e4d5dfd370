"""Copy the results of a reproduction into docs/results: the summary, plots, and the tables quoted in README.md.

    python -m benchmarks.paper_results out/paper

A test compares the tables with the summary.
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


def main(source: Path) -> None:
    shutil.copy(source / "summary.json", FOLDER / "summary.json")
    page = FOLDER / "README.md"
    shutil.rmtree(FOLDER / "figures", ignore_errors=True)
    (FOLDER / "figures").mkdir()
    for picture in SHOWN.findall(page.read_text(encoding="utf-8")):
        shutil.copy(source / picture, FOLDER / picture)
    update(page, markdown_tables(json.loads((source / "summary.json").read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
