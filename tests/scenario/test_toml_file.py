"""What a scenario file may say."""

from __future__ import annotations

import math

import pytest

from commonweal.records import Rules
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
from commonweal.scenario.toml_file import SIZE_LIMIT, parse_scenario, read_scenario
from tests.scenario.small import SMALL


def test_the_smallest_scenario_has_the_defaults_of_the_records():
    assert parse_scenario(SMALL, "my.toml") == Scenario(
        name="trial",
        description="",
        round_count=8,
        seed=1,
        clients=tuple(ClientSpec(name=name, source="mnist-5k", samples_per_round=100.0) for name in ("north", "south")),
        mechanism=MechanismSpec(rules=Rules(mu=0.05)),
        data=DataSpec(),
        learning=LearningSpec(),
    )


def test_every_key_arrives():
    text = """
        name = "full"
        description = '''
          two
          lines'''
        rounds = 3
        seed = 9223372036854775807
        [mechanism]
        mu = inf
        contribution = "tmc"
        contribution_rule = "raw"
        loss_rule = "cost"
        liability_cap = 0.25
        grace_rounds = 2
        evaluation_limit = 64
        [learning]
        model = "fedbn-digits"
        algorithm = "fedprox"
        learning_rate = 0.1
        batch_size = 16
        local_epochs = 2
        iteration_limit = 7
        stop_below = 0
        proximal_weight = 1
        score = "probability"
        [data]
        validation_share = 0.4
        label_skew = 0.5
        [defaults]
        source = "usps"
        samples_per_round = 10
        unit_value = 2
        cost_per_sample = 1e-3
        cost_per_step = 1e-5
        cost_per_round = 0.01
        [[clients]]
        name = "a"
        source = "mnist"
        samples_per_round = 20.5
        unit_value = 3.0
        cost_per_sample = 4
        cost_per_step = 5
        cost_per_round = -0.0
        defect = { kind = "label-noise", probability = 0.3, training_only = true }
        [[clients]]
        name = " b "
        [clients.defect]
        kind = "duplicates"
        fraction = 0
        [[clients]]
        name = "c"
        defect.kind = "untrained"
        [[clients]]
        name = "d"
        defect = { kind = "noised", deviation = 0.02 }
        [[clients]]
        name = "e"
        defect = { kind = "scaled", factor = -2 }
        [[clients]]
        name = "f"
        defect.kind = "label-flip"
        reported_profit = -0.5
        [[clients]]
        name = "g"
        defect = { kind = "sign-flip" }
        reported_profit = 0
        [[clients]]
        name = "h"
        defect = { kind = "noised-update", ratio = 2 }
    """
    usps = {
        "source": "usps",
        "samples_per_round": 10.0,
        "unit_value": 2.0,
        "cost_per_sample": 1e-3,
        "cost_per_step": 1e-5,
        "cost_per_round": 0.01,
    }
    parsed = parse_scenario(text, "my.toml")
    assert parsed == Scenario(
        name="full",
        description="two lines",
        round_count=3,
        seed=2**63 - 1,
        mechanism=MechanismSpec(
            rules=Rules(mu=math.inf, contribution_rule="raw", loss_rule="cost", liability_cap=0.25),
            grace_rounds=2,
            measure="tmc",
            evaluation_limit=64,
        ),
        learning=LearningSpec(
            model="fedbn-digits",
            algorithm="fedprox",
            learning_rate=0.1,
            batch_size=16,
            local_epochs=2,
            iteration_limit=7,
            stop_below=0.0,
            parameters={"proximal_weight": 1.0},
            score="probability",
        ),
        data=DataSpec(validation_share=0.4, label_skew=0.5),
        clients=(
            ClientSpec(
                name="a",
                source="mnist",
                samples_per_round=20.5,
                unit_value=3.0,
                cost_per_sample=4.0,
                cost_per_step=5.0,
                cost_per_round=0.0,
                defect=LabelNoise(probability=0.3, training_only=True),
            ),
            ClientSpec(name="b", defect=Duplicates(fraction=0.0), **usps),
            ClientSpec(name="c", defect=Untrained(), **usps),
            ClientSpec(name="d", defect=Noised(deviation=0.02), **usps),
            ClientSpec(name="e", defect=Scaled(factor=-2.0), **usps),
            ClientSpec(name="f", defect=LabelFlip(fraction=1.0, training_only=False), reported_profit=-0.5, **usps),
            ClientSpec(name="g", defect=SignFlip(factor=1.0), reported_profit=0.0, **usps),
            ClientSpec(name="h", defect=NoisedUpdate(ratio=2.0), **usps),
        ),
    )
    assert math.copysign(1, parsed.clients[0].cost_per_round) == 1
    assert isinstance(parsed.clients[0].cost_per_sample, float)
    assert parsed.client_names == tuple("abcdefgh")


@pytest.mark.parametrize("written", ["inf", "+inf", '"inf"', "0", "1e-50", "1e50", "3"])
def test_every_way_to_write_mu(written):
    text = SMALL.replace("mu = 0.05", f"mu = {written}")
    assert parse_scenario(text, "my.toml").mechanism.rules.mu == float(written.strip('"'))


def test_files(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text(SMALL)
    assert read_scenario(path) == parse_scenario(SMALL, "elsewhere")
    path.write_bytes(b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode())
    assert read_scenario(path) == parse_scenario(SMALL, "elsewhere")
    path.write_text(SMALL + "# " + "x" * (SIZE_LIMIT - len(SMALL) - 2))
    assert read_scenario(path) == parse_scenario(SMALL, "elsewhere")
