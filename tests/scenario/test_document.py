"""A scenario as a document: complete, the same for the same content, and back again."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.errors import CommonwealError
from commonweal.records import Rules
from commonweal.scenario.document import digest, from_document, to_document
from commonweal.scenario.spec import (
    ClientSpec,
    DataSpec,
    Duplicates,
    LabelFlip,
    LabelNoise,
    LearningSpec,
    MechanismSpec,
    Noised,
    NoisedUpdate,
    Scaled,
    Scenario,
    SignFlip,
    Untrained,
)
from commonweal.scenario.toml_file import parse_scenario
from tests.scenario.small import SMALL

amounts = st.just(0.0) | st.floats(1e-30, 1e30)
shares = st.floats(0, 1).map(abs)
defects = st.one_of(
    st.none(),
    st.builds(LabelNoise, probability=shares, training_only=st.booleans()),
    st.builds(Duplicates, fraction=st.floats(0, 1, exclude_max=True).map(abs)),
    st.builds(Untrained),
    st.builds(Noised, deviation=st.floats(0, 1e6, exclude_min=True)),
    st.builds(Scaled, factor=st.floats(-1e6, 1e6).map(lambda factor: factor + 0.0)),
    st.builds(LabelFlip, fraction=shares, training_only=st.booleans()),
    st.builds(SignFlip, factor=st.floats(0, 1e6, exclude_min=True)),
    st.builds(NoisedUpdate, ratio=st.floats(0, 1e6, exclude_min=True)),
)
clients = st.builds(
    ClientSpec,
    name=st.from_regex(r"[a-zé一][a-zé一 ]{0,8}[a-z]", fullmatch=True),
    source=st.sampled_from(["mnist", "mnist-5k", "my source"]),
    samples_per_round=st.floats(0, 1e6, exclude_min=True),
    unit_value=amounts,
    cost_per_sample=amounts,
    cost_per_step=amounts,
    cost_per_round=amounts,
    defect=defects,
    reported_profit=st.none() | amounts | amounts.map(lambda amount: 0.0 - amount),
)
rules = st.builds(
    Rules,
    mu=st.sampled_from([0.0, math.inf]) | st.floats(1e-50, 1e50),
    contribution_rule=st.sampled_from(["clip", "raw"]),
    loss_rule=st.sampled_from(["contribution", "equal", "cost", "loss"]),
    liability_cap=st.none() | amounts,
)
measures = st.one_of(
    st.tuples(st.sampled_from(["quantity", "marginal", "shapley"]), st.none()),
    st.tuples(st.sampled_from(["adaptive", "leverage", "tmc", "gtg"]), st.integers(64, 10_000_000)),
)
learnings = st.builds(
    LearningSpec,
    model=st.sampled_from(["compact", "fedbn-digits"]),
    algorithm=st.sampled_from(["fedavg", "fedbn", "scaffold"]),
    learning_rate=st.floats(0, 1e30, exclude_min=True),
    batch_size=st.integers(3, 1024),
    local_epochs=st.integers(1, 10_000),
    iteration_limit=st.integers(1, 10_000),
    stop_below=shares,
    score=st.sampled_from(["hit", "probability"]),
)
fedprox = st.builds(
    lambda spec, weight: replace(spec, algorithm="fedprox", parameters={"proximal_weight": weight}),
    learnings,
    st.floats(0, 1e6).map(abs),
)


@st.composite
def scenarios(draw):
    measure, limit = draw(measures)
    return Scenario(
        name=draw(st.from_regex(r"[!-~é一]{1,60}", fullmatch=True)),
        description=draw(st.from_regex(r"([!-~]+( [!-~]+){0,5})?", fullmatch=True)),
        round_count=draw(st.integers(1, 10_000)),
        seed=draw(st.integers(0, 2**63 - 1)),
        clients=tuple(draw(st.lists(clients, min_size=2, max_size=8, unique_by=lambda client: client.name))),
        mechanism=MechanismSpec(
            rules=draw(rules),
            grace_rounds=draw(st.integers(0, 10_000)),
            measure=measure,
            evaluation_limit=limit,
            figures=draw(st.sampled_from(["measured", "pooled", "forecast"])),
        ),
        data=DataSpec(
            validation_share=draw(st.floats(0, 1, exclude_min=True, exclude_max=True)),
            label_skew=draw(st.none() | st.floats(1e-3, 1e6)),
        ),
        learning=draw(learnings | fedprox),
    )


@given(scenarios())
def test_the_document_leads_back_to_the_scenario(scenario):
    document = to_document(scenario)
    assert from_document(document) == scenario
    through_json = json.loads(json.dumps(document, allow_nan=False))
    assert from_document(through_json) == scenario
    assert list(through_json) == list(document)
    assert digest(from_document(through_json)) == digest(scenario)


@given(scenarios(), st.integers(0, 2**63 - 1))
def test_other_content_has_another_digest(scenario, seed):
    assert (digest(replace(scenario, seed=seed)) == digest(scenario)) == (seed == scenario.seed)


def test_how_the_file_is_written_does_not_matter():
    other = """# another
        seed = 1
        rounds = 8
        name = 'tr\\u0069al'
        clients = [
            { name = "north", unit_value = 1, samples_per_round = 1e2, source = "mnist-5k", cost_per_step = -0.0 },
            { samples_per_round = 100, source = "mnist-5k", name = "south" },
        ]
        learning.algorithm = "fedavg"
        mechanism = { grace_rounds = 0, contribution = "marginal", mu = 5e-2 }
    """.replace("'tr\\u0069al'", '"tr\\u0069al"')
    assert digest(parse_scenario(other, "b.toml")) == digest(parse_scenario(SMALL, "a.toml"))


def test_the_document_is_complete_and_in_order():
    document = to_document(parse_scenario(SMALL, "a.toml"))
    assert list(document) == ["name", "description", "rounds", "seed", "mechanism", "learning", "data", "clients"]
    assert document["mechanism"] == {
        "mu": 0.05,
        "contribution": "marginal",
        "contribution_rule": "clip",
        "loss_rule": "contribution",
        "liability_cap": None,
        "grace_rounds": 0,
        "evaluation_limit": None,
    }
    assert document["clients"][1] == {
        "name": "south",
        "source": "mnist-5k",
        "samples_per_round": 100.0,
        "unit_value": 1.0,
        "cost_per_sample": 0.0,
        "cost_per_step": 0.0,
        "cost_per_round": 0.0,
        "defect": None,
    }


def test_rules_without_effect_are_null():
    scenario = parse_scenario(SMALL.replace("mu = 0.05", 'kind = "fli"\nomega = 2'), "a.toml")
    document = to_document(scenario)
    assert document["mechanism"] == {
        "mu": None,
        "contribution": "marginal",
        "contribution_rule": None,
        "loss_rule": None,
        "liability_cap": None,
        "kind": "fli",
        "omega": 2.0,
        "grace_rounds": 0,
        "evaluation_limit": None,
    }
    assert from_document(document) == scenario


def test_infinite_mu_is_written_as_inf():
    assert to_document(parse_scenario(SMALL.replace("0.05", "inf"), "a.toml"))["mechanism"]["mu"] == "inf"


def test_a_document_is_refused_with_the_places_of_its_errors():
    document = to_document(parse_scenario(SMALL, "a.toml"))
    document["clients"][1]["defect"] = {"kind": "scaled", "factor": True}
    document["rounds"] = None
    with pytest.raises(CommonwealError) as caught:
        from_document(document, "history.json")
    message = str(caught.value)
    assert "history.json: rounds is missing. Add e.g. rounds = 8." in message
    assert "history.json, clients[1].defect.factor: factor must be a number" in message
    assert "got true for client 'south'." in message
