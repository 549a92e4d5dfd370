"""Compare the rules on all cells, and write a row for each cell, seed, μ and rule.

    COMMONWEAL_DATA=... python -m benchmarks.noise FOLDER [--seeds 8] [--workers 2] [--known ROWS.json]

What has been computed stays in FOLDER, so the command continues where it was interrupted. Rows that were computed on
another machine are taken from `--known`. Eight seeds take about four hours of a machine with two cores.
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
    parser.add_argument("--known", type=Path, help="rows of an earlier comparison, which are not computed again")
    options = parser.parse_args()
    data = Path(os.environ["COMMONWEAL_DATA"])
    rows: list[dict[str, Any]] = [] if options.known is None else json.loads(options.known.read_text())
    known = {(f"{row['cell']}/{row['seed']}", row["rule"]) for row in rows}
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as workers:
        waiting = [
            workers.submit(compared, name, scenario, missing, options.folder, data)
            for rules in (FIRST_RULES, OTHER_RULES)
            for name, scenario in cells(options.seeds)
            if (missing := [rule.name for rule in rules if (name, rule.name) not in known])
        ]
        for done in track(as_completed(waiting), total=len(waiting), description="cells"):
            rows += done.result()
            (options.folder / "rows.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
