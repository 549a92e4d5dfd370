"""The settings of a table task: the table [task] of a scenario or of a member's file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from commonweal.scenario.faults import Faults
from commonweal.scenario.kinds import Kind, number, one_of, whole_number
from commonweal.scenario.lines import KeyPath
from commonweal.scenario.toml_table import TomlTable

TargetKind = Literal["classification", "regression"]
ModelKind = Literal["linear", "mlp"]

# Measured on three real tables: after 8 rounds of 5 iterations, models come within 0.01 of those of pooled rows.
OWN_KEYS = ("table",)  # what a client may set for itself; everything else must be the same for all


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """Defaults are those of a scenario that does not say otherwise."""

    target: str
    table: str | None = None  # None: each client names its own file
    site: str | None = None  # the column that names a row's client; None: one file for each client
    kind: TargetKind | None = None  # None: agreed from the targets
    classes: tuple[str, ...] = ()  # in order; empty: those that occur in the first round
    model: ModelKind = "linear"
    hidden: tuple[int, ...] = (16,)
    learning_rate: float | None = None  # None: that of [learning]
    batch_size: int = 32
    local_epochs: int = 1
    l2: float = 0.0
    columns: tuple[str, ...] = ()  # the features; empty: all columns but target, site, date and those ignored
    ignore: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()  # categories, even if they look like numbers
    missing: tuple[str, ...] = ()  # texts that stand for a missing value, besides the usual ones
    date: str | None = None  # rows arrive by this column; None: in random order
    validation_share: float = 0.3
    minimum_rows: int = 2  # smaller sites are left out


def _text(example: str) -> Kind:
    def read(value: object) -> str:
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            raise ValueError
        return value.strip()

    return Kind(rule="a text in quotes", example=f'"{example}"', read=read)


def _texts(example: str, *, what: str = "names of columns") -> Kind:
    def read(value: object) -> tuple[str, ...]:
        if not isinstance(value, list | tuple) or not all(isinstance(entry, str) for entry in value):
            raise ValueError
        texts = tuple(entry.strip() for entry in value)
        if len(set(texts)) < len(texts):
            raise ValueError
        return texts

    return Kind(rule=f"an array of different {what} in quotes", example=example, read=read)


def _widths() -> Kind:
    def read(value: object) -> tuple[int, ...]:
        if not isinstance(value, list | tuple) or not 1 <= len(value) <= 10:
            raise ValueError
        return tuple(width.read(entry) for entry in value)

    width = whole_number(1, 10_000, example=16)
    return Kind(rule="an array of 1 to 10 whole numbers from 1 to 10000, one per layer", example="[16]", read=read)


KEYS: Mapping[str, Kind] = {
    "table": _text("patients.csv"),
    "site": _text("hospital"),
    "target": _text("died"),
    "kind": one_of(("classification", "regression")),
    "classes": _texts('["no", "yes"]', what="classes"),
    "model": one_of(("linear", "mlp")),
    "hidden": _widths(),
    "learning_rate": number("a number above 0, at most 1000", "0.3", lambda rate: 0 < rate <= 1000),
    "batch_size": whole_number(1, 1_000_000, example=16),
    "local_epochs": whole_number(1, 10_000, example=1),
    "l2": number("a number from 0 to 1000", "0.001", lambda weight: 0 <= weight <= 1000),
    "columns": _texts('["age", "sex"]'),
    "ignore": _texts('["patient_id"]'),
    "categorical": _texts('["ward"]'),
    "missing": _texts('["-9"]', what="texts that stand for a missing value,"),
    "date": _text("admitted"),
    "validation_share": number("a number between 0 and 1, both excluded", "0.3", lambda share: 0 < share < 1),
    "minimum_rows": whole_number(2, 1_000_000, example=20),
}
assert set(KEYS) == {setting.name for setting in fields(TableSettings)}


def read_settings(given: Mapping[str, object], faults: Faults, path: KeyPath = ()) -> TableSettings | None:
    """The settings in the table at `path` of the file that `faults` is about; None if there are faults."""
    found: list[tuple[KeyPath, str, str]] = []

    def refuse(key: str, problem: str, way_out: str) -> None:
        found.append(((*path, key), problem, way_out))

    values = TomlTable(given=given, path=path, faults=faults, title="[task]").read(KEYS, needed=("target",))
    if "site" in values and "table" not in given:
        refuse("site", "site names a column, but table is missing in [task]", 'Add e.g. table = "patients.csv"')
    if "hidden" in values and values.get("model") != "mlp":
        refuse("hidden", "hidden is for the mlp model only", 'Add model = "mlp", or remove hidden')
    if values.get("classes") and values.get("kind") == "regression":
        refuse("classes", "classes is for classification only", "Remove classes or kind")
    if "classes" in values and len(values["classes"]) < 2:
        refuse("classes", "classes must name at least two classes", 'Write e.g. ["no", "yes"]')
    for first, second in (("target", "site"), ("target", "date"), ("site", "date")):
        if first in values and values.get(first) == values.get(second):
            refuse(second, f"{first} and {second} are the same column, {values[first]!r}", "Choose another column")
    for key in ("columns", "categorical"):
        for role in ("target", "site"):
            if values.get(role) in values.get(key, ()):
                refuse(key, f"{values[role]!r} is the {role}, so it cannot be in {key}", "Remove it there")
    for column in sorted(set(values.get("columns", ())) & set(values.get("ignore", ()))):
        refuse("ignore", f"{column!r} is in columns and in ignore", "Remove it in one of them")
    for fault in found:
        faults.add(*fault)
    if found or set(given) - set(values) or "target" not in values:
        return None
    return TableSettings(**values)


def checked_settings(given: Mapping[str, Any], origin: str) -> TableSettings:
    """The settings; one ScenarioError tells all faults. `origin` is how messages name the table of settings."""
    faults = Faults(origin)
    settings = read_settings(given, faults)
    faults.raise_if_any()
    assert settings is not None
    return settings
