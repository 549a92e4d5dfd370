"""The tables of docs/results/path.md, from the rows of `benchmarks.path_figures`.

    python -m benchmarks.path_tables

writes those of docs/results/path.json into the page.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.results_page import FOLDER, update
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from commonweal.atomic_write import write_atomically

RATES = (0.1, 0.01)
NAMES = ("equal", "mislabelled", "unequal")
MISLABELLING = range(5)  # clients of the third federation
LEARNED = 0.5  # mean accuracy from which on mislabelling clients must be told from the others


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One round of one seeded federation. Contributions are in units of the smooth score v, from 0 to 1."""

    setting: str
    rate: float
    seed: int
    round: int
    iterations: int
    accuracy: float  # mean over clients, after the round
    gain: float  # in v
    all: tuple[float, ...]  # contributions by path of each client, all scorers alike
    guarded: tuple[float, ...]  # with guarded scorers
    left_out: tuple[float, ...] | None  # leave-one-out in v
    left_out_hits: tuple[float, ...] | None  # leave-one-out in accuracy: the paper's
    shapley: tuple[float, ...] | None  # exact, in v
    halves: float | None = None  # correlation of contributions by the first and by the second half of the scorers


def tables(rows: Sequence[Row]) -> dict[str, str]:
    """Markdown by name."""
    return {
        "sums": _sums(rows),
        "equal": _equal(rows),
        "rounds": _rounds(rows),
        "mislabelled": _mislabelled(rows),
        "unequal": _unequal(rows),
    }


def _cells(rows: Sequence[Row], name: str) -> Iterator[tuple[float, list[Row]]]:
    for rate in RATES:
        if some := [row for row in rows if (row.setting, row.rate) == (name, rate)]:
            yield rate, some


def _negative(figures: Sequence[tuple[float, ...] | None]) -> str:
    below = np.array(figures, float) < 0
    return f"{below.mean():.1%}"


def _sums(rows: Sequence[Row]) -> str:
    lines = [
        "| federation | learning rate | rounds | sum / gain: median (least to most) | rounds within 10 % | "
        "largest difference, in v |",
        "|---|---|---|---|---|---|",
    ]
    for name in NAMES:
        for rate, some in _cells(rows, name):
            ratios = np.array([sum(row.all) / row.gain for row in some])
            spread = f"{np.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
            lines.append(
                f"| {name} | {rate:g} | {len(some)} | {spread} | "
                f"{np.sum(np.abs(ratios - 1) <= 0.1)} of {len(some)} | "
                f"{max(abs(sum(row.all) - row.gain) for row in some):.4f} |"
            )
    return "\n".join(lines)


def _equal(rows: Sequence[Row]) -> str:
    lines = [
        "| learning rate | rounds | negative, guarded | negative, all scorers | guarded, sums over all rounds | "
        "leave-one-out on v | leave-one-out on hits |",
        "|---|---|---|---|---|---|---|",
    ]
    for rate, some in _cells(rows, "equal"):
        totals = [
            tuple(np.sum([row.guarded for row in some if row.seed == seed], axis=0))
            for seed in sorted({row.seed for row in some})
        ]
        lines.append(
            f"| {rate:g} | {len(some)} | {_negative([row.guarded for row in some])} | "
            f"{_negative([row.all for row in some])} | {_negative(totals)} | "
            f"{_negative([row.left_out for row in some])} | {_negative([row.left_out_hits for row in some])} |"
        )
    return "\n".join(lines)


def _rounds(rows: Sequence[Row]) -> str:
    """The federations of equal clients, round by round: means over seeds."""
    lines = [
        "| learning rate | round | accuracy | gain in v | sum / gain: mean (from, to) | negative, guarded |",
        "|---|---|---|---|---|---|",
    ]
    for rate, some in _cells(rows, "equal"):
        for number in sorted({row.round for row in some}):
            here = [row for row in some if row.round == number]
            ratios = [sum(row.all) / row.gain for row in here]
            lines.append(
                f"| {rate:g} | {number} | {statistics.mean(row.accuracy for row in here):.2f} | "
                f"{statistics.mean(row.gain for row in here):.3f} | "
                f"{statistics.mean(ratios):.3f} ({min(ratios):.3f}, {max(ratios):.3f}) | "
                f"{_negative([row.guarded for row in here])} |"
            )
    return "\n".join(lines)


def _auc(figures: Sequence[float]) -> float:
    return float(roc_auc_score([n not in MISLABELLING for n in range(len(figures))], figures))


def _mislabelled(rows: Sequence[Row]) -> str:
    lines = [
        "| learning rate | round | accuracy: mean (from, to) | AUC, guarded: mean (least) | AUC, all scorers: mean | "
        "runs at 0.5 or more | their least AUC, guarded |",
        "|---|---|---|---|---|---|---|",
    ]
    for rate, some in _cells(rows, "mislabelled"):
        for number in sorted({row.round for row in some}):
            here = [row for row in some if row.round == number]
            accuracies = [row.accuracy for row in here]
            guarded = [_auc(row.guarded) for row in here]
            learned = [_auc(row.guarded) for row in here if row.accuracy >= LEARNED]
            every = statistics.mean(_auc(row.all) for row in here)
            lines.append(
                f"| {rate:g} | {number} | {statistics.mean(accuracies):.2f} ({min(accuracies):.2f}, "
                f"{max(accuracies):.2f}) | {statistics.mean(guarded):.3f} ({min(guarded):.3f}) | {every:.3f} | "
                f"{len(learned)} of {len(here)} | {f'{min(learned):.3f}' if learned else '–'} |"
            )
    return "\n".join(lines)


def _unequal(rows: Sequence[Row]) -> str:
    lines = [
        "| learning rate | rounds | path: mean (5 % to 95 %) | path, guarded | leave-one-out on v | "
        "path, each client's sum over all rounds |",
        "|---|---|---|---|---|---|",
    ]
    for rate, some in _cells(rows, "unequal"):
        by_path = [_correlation(row.all, row.shapley) for row in some]
        low, high = np.quantile(by_path, [0.05, 0.95])
        totals = []
        for seed in sorted({row.seed for row in some}):
            own = [row for row in some if row.seed == seed]
            sums = [np.sum([getattr(row, field) for row in own], axis=0) for field in ("all", "shapley")]
            totals.append(_correlation(*sums))
        lines.append(
            f"| {rate:g} | {len(some)} | {statistics.mean(by_path):.2f} ({low:.2f} to {high:.2f}) | "
            f"{statistics.mean(_correlation(row.guarded, row.shapley) for row in some):.2f} | "
            f"{statistics.mean(_correlation(row.left_out, row.shapley) for row in some):.2f} | "
            f"{statistics.mean(totals):.2f} |"
        )
    return "\n".join(lines)


def _correlation(first: Any, second: Any) -> float:
    return float(spearmanr(first, second).statistic)


def read_rows(file: Path) -> list[Row]:
    return [_row(given) for given in json.loads(file.read_text(encoding="utf-8"))]


def _row(given: dict[str, Any]) -> Row:
    fields: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in given.items()}
    return Row(**fields)


def write_rows(file: Path, rows: Sequence[Row]) -> None:
    """One row per line, contributions to seven digits."""
    lines = [json.dumps(_rounded(asdict(row))) for row in rows]
    write_atomically(file, ("[\n" + ",\n".join(lines) + "\n]\n").encode(), what="the rows")


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value


def main() -> None:
    update(FOLDER / "path.md", tables(read_rows(FOLDER / "path.json")))


if __name__ == "__main__":
    main()
