"""Rules on one cell with one seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.noise.cells import MUS
from benchmarks.noise.histories import Histories
from benchmarks.noise.outcome import follow
from benchmarks.noise.rules import RULES, Rule

from commonweal.scenario.spec import Scenario


def compared(
    name: str, scenario: Scenario, rule_names: Sequence[str], folder: Path, data: Path
) -> list[dict[str, Any]]:
    """The rows of one cell with one seed."""
    rules = [rule for rule in RULES if rule.name in rule_names]
    return list(_rows(name, Histories(scenario, folder / name, data), rules))


def _rows(name: str, histories: Histories, rules: Sequence[Rule]) -> Iterator[dict[str, Any]]:
    cell, _, seed = name.partition("/")
    for mu in MUS:
        for rule in rules:
            outcome = follow(histories, rule, mu)
            yield {"cell": cell, "seed": int(seed), "mu": mu, "rule": rule.name, **asdict(outcome)}
