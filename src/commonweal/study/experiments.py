"""The experiments of a study: scenarios by name or file, and their variations, one for each combination of settings."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import product
from pathlib import Path

from commonweal.errors import InputError, ScenarioError
from commonweal.records.rounds import DEFAULT_MECHANISM
from commonweal.scenario.keys import CLIENT_KEYS
from commonweal.scenario.settings import kind_of_setting, setting_keys
from commonweal.scenario.shipped import load, shipped_names
from commonweal.scenario.spec import Scenario
from commonweal.simulation.simulated_task import with_sites
from commonweal.study.result_set import scenario_digest

Settings = Mapping[str, tuple[object, ...]]
"""The values that each dotted key takes in turn."""

_NOT_SETTINGS = {
    "name": "it only gives the scenario a name",
    "description": "it only describes the scenario",
    "seed": "every replication has a seed of its own",
    "mechanism.mu": "a study computes all values of mu together",
    "mechanism.contribution_rule": "a study computes both rules together",
}
_BARE_WORD = re.compile(r"[A-Za-z][\w.-]*")


def parse_settings(texts: Sequence[str]) -> dict[str, tuple[object, ...]]:
    """Settings written as KEY=VALUE,VALUE with TOML values; single words need no quotes."""
    settings: dict[str, tuple[object, ...]] = {}
    for text in texts:
        key, equals, written = (part.strip() for part in text.partition("="))
        if not (key and equals and written):
            raise InputError(
                f"A setting must be written as KEY=VALUE,VALUE, got {text!r}. Write e.g. "
                "learning.learning_rate=0.01,0.1."
            )
        if key in _NOT_SETTINGS:
            raise InputError(f"{key} cannot be varied: {_NOT_SETTINGS[key]}.")
        if key in settings:
            raise InputError(f"{key} is set twice. Write all its values together, separated by commas.")
        kind = kind_of_setting(key)
        if kind is None:
            raise InputError(_unknown(key))
        settings[key] = tuple(dict.fromkeys(kind.checked(key, value) for value in _values(key, written)))
    return settings


def load_experiments(names: Sequence[str], settings: Settings) -> dict[str, Scenario]:
    """The experiments by name; a name is that of a shipped scenario or the path of a file, and must not be repeated."""
    experiments: dict[str, Scenario] = {}
    for name_or_path in names:
        found = _variations(name_or_path, settings)
        for name in found:
            if name in experiments:
                raise InputError(
                    f"Two experiments are called {name!r}. Name each experiment once, and rename a file if two "
                    "have the same name."
                )
        experiments |= found
    return experiments


def _variations(name_or_path: str, settings: Settings) -> dict[str, Scenario]:
    experiment = _name(name_or_path)
    ordered = sorted(settings, key=_place)
    found: dict[str, Scenario] = {}
    by_digest: dict[str, str] = {}
    for values in product(*(settings[key] for key in ordered)):
        chosen = dict(zip(ordered, values, strict=True))
        labels = ",".join(f"{_label(key)}={_text(value)}" for key, value in chosen.items())
        name = f"{experiment}[{labels}]" if labels else experiment
        try:
            scenario = with_sites(load(name_or_path, settings=chosen))
        except ScenarioError as error:
            raise (ScenarioError(f"{name} cannot be run: {error}") if labels else error) from None
        if scenario.mechanism.rules.mechanism != DEFAULT_MECHANISM:
            raise InputError(
                f"{name} uses the mechanism {scenario.mechanism.rules.mechanism!r}, but a study varies mu, which only "
                f"the mechanism {DEFAULT_MECHANISM!r} has. Run it once with `commonweal run` instead."
            )
        twin = by_digest.setdefault(scenario_digest(scenario), name)
        if twin != name:
            raise InputError(
                f"{twin} and {name} are the same scenario, because a key of [defaults] has no effect if every client "
                "has its own value. Set it for a client, as in clients.NAME.KEY."
            )
        found[name] = scenario
    return found


def _name(name_or_path: str) -> str:
    """A shipped scenario's name, or that of a file without its folder and ending."""
    if name_or_path in shipped_names():
        return name_or_path
    stem = Path(name_or_path).stem
    if stem in shipped_names():
        raise InputError(f"{name_or_path} has the same name as a shipped scenario. Rename the file.")
    return stem


def _unknown(key: str) -> str:
    known = [one for one in setting_keys() if one not in _NOT_SETTINGS]
    last = key.rpartition(".")[2]
    close = [one for one in known if one.endswith(last)] or get_close_matches(key, known, n=1)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    of_client = ", ".join(name for name in CLIENT_KEYS if name != "name")
    return (
        f"A scenario has no key {key!r}. {hint}The keys are {', '.join(known)}, and for a single client "
        f"clients.NAME.KEY with {of_client}."
    )


def _values(key: str, written: str) -> list[object]:
    try:
        return _toml_array(written)
    except ValueError:
        parts = [part.strip() for part in written.split(",")]
    try:
        return [part if _BARE_WORD.fullmatch(part) else _toml_array(part)[0] for part in parts]
    except (ValueError, IndexError):
        raise InputError(
            f"The values of {key} must be written as in TOML, separated by commas, got {written!r}. Write e.g. "
            "0.01,0.1 or fedavg,fedbn."
        ) from None


def _toml_array(written: str) -> list[object]:
    document = tomllib.loads(f"values = [{written}]")
    if set(document) != {"values"}:
        raise ValueError
    values: list[object] = document["values"]
    return values


def _place(key: str) -> tuple[int, str]:
    """A sort key, so that the order in which settings are given does not change names."""
    known = setting_keys()
    return (known.index(key) if key in known else len(known)), key


def _label(key: str) -> str:
    """`learning_rate`, or for a single client `north.samples_per_round`."""
    return key.removeprefix("clients.") if key.startswith("clients.") else key.rpartition(".")[2]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)
