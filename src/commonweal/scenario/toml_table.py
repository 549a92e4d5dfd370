"""One table at a time: the values that are valid, and an error for each that is invalid, missing or unknown."""

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
    """A table as it was given, its place in the file, and how messages name it."""

    given: Mapping[str, object]
    path: KeyPath
    faults: Faults
    title: str = ""  # e.g. "[mechanism]"; empty for the top of a file and for clients
    whose: str = ""  # e.g. " for client 'north'"

    def read(self, keys: Keys, *, needed: Collection[str] = (), tables: tuple[str, ...] = ()) -> dict[str, Any]:
        """The valid values of these keys; `tables` are further keys that the caller reads itself."""
        self._refuse_unknown((*keys, *tables))
        values: dict[str, Any] = {}
        for key, kind in keys.items():
            if key in self.given:
                try:
                    values[key] = kind.read(self.given[key])
                except (ValueError, OverflowError):
                    whose = "" if key == "name" else self.whose
                    problem = f"{key} must be {kind.rule}, got {shown(self.given[key])}{whose}"
                    self.faults.add((*self.path, key), problem, kind.way_out)
            elif key in needed:
                self.faults.add(
                    self.path, f"{key} is missing{self._inside}{self.whose}", f"Add e.g. {key} = {kind.example}"
                )
        return values

    def _refuse_unknown(self, known: tuple[str, ...]) -> None:
        for key in self.given:
            if key not in known:
                problem = f"unknown key {shown(key)}{self._inside}{self.whose}"
                self.faults.add((*self.path, key), problem, _better_key(key, known, self.title))

    @property
    def _inside(self) -> str:
        return f" in {self.title}" if self.title else ""


def present(table: Mapping[str, object]) -> dict[str, object]:
    """Without nulls, which is how JSON writes keys that are left out."""
    return {key: value for key, value in table.items() if value is not None}


def _better_key(key: str, known: tuple[str, ...], title: str) -> str:
    """What to do about an unknown key: the table that has it, a key that looks like it, or the list of known keys."""
    close = get_close_matches(key.lower().replace("-", "_"), known, n=1, cutoff=0.8)
    if close:
        return f"Did you mean {close[0]!r}?"
    if "kind" in known and key in CLIENT_KEYS:
        return "Move it to its client's keys, above the defect"
    for name, keys in TABLE_KEYS.items():
        if key in keys and title != f"[{name}]":
            return f"Move it below [{name}]"
    if key in SCENARIO_KEYS:
        return "Move it to the top of the file, above the first [table]"
    if key in ("defect", "reported_profit"):
        return "Move it below the [[clients]] of the client that has it"
    close = get_close_matches(key.lower(), known, n=1, cutoff=0.5)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"Remove it. Known keys: {', '.join(known)}"
