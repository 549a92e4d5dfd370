"""The tables of docs/results/noise.md, from the rows of a comparison.

python -m benchmarks.noise.tables ROWS.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.noise.cells import EXPERIMENTS, LEARNING_RATES, MUS
from benchmarks.noise.rules import RULES
from numpy.typing import NDArray

from commonweal.records.study import Interval
from commonweal.study.intervals import mean_interval, statistic_interval

Rows = Sequence[dict[str, Any]]
Floats = NDArray[np.float64]
BASELINE = "measured"


class Comparison:
    """The rows, by seed: seeds are the replications, and all figures of a seed stay together."""

    def __init__(self, rows: Rows) -> None:
        self._rows = {(row["cell"], row["seed"], row["mu"], row["rule"]): row for row in rows}
        seeds = sorted({row["seed"] for row in rows})
        self.cells = [
            f"{experiment}-{rate:g}"
            for experiment in EXPERIMENTS
            for rate in LEARNING_RATES
            if any(row["cell"] == f"{experiment}-{rate:g}" for row in rows)
        ]
        self.seeds = [seed for seed in seeds if all(self._is_complete(cell, seed) for cell in self.cells)]

    def _is_complete(self, cell: str, seed: int) -> bool:
        return all((cell, seed, mu, rule.name) in self._rows for mu in MUS for rule in RULES)

    def values(self, figure: Callable[[dict[str, Any]], float], rule: str, cells: Sequence[str]) -> Floats:
        """The figure for each seed: the mean over cells and μ."""
        return np.array(
            [np.mean([figure(self._rows[cell, seed, mu, rule]) for cell in cells for mu in MUS]) for seed in self.seeds]
        )

    def mean(self, figure: Callable[[dict[str, Any]], float], rule: str, cells: Sequence[str]) -> Interval:
        return mean_interval(self.values(figure, rule, cells))

    def ratio(self, figure: Callable[[dict[str, Any]], float], rule: str, cells: Sequence[str]) -> Interval:
        """The mean of a rule over that of the measured figures."""
        both = np.column_stack([self.values(figure, rule, cells), self.values(figure, BASELINE, cells)])
        return statistic_interval(both, lambda means: means[:, 0] / means[:, 1])

    def worse(self, rule: str, cells: Sequence[str]) -> Interval:
        """By how much welfare is lower than with measured figures."""
        return mean_interval(self.values(_gap, rule, cells) - self.values(_gap, BASELINE, cells))


def _gap(row: dict[str, Any]) -> float:
    return float(row["hindsight"] - row["true_welfare"])


def tables(rows: Rows) -> dict[str, str]:
    """Markdown by name."""
    comparison = Comparison(rows)
    return {"overall": _overall(comparison), "gaps": _gaps(comparison), "cells": _cells(comparison)}


def _overall(comparison: Comparison) -> str:
    lines = [
        "| rule | gap to hindsight | ratio of gaps | error of money, ratio | wrong eliminations, ratio | "
        "true welfare | TSW of the paper | rounds per client |",
        "|---|---|---|---|---|---|---|---|",
    ]
    every = comparison.cells
    for rule in RULES:
        figures = [
            comparison.mean(_gap, rule.name, every),
            comparison.ratio(_gap, rule.name, every),
            comparison.ratio(lambda row: row["error_of_money"], rule.name, every),
            comparison.ratio(lambda row: row["wrong_eliminations"], rule.name, every),
            comparison.mean(lambda row: row["true_welfare"], rule.name, every),
            comparison.mean(lambda row: row["tsw"], rule.name, every),
            comparison.mean(lambda row: row["mean_duration"], rule.name, every),
        ]
        lines.append(f"| {rule.name} | " + " | ".join(map(_shown, figures)) + " |")
    return "\n".join(lines)


def _gaps(comparison: Comparison) -> str:
    names = [rule.name for rule in RULES]
    lines = ["| experiment, learning rate | hindsight | " + " | ".join(names) + " |", "|---" * (len(names) + 2) + "|"]
    for cell in comparison.cells:
        hindsight = comparison.mean(lambda row: row["hindsight"], BASELINE, [cell])
        gaps = [comparison.mean(_gap, name, [cell]) for name in names]
        lines.append(f"| {cell.replace('-0.', ', 0.')} | {_shown(hindsight)} | " + " | ".join(map(_shown, gaps)) + " |")
    return "\n".join(lines)


def _cells(comparison: Comparison) -> str:
    lines = [
        "| experiment, learning rate | rule | welfare lost against measured | eliminations | wrong ones | "
        "error of money | rounds per client |",
        "|---|---|---|---|---|---|---|",
    ]
    for cell in comparison.cells:
        for rule in RULES:
            figures = [
                comparison.worse(rule.name, [cell]),
                *(
                    comparison.mean(lambda row, name=name: row[name], rule.name, [cell])  # type: ignore[misc]
                    for name in ("eliminations", "wrong_eliminations", "error_of_money", "mean_duration")
                ),
            ]
            lines.append(f"| {cell.replace('-0.', ', 0.')} | {rule.name} | " + " | ".join(map(_shown, figures)) + " |")
    return "\n".join(lines)


def _shown(interval: Interval) -> str:
    return f"{interval.value:.3f} ({interval.lower:.3f} to {interval.upper:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    options = parser.parse_args()
    rows = json.loads(options.rows.read_text())
    print(f"seeds: {Comparison(rows).seeds}")
    for name, table in tables(rows).items():
        print(f"\n{name}\n\n{table}")


if __name__ == "__main__":
    main()
