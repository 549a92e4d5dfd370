"""Compare the rules on all cells, and write a row for each cell, seed, μ and rule.

    COMMONWEAL_DATA=... python -m benchmarks.noise FOLDER [--seeds 8] [--workers 2]

What has been computed stays in FOLDER, so the command continues where it was interrupted. Eight seeds take about four
hours of a machine with two cores.
"""

from __future__ import annotations

import argparse
import json
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.noise.cells import cells
from benchmarks.noise.comparison import compared
from benchmarks.noise.rules import FIRST_RULES, OTHER_RULES
from rich.progress import track


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="keeps the trained rounds and rows.json")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    options = parser.parse_args()
    data = Path(os.environ["COMMONWEAL_DATA"])
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as workers:
        waiting = [
            workers.submit(compared, name, scenario, [rule.name for rule in rules], options.folder, data)
            for rules in (FIRST_RULES, OTHER_RULES)
            for name, scenario in cells(options.seeds)
        ]
        for done in track(as_completed(waiting), total=len(waiting), description="cells"):
            rows += done.result()
            (options.folder / "rows.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
