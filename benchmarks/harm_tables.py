"""The table of docs/results/harm.md, from the runs of `benchmarks.bench_harm`.

    python -m benchmarks.harm_tables

writes those of docs/results/harm.jsonl into the page.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.bench_harm import IN_TIME, SETTINGS, Run, read_runs
from benchmarks.results_page import FOLDER, update

WORDS = {
    "sign-flipped": "poisoner: opposite sign",
    "noised-50": "poisoner: noise of 50 times its update",
    "noised-100": "poisoner: noise of 100 times its update",
    "label-flipped": "poisoner: labels flipped",
    "equal": "honest: equal clients",
    "large-and-small": "honest: 20 to 240 samples per round",
    "label-skew-0.5": "honest: label skew 0.5",
    "label-skew-0.1": "honest: label skew 0.1",
    "built-in-domains": "honest: four built-in kinds of images",
    "five-domains": "honest: five kinds of images",
}


def tables(runs: Sequence[Run]) -> dict[str, str]:
    """Markdown by name."""
    lines = [
        f"| federation | `harm` | seeds | poisoner found within {IN_TIME} rounds | seeds with an honest client found |",
        "|---|---|---|---|---|",
    ]
    for name, setting in SETTINGS.items():
        some = [run for run in runs if run.setting == name]
        if not some:
            continue
        in_time = "" if setting.defect is None else f"{sum(run.is_in_time for run in some)} of {len(some)}"
        wrong = f"{sum(bool(run.wrong) for run in some)} of {len(some)}"
        lines.append(f'| {WORDS[name]} | `"{setting.rule}"` | {len(some)} | {in_time} | {wrong} |')
    return {"harm": "\n".join(lines)}


def main() -> None:
    update(FOLDER / "harm.md", tables(read_runs(FOLDER / "harm.jsonl")))


if __name__ == "__main__":
    main()
