"""The tables of docs/results/noise.md, from the rows of a comparison.

    python -m benchmarks.noise.tables ROWS.json [--update]

With --update the rows become docs/results/noise.json, and the page gets their tables.
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
from benchmarks.results_page import FOLDER, update
from numpy.typing import NDArray

from commonweal.records.study import Interval
from commonweal.study.intervals import mean_interval, statistic_interval

Rows = Sequence[dict[str, Any]]
Floats = NDArray[np.float64]
Figure = Callable[[dict[str, Any]], float]
BASELINE = "measured"


class Comparison:
    """The rows, by seed: seeds are the replications, and all figures of a seed stay together."""

    def __init__(self, rows: Rows) -> None:
        self._rows = {(row["cell"], row["seed"], row["mu"], row["rule"]): row for row in rows}
        self._seeds = sorted({row["seed"] for row in rows})
        self.cells = [
            f"{experiment}-{rate:g}"
            for experiment in EXPERIMENTS
            for rate in LEARNING_RATES
            if any(row["cell"] == f"{experiment}-{rate:g}" for row in rows)
        ]
        self.rules = [rule.name for rule in RULES if self.seeds(rule.name, self.cells)]

    def seeds(self, rule: str, cells: Sequence[str]) -> list[int]:
        """The seeds for which all these cells are known, with this rule and with measured figures."""
        return [
            seed
            for seed in self._seeds
            if all((cell, seed, mu, name) in self._rows for cell in cells for mu in MUS for name in (rule, BASELINE))
        ]

    def values(self, figure: Figure, rule: str, cells: Sequence[str], seeds: Sequence[int] | None = None) -> Floats:
        """The figure for each seed: the mean over cells and μ."""
        return np.array(
            [
                np.mean([figure(self._rows[cell, seed, mu, rule]) for cell in cells for mu in MUS])
                for seed in (self.seeds(rule, cells) if seeds is None else seeds)
            ]
        )

    def mean(self, figure: Figure, rule: str, cells: Sequence[str]) -> Interval:
        return mean_interval(self.values(figure, rule, cells))

    def amount(self, name: str, rule: str, cells: Sequence[str]) -> Interval:
        """The mean of a figure that cannot be negative."""
        return self.mean(lambda row: float(row[name]), rule, cells).within(least=0.0)

    def ratio(self, figure: Figure, rule: str, cells: Sequence[str], per: Figure | None = None) -> Interval:
        """The mean of a rule over that of measured figures, both divided by the mean of `per` if given."""
        seeds = self.seeds(rule, cells)
        columns = [self.values(figure, name, cells, seeds) for name in (rule, BASELINE)]
        if per is None:
            return statistic_interval(np.column_stack(columns), lambda means: means[:, 0] / means[:, 1])
        columns += [self.values(per, name, cells, seeds) for name in (rule, BASELINE)]
        return statistic_interval(
            np.column_stack(columns), lambda means: means[:, 0] / means[:, 1] * means[:, 3] / means[:, 2]
        )

    def worse(self, rule: str, cells: Sequence[str]) -> Interval:
        """By how much welfare is lower than with measured figures."""
        seeds = self.seeds(rule, cells)
        return mean_interval(self.values(_gap, rule, cells, seeds) - self.values(_gap, BASELINE, cells, seeds))


def _gap(row: dict[str, Any]) -> float:
    return float(row["hindsight"] - row["true_welfare"])


def _money(row: dict[str, Any]) -> float:
    return float(row["error_of_money"])


def _duration(row: dict[str, Any]) -> float:
    return float(row["mean_duration"])


def tables(rows: Rows) -> dict[str, str]:
    """Markdown by name."""
    comparison = Comparison(rows)
    return {
        "ratios": _ratios(comparison),
        "means": _means(comparison),
        "gaps": _gaps(comparison),
        "cells": _cells(comparison),
    }


def _ratios(comparison: Comparison) -> str:
    """To measured figures."""
    lines = [
        "| rule | seeds | gap to hindsight | wrong eliminations | error of money | "
        "error of money per client and round |",
        "|---" * 6 + "|",
    ]
    every = comparison.cells
    for rule in comparison.rules:
        if rule != BASELINE:
            figures = [
                comparison.ratio(_gap, rule, every),
                comparison.ratio(lambda row: row["wrong_eliminations"], rule, every),
                comparison.ratio(_money, rule, every),
                comparison.ratio(_money, rule, every, per=_duration),
            ]
            lines.append(_line([rule, str(len(comparison.seeds(rule, every))), *map(_shown, figures)]))
    return "\n".join(lines)


def _means(comparison: Comparison) -> str:
    lines = [
        "| rule | gap to hindsight | true welfare | TSW of the paper | eliminations | wrong ones | rounds per client |",
        "|---" * 7 + "|",
    ]
    every = comparison.cells
    for rule in comparison.rules:
        figures = [
            comparison.mean(_gap, rule, every),
            comparison.mean(lambda row: row["true_welfare"], rule, every),
            comparison.mean(lambda row: row["tsw"], rule, every),
            *(comparison.amount(name, rule, every) for name in ("eliminations", "wrong_eliminations", "mean_duration")),
        ]
        lines.append(_line([rule, *map(_shown, figures)]))
    return "\n".join(lines)


def _gaps(comparison: Comparison) -> str:
    lines = [
        _line(["experiment, learning rate", "hindsight", *comparison.rules]),
        "|---" * (len(comparison.rules) + 2) + "|",
    ]
    for cell in comparison.cells:
        hindsight = comparison.mean(lambda row: row["hindsight"], BASELINE, [cell])
        gaps = [comparison.mean(_gap, rule, [cell]) for rule in comparison.rules]
        lines.append(_line([_named(cell), _shown(hindsight), *map(_shown, gaps)]))
    return "\n".join(lines)


def _cells(comparison: Comparison) -> str:
    lines = [
        "| experiment, learning rate | rule | welfare lost against measured | eliminations | wrong ones | "
        "error of money | rounds per client |",
        "|---" * 7 + "|",
    ]
    for cell in comparison.cells:
        for rule in comparison.rules:
            figures = [
                comparison.worse(rule, [cell]),
                *(
                    comparison.amount(name, rule, [cell])
                    for name in ("eliminations", "wrong_eliminations", "error_of_money", "mean_duration")
                ),
            ]
            lines.append(_line([_named(cell), rule, *map(_shown, figures)]))
    return "\n".join(lines)


def _named(cell: str) -> str:
    return cell.replace("-0.", ", 0.")


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _shown(interval: Interval) -> str:
    return f"{interval.value:.3f} ({interval.lower:.3f} to {interval.upper:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--update", action="store_true", help="write docs/results/noise.json and noise.md")
    options = parser.parse_args()
    rows = [_rounded(row) for row in json.loads(options.rows.read_text())]
    for name, table in tables(rows).items():
        print(f"\n{name}\n\n{table}")
    if options.update:
        lines = ",\n".join(json.dumps(row) for row in sorted(rows, key=_place))
        (FOLDER / "noise.json").write_text(f"[\n{lines}\n]\n")
        update(FOLDER / "noise.md", tables(rows))


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {name: float(f"{value:.7g}") if isinstance(value, float) else value for name, value in row.items()}


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["cell"], row["seed"], row["mu"], row["rule"]


if __name__ == "__main__":
    main()
