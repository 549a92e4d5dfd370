"""The reference page knows every key, with the values, defaults and limits of the code."""

from __future__ import annotations

import math
import re
import tomllib
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from commonweal.records import Rates, Rules
from commonweal.records.rounds import DEFAULT_MECHANISM
from commonweal.scenario import keys
from commonweal.scenario.algorithms import ALGORITHMS
from commonweal.scenario.assembly import DEFAULT_SEED, NEEDED_OF_CLIENT, NEEDED_OF_SCENARIO
from commonweal.scenario.shipped import shipped_names
from commonweal.scenario.spec import ClientSpec, DataSpec, LearningSpec, MechanismSpec, TaskSpec
from commonweal.scenario.toml_file import parse_scenario
from commonweal.tables.settings import KEYS, TableSettings
from commonweal.task.metrics import METRICS
from tests.scenario.small import SMALL, client

PAGE = (Path(__file__).parents[2] / "docs/reference/scenario.md").read_text(encoding="utf-8")
REQUIRED = "required"


def sections():
    """Title → rows of its table, each a list of cells."""
    found = {}
    for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in body.splitlines() if line[:1] == "|"]
        found[title] = rows[2:]
    return found


SECTIONS = sections()


def documented_default(cell):
    if cell == REQUIRED:
        return REQUIRED
    value = None if cell == "none" else tomllib.loads(f"value = {cell.strip('`')}")["value"]
    return tuple(value) if isinstance(value, list) else value


def defaults_of(*records, needed):
    found = {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for record in records
        for field in fields(record)
    }
    return {name: REQUIRED if name in needed else value for name, value in found.items()}


TABLES = {
    "Top of the file": (
        keys.SCENARIO_KEYS,
        {"name": REQUIRED, "description": "", "rounds": REQUIRED, "seed": DEFAULT_SEED},
    ),
    "`[mechanism]`": (
        keys.MECHANISM_KEYS,
        {
            **defaults_of(Rules, MechanismSpec, needed=("mu",)),
            "kind": DEFAULT_MECHANISM,
            "contribution": {field.name: field.default for field in fields(MechanismSpec)}["measure"],
            "profits": "private",
        },
    ),
    "`[rates]`": (keys.RATES_KEYS, defaults_of(Rates, needed=("gain",))),
    "`[learning]`": (keys.LEARNING_KEYS, defaults_of(LearningSpec, needed=())),
    "`[data]`": (keys.DATA_KEYS, defaults_of(DataSpec, needed=())),
    "`[[clients]]` and `[defaults]`": (
        {**keys.CLIENT_KEYS, "defect": None, "settings": None},
        {**defaults_of(ClientSpec, needed=NEEDED_OF_CLIENT["images"]), "class": None},
    ),
    "`[task]`": (
        {"file": KEYS["table"], **keys.TASK_KEYS},
        {"file": None, "metric": TaskSpec().metric_name, "lower_is_better": TaskSpec().lower_is_better},
    ),
    "Tables": (KEYS, defaults_of(TableSettings, needed=("target",))),
}


@pytest.mark.parametrize("title", TABLES)
def test_keys_and_defaults(title):
    table, defaults = TABLES[title]
    rows = {row[0].strip("`"): row for row in SECTIONS[title]}
    assert list(rows) == list(table), "every key, in the order of the code"
    for key, (_, _, default, meaning) in rows.items():
        assert documented_default(default) == defaults[key], key
        assert meaning


@pytest.mark.parametrize("title", [title for title in TABLES if "clients" not in title])
def test_values_are_those_of_the_rules(title):
    table, _ = TABLES[title]
    for key, value, *_ in SECTIONS[title]:
        rule = table[key.strip("`")].rule
        if key == "`algorithm`":
            assert "](#algorithms)" in value
        elif rule.startswith("one of "):
            choices = rule.removeprefix("one of ").split(", ")
            documented = re.findall(r'"([^"]+)"', value)
            # Mechanisms and measures may be added without this page; it names those that exist, in their order.
            open_lists = ("`kind`", "`contribution`")
            known = [choice for choice in choices if choice in documented] if key in open_lists else choices
            assert documented == known, key
        elif "whole number" in rule and key != "`seed`":
            assert re.findall(r"\d+", value) == re.findall(r"\d+", rule), key


def test_every_metric_is_named():
    (cell,) = [meaning for key, *_, meaning in SECTIONS["`[task]`"] if key == "`metric`"]
    assert re.findall(r"`([a-z0-9-]+)`", cell) == [*METRICS, "file"]


def test_needed_keys_of_the_scenario():
    assert {key for key, default in TABLES["Top of the file"][1].items() if default == REQUIRED} == set(
        NEEDED_OF_SCENARIO
    )


def test_the_smallest_scenario_relies_on_the_documented_defaults():
    """The defaults of seed and description come from the parser, not from a dataclass."""
    assert parse_scenario(SMALL, "x").seed == DEFAULT_SEED
    assert parse_scenario(SMALL, "x").description == ""


def test_algorithms():
    """What the page says is true; algorithms that it does not mention work as well."""
    for name, key, value, default, meaning in SECTIONS["Algorithms"]:
        parameters = ALGORITHMS[name.strip("`")].parameters
        assert meaning
        if not key:
            assert not parameters, name
            continue
        parameter = parameters[key.strip("`")]
        assert parameter.kind.rule == f"a {value}"
        assert documented_default(default) == parameter.default


def test_defects():
    documented = {}
    for kind, key, _, default, _ in SECTIONS["Defects"]:
        documented.setdefault(kind.strip("`"), {}).update({key.strip("`"): default} if key else {})
    assert list(documented) == list(keys.DEFECTS)
    for kind, (make, defect_keys) in keys.DEFECTS.items():
        assert list(documented[kind]) == list(defect_keys)
        for field in fields(make):
            expected = REQUIRED if field.default is MISSING else field.default
            assert documented_default(documented[kind][field.name]) == expected


def test_shipped_names():
    assert sorted(row[0].strip("`") for row in SECTIONS["Shipped scenarios"]) == sorted(shipped_names())


def test_examples_on_the_page():
    (example,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    parse_scenario(example, "the page")
    (written,) = re.findall(r"`(defect = [^`]+)`", PAGE)
    assert parse_scenario(client(written), "the page").clients[0].defect is not None
    (sentence,) = re.findall(r"^    error: (.*)$", PAGE, re.MULTILINE)
    spoilt = example.replace('"north"\n', '"north"\nsamples_per_round = -5\n')
    with pytest.raises(ValueError, match=re.escape(sentence)):
        parse_scenario(spoilt, "my.toml")


def test_infinity_may_be_written_both_ways():
    for written in ("inf", '"inf"'):
        assert f"`{written}`" in PAGE
        assert parse_scenario(SMALL.replace("0.05", written), "x").mechanism.rules.mu == math.inf
