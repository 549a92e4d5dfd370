"""A scenario for the user's own table, after a look at it."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from commonweal.scenario.toml_text import toml_value
from commonweal.tables.packaged import is_packaged
from commonweal.tables.summary import IdentifierError
from commonweal.tables.task import TableTask
from commonweal.task.records import TaskMember
from commonweal.valuation.registry import MEASURES

ROUNDS = 4
_EXACT_SITES = 8  # exact Shapley values of more sites take many models
_NOTES_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTable:
    """A table, and the scenario that was written for it."""

    sentence: str  # how many sites, rows and columns, to follow "patients.csv has"
    notes: tuple[str, ...]  # what its owner should know
    scenario: str


def describe_table(table: Path, *, site: str, target: str, scenario: Path) -> DescribedTable:
    """Look at the table as a run would, and refuse what a run would refuse; `scenario` is where its text will be."""
    place = str(table) if is_packaged(str(table)) else _relative(table, scenario)
    settings: dict[str, Any] = {"table": place, "site": site, "target": target}
    notes: list[str] = []
    while True:
        task = TableTask(settings)
        sites = task.sites(scenario.parent)
        members = [TaskMember(name=name, folder=scenario.parent, round_count=ROUNDS) for name in sites]
        try:
            for member in members:  # names show in all rows, but perhaps not in the few of the first round
                task.summarise(replace(member, round_count=1))
            agreed = task.agree({member.name: task.summarise(member) for member in members})
            break
        except IdentifierError as error:
            settings["ignore"] = [*settings.get("ignore", []), error.column]
            notes.append(
                f"Column {error.column!r} looks like a name or an identifier, so it is in ignore. List it in "
                "categorical instead if these are categories that others may see."
            )
    notes += [*task.table_notes(scenario.parent), *agreed["notes"]]
    for member in members:
        notes += task.notes(replace(member, agreed=agreed))
    notes = list(dict.fromkeys(notes))
    described = _sentence(sites, agreed, task.describe(agreed))
    return DescribedTable(
        sentence=described,
        notes=(*notes[:_NOTES_SHOWN], *_more(len(notes) - _NOTES_SHOWN)),
        scenario=_scenario(settings, sites, agreed, f"{table.name} has {described}", scenario),
    )


def _relative(table: Path, scenario: Path) -> str:
    """The path of the table as seen from the scenario's folder."""
    return Path(os.path.relpath(table.resolve(), scenario.resolve().parent)).as_posix()


def _sentence(sites: Mapping[str, int], agreed: Mapping[str, Any], words: Mapping[str, str]) -> str:
    smallest = min(sites, key=lambda name: sites[name])
    return (
        f"{len(sites)} sites with {sum(sites.values())} rows in all, the fewest ({sites[smallest]}) at {smallest!r}. "
        f"Target: {words['target']}. Features: {words['features']}."
    )


def _scenario(
    settings: Mapping[str, Any], sites: Mapping[str, int], agreed: Mapping[str, Any], sentence: str, path: Path
) -> str:
    text = (files("commonweal.tables") / "starter_files" / "scenario.toml").read_text(encoding="utf-8")
    ignore = settings.get("ignore", [])
    return Template(text).substitute(
        sentence=_comment(sentence),
        name=toml_value(path.stem[:60]),
        rounds=str(ROUNDS),
        table=toml_value(settings["table"]),
        site=f"{_value('site', settings['site'])}# each value of this column is a client",
        target=f"{_value('target', settings['target'])}# what is predicted",
        metric=f"{_value('metric', _metric(agreed))}# {_other_metrics(agreed)}",
        ignore=f"ignore = {toml_value(ignore)}"
        if ignore
        else '# ignore = ["patient_id"]       # columns not to learn from',
        contribution=_contribution(len(sites)),
        first=toml_value(next(iter(sites))),
    )


def _comment(sentence: str) -> str:
    """The sentence as a comment; names in it may hold anything, but no line of it may end early."""
    plain = "".join(character if character.isprintable() else " " for character in sentence)
    return textwrap.fill(plain, 119, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def _value(key: str, value: object) -> str:
    """A line of TOML, up to the column of the comments."""
    return f"{f'{key} = {toml_value(value)}':<32}"


def _metric(agreed: Mapping[str, Any]) -> str:
    if agreed["kind"] == "regression":
        return "r2"
    return "roc-auc" if len(agreed["classes"]) == 2 else "accuracy"


def _other_metrics(agreed: Mapping[str, Any]) -> str:
    if agreed["kind"] == "regression":
        return "or mean-absolute-error"
    others = ("roc-auc", "accuracy", "balanced-accuracy", "average-precision", "f1")
    return f"or {', '.join(name for name in others if name != _metric(agreed))}"


def _contribution(site_count: int) -> str:
    comment = "each site's fair share of what all achieve"
    if site_count <= _EXACT_SITES:
        return f"{_value('contribution', 'shapley')}# {comment}"
    limit = max(64, 4 * MEASURES["adaptive"].fewest_evaluations(site_count))
    return (
        f"{_value('contribution', 'adaptive')}# {comment}, estimated\n"
        f"{_value('evaluation_limit', limit)}# models of groups of sites per round"
    )


def _more(count: int) -> list[str]:
    return [f"There are {count} more notes. The report lists all of them."] if count > 0 else []
