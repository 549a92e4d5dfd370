"""All rules on one cell with one seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.noise.cells import MUS
from benchmarks.noise.histories import Histories
from benchmarks.noise.outcome import follow
from benchmarks.noise.rules import RULES

from commonweal.scenario.spec import Scenario


def compared(name: str, scenario: Scenario, folder: Path, data: Path) -> list[dict[str, Any]]:
    """The rows of one cell with one seed."""
    return list(_rows(name, Histories(scenario, folder / name, data)))


def _rows(name: str, histories: Histories) -> Iterator[dict[str, Any]]:
    cell, _, seed = name.partition("/")
    for mu in MUS:
        for rule in RULES:
            outcome = follow(histories, rule, mu)
            yield {"cell": cell, "seed": int(seed), "mu": mu, "rule": rule.name, **asdict(outcome)}
