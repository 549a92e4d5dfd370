"""One table at a time: the values that are good, and faults for what is bad, missing or unknown."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from commonweal.scenario.faults import Faults, shown
from commonweal.scenario.keys import CLIENT_KEYS, SCENARIO_KEYS, TABLE_KEYS, Keys
from commonweal.scenario.lines import KeyPath


@dataclass(frozen=True, slots=True, kw_only=True)
class TomlTable:
    """A table as it was given, where it stands, and how to speak of it."""

    given: Mapping[str, object]
    path: KeyPath
    title: str  # e.g. "a client"
    faults: Faults
    whose: str = ""  # e.g. " for client 'north'"

    def read(self, keys: Keys, *, needed: Collection[str] = (), tables: tuple[str, ...] = ()) -> dict[str, Any]:
        """The good values of these keys; `tables` are further keys that the caller reads itself."""
        self._refuse_unknown((*keys, *tables))
        values: dict[str, Any] = {}
        for key, kind in keys.items():
            if key in self.given:
                try:
                    values[key] = kind.read(self.given[key])
                except (ValueError, OverflowError):
                    whose = "" if key == "name" else self.whose
                    evidence = f"{shown(self.given[key])}{whose}"
                    self.faults.add((*self.path, key), f"{key} must be {kind.rule}", evidence, kind.way_out)
            elif key in needed:
                way_out = f"add e.g. {key} = {kind.example}"
                self.faults.add(self.path, f"{self.title} must have {key}", f"none{self.whose}", way_out)
        return values

    def _refuse_unknown(self, known: tuple[str, ...]) -> None:
        for key in self.given:
            if key not in known:
                rule = f"a key of {self.title} must be one of {', '.join(known)}"
                self.faults.add(
                    (*self.path, key), rule, f"{shown(key)}{self.whose}", _better_key(key, known, self.title)
                )


def present(table: Mapping[str, object]) -> dict[str, object]:
    """Without what is null: so JSON writes what is left out."""
    return {key: value for key, value in table.items() if value is not None}


def _better_key(key: str, known: tuple[str, ...], title: str) -> str:
    """The way out for an unknown key: the place that knows it, or a key that looks like it."""
    close = get_close_matches(key.lower().replace("-", "_"), known, n=1, cutoff=0.8)
    if close:
        return f"did you mean {close[0]!r}?"
    if "kind" in known and key in CLIENT_KEYS:
        return "move it up to its client's keys, above the defect"
    for name, keys in TABLE_KEYS.items():
        if key in keys and title != f"[{name}]":
            return f"move it below [{name}]"
    if key in SCENARIO_KEYS:
        return "move it to the top of the file, above the first [table]"
    if key == "defect":
        return "move it below the [[clients]] of the client that has it"
    close = get_close_matches(key.lower(), known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else "drop it"
