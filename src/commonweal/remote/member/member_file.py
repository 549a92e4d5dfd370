"""A member's own file, with what only the member knows. It stays on the member's machine.

Every key is described in docs/reference/flower.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

from commonweal.ledger.keys import read_public_key
from commonweal.records import ProfitsRule
from commonweal.scenario.assembly import read_defect
from commonweal.scenario.keys import CLIENT_KEYS, Keys
from commonweal.scenario.kinds import name, one_of
from commonweal.scenario.spec import DataDefect, ModelDefect
from commonweal.scenario.toml_file import read_tables
from commonweal.scenario.toml_table import TomlTable, present

MEMBER_KEYS: Keys = MappingProxyType(
    {
        "name": name(60, "north"),
        "key_file": name(1000, "node-key"),
        "home": name(1000, "home"),
        "operator_key_file": name(1000, "operator.pub.pem"),
        "profits": one_of(get_args(ProfitsRule)),
        **{
            key: CLIENT_KEYS[key]
            for key in (
                "unit_value",
                "cost_per_sample",
                "cost_per_step",
                "cost_per_round",
                "worth_curve",
                "reported_profit",
            )
        },
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member as it knows itself. Unit value and costs are in units of utility and are never sent."""

    name: str
    key_file: Path  # the SuperNode's private key
    home: Path  # folder with its state, log and statements
    operator_key_file: Path | None = None  # None: the first key that signed something of the ledger is trusted
    profits: ProfitsRule | None = None  # what was agreed on; None: what the first question for a report says
    unit_value: float = 1.0
    cost_per_sample: float = 0.0
    cost_per_step: float = 0.0
    cost_per_round: float = 0.0
    worth_curve: tuple[tuple[float, float], ...] | None = None  # (metric, worth); None: the metric itself
    reported_profit: float | None = None  # for rehearsals: what it reports in every round; None: the truth
    defect: ModelDefect | None = None  # for rehearsals: what it sends instead of its trained model
    folder: Path = field(default_factory=Path)  # of its file; relative paths in its settings start here
    settings: Mapping[str, Any] = field(default_factory=dict)  # the user's own table [task]
    peers: Mapping[str, str] = field(default_factory=dict)  # public keys of other members, where it has them


def read_member(path: Path) -> Member:
    """Read a member's file; paths in it are relative to it."""
    document, faults = read_tables(path, "a member's file", "Write one with `commonweal flower member`.")
    table = TomlTable(given=present(document), path=(), faults=faults)
    values = table.read(MEMBER_KEYS, needed=("name", "key_file", "home"), tables=("task", "defect", "peers"))
    defect = read_defect(table)
    if isinstance(defect, DataDefect):
        faults.add(("defect",), "a member's file cannot have a defect of the data", "Change the member's data instead")
        defect = None
    settings = document.get("task", {})
    if not isinstance(settings, Mapping):
        faults.add(("task",), "task must be a table", "Write [task] above your own keys")
    peers = document.get("peers", {})
    if not isinstance(peers, Mapping) or not all(isinstance(file, str) for file in peers.values()):
        faults.add(
            ("peers",), "peers must be a table of files", 'Write [peers], then lines such as south = "south.pub"'
        )
    faults.raise_if_any()
    for key in ("key_file", "home", "operator_key_file"):
        if key in values:
            values[key] = path.resolve().parent / values[key]
    folder = path.resolve().parent
    keys = {peer: read_public_key(folder / file) for peer, file in peers.items()}
    return Member(**values, defect=defect, settings=settings, folder=folder, peers=keys)
