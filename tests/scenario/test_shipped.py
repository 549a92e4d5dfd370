"""The shipped scenarios are the paper's and a few small ones, and can be had by name."""

from __future__ import annotations

import pytest

from commonweal.data.catalogue import BUILT_IN, EXTERNAL
from commonweal.errors import CommonwealError, ScenarioError
from commonweal.records import Rules
from commonweal.scenario.document import digest, from_document, to_document
from commonweal.scenario.shipped import load, shipped_names, shipped_text
from commonweal.scenario.spec import Duplicates, LabelNoise, MechanismSpec, Noised, Scaled, Untrained
from commonweal.scenario.toml_file import parse_scenario

PAPER = ("heterogeneous", "label-noise", "large-cifar10", "large-mnist", "small-cifar10", "small-mnist")
ON_ORIGINALS = (*PAPER, "equal-mnist", "label-noise-training-only")
BUILT_IN_ONES = ("quickstart", "cheats", "poisoned", "skewed")


def test_the_list():
    assert shipped_names() == (
        "quickstart",
        *sorted([*ON_ORIGINALS, "cheats", "health-insurance", "poisoned", "skewed"]),
    )


@pytest.mark.parametrize("name", shipped_names())
def test_each_can_be_read_and_has_a_description(name):
    scenario = load(name)
    assert scenario.name == name
    assert 10 <= len(scenario.description) <= 100, "one line of a list"
    assert shipped_text(name).startswith("# ")
    assert max(map(len, shipped_text(name).splitlines())) <= 120
    assert from_document(to_document(scenario)) == scenario


def test_no_two_are_the_same():
    assert len({digest(load(name)) for name in shipped_names()}) == len(shipped_names())


@pytest.mark.parametrize("name", ON_ORIGINALS)
def test_what_all_experiments_of_the_paper_share(name):
    scenario = load(name)
    assert scenario.round_count == 15
    assert scenario.mechanism == MechanismSpec(rules=Rules(mu=0.05), measure="marginal")
    assert len(scenario.clients) == 5
    for client in scenario.clients:
        assert client.unit_value == 1
        assert (client.cost_per_sample, client.cost_per_step, client.cost_per_round) == (2e-4, 0, 0)
        assert client.source in EXTERNAL
    assert scenario.learning.algorithm == ("fedbn" if name == "heterogeneous" else "fedavg")
    assert scenario.data.validation_share == 0.3
    assert scenario.data.label_skew is None


@pytest.mark.parametrize(
    ("name", "source", "rates"),
    [
        ("large-mnist", "mnist", [300, 60, 60, 60, 60]),
        ("large-cifar10", "cifar10", [300, 60, 60, 60, 60]),
        ("small-mnist", "mnist", [60, 120, 120, 120, 120]),
        ("small-cifar10", "cifar10", [60, 120, 120, 120, 120]),
        ("label-noise", "mnist", [100] * 5),
        ("equal-mnist", "mnist", [100] * 5),
    ],
)
def test_experiments_on_one_data_set(name, source, rates):
    scenario = load(name)
    assert [client.samples_per_round for client in scenario.clients] == rates
    assert {client.source for client in scenario.clients} == {source}
    first, *others = (client.defect for client in scenario.clients)
    assert first == (LabelNoise(probability=0.3) if name == "label-noise" else None)
    assert others == [None] * 4


def test_the_heterogeneous_experiment():
    scenario = load("heterogeneous")
    assert scenario.client_names == ("mnist", "svhn", "usps", "synthdigits", "mnistm")
    assert [client.source for client in scenario.clients] == ["mnist", "svhn", "usps", "synthdigits-rebuilt", "mnistm"]
    assert {client.samples_per_round for client in scenario.clients} == {100}
    assert "NOT the original" in shipped_text("heterogeneous")
    assert "rebuilt" in scenario.description


@pytest.mark.parametrize("name", BUILT_IN_ONES)
def test_the_small_scenarios_use_only_built_in_sources(name):
    scenario = load(name)
    for source in {client.source for client in scenario.clients}:
        needed = sum(client.samples_per_round for client in scenario.clients if client.source == source)
        assert needed * scenario.round_count <= BUILT_IN[source].sample_count, "enough for every round"


def test_the_quickstart_has_a_small_a_costly_and_a_mislabelling_client():
    scenario = load("quickstart")
    defects = [type(client.defect) for client in scenario.clients]
    assert defects.count(LabelNoise) == 1
    costs = sorted(client.cost_per_sample for client in scenario.clients)
    assert costs[-1] > costs[-2], "one is more costly"


def test_cheats_has_one_client_of_each_defect_and_honest_ones():
    defects = [type(client.defect) for client in load("cheats").clients]
    for kind in (LabelNoise, Duplicates, Untrained, Noised, Scaled):
        assert defects.count(kind) == 1
    assert defects.count(type(None)) >= 2


def test_a_path_is_read(tmp_path, monkeypatch):
    text = shipped_text("skewed").replace('"skewed"', '"mine"')
    (tmp_path / "mine.toml").write_text(text)
    (tmp_path / "mine").write_text(text)
    (tmp_path / "quickstart").write_text(text)
    monkeypatch.chdir(tmp_path)
    expected = parse_scenario(text, "mine.toml")
    for path in (str(tmp_path / "mine.toml"), "mine.toml", "mine", "./quickstart"):
        assert load(path) == expected
    assert load("quickstart").name == "quickstart", "shipped names come first"


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ("quikstart", ["There is no scenario 'quikstart'. Did you mean 'quickstart'?"]),
        ("zzz", ["There is no scenario 'zzz'. Choose one of quickstart, cheats", "ends in .toml"]),
        ("", ["There is no scenario ''. Choose one of"]),
        ("none.toml", ["Cannot read none.toml: no such file"]),
        ("quickstart.toml", ["Cannot read quickstart.toml: no such file", "commonweal init"]),
        ("some/where", ["Cannot read some/where: no such file"]),
        ("..", ["folder"]),
        ("x" * 300, ["Choose one of"]),
    ],
)  # fmt: skip
def test_neither_a_name_nor_a_file_is_refused(given, parts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CommonwealError) as caught:
        load(given)
    for part in parts:
        assert part in str(caught.value)


def test_an_unknown_name_is_refused():
    with pytest.raises(ScenarioError, match=r"There is no shipped scenario 'label_noise'\. Did you mean 'label-noise'"):
        shipped_text("label_noise")
    with pytest.raises(ScenarioError):
        shipped_text("../shipped")


def test_an_error_in_a_file_names_the_file_as_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.toml").write_text("name = 3\n")
    with pytest.raises(ScenarioError, match=r"bad\.toml, line 1: name must be"):
        load("bad.toml")
