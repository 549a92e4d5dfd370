"""All keys of a scenario and their kinds. Defaults are those of the dataclasses in `spec`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, get_args

from commonweal.decision.mechanism import Mechanism, Parameter
from commonweal.decision.mechanisms import MECHANISMS
from commonweal.records import ContributionRule, EndingRule, FiguresRule, HarmRule, LossRule, ProfitsRule
from commonweal.records.rounds import FILE_PREFIX
from commonweal.scenario.algorithms import ALGORITHMS, parameter_kinds
from commonweal.scenario.kinds import (
    Kind,
    amount,
    curve,
    leniency,
    name,
    number,
    one_of,
    prose,
    signed_amount,
    truth,
    whole_number,
)
from commonweal.scenario.spec import (
    ContributionScore,
    Defect,
    Duplicates,
    LabelFlip,
    LabelNoise,
    ModelName,
    Noised,
    NoisedUpdate,
    Scaled,
    ScoreName,
    SignFlip,
    Untrained,
    UtilityRule,
)
from commonweal.valuation.registry import MEASURES
from commonweal.valuation.scorers import ScorersRule

Keys = Mapping[str, Kind]

FEWEST_CLIENTS, MOST_CLIENTS = 2, 1000
MOST_ROUNDS = 10_000
RAW_RULE_CLIENTS = 20  # the raw rule tries all sets of loss-makers
LARGEST_FACTOR = 1e6

SCENARIO_KEYS: Keys = MappingProxyType(
    {
        "name": name(60, "my-federation"),
        "description": prose(1000),
        "rounds": whole_number(1, MOST_ROUNDS, example=8),
        "seed": whole_number(0, 2**63 - 1, example=1),
    }
)


def _kind_of_mechanism() -> Kind:
    """A name in the registry, or a user's own file, which is read where the folder is known."""
    names = one_of(tuple(MECHANISMS))

    def read(value: object) -> Any:
        is_file = isinstance(value, str) and value.startswith(FILE_PREFIX) and len(value) > len(FILE_PREFIX)
        return value if is_file else names.read(value)

    return replace(names, read=read, rule=f'{names.rule}, or a file of your own such as "file:my_mechanism.py"')


MECHANISM_KEYS: Keys = MappingProxyType(
    {
        "kind": _kind_of_mechanism(),
        "mu": leniency(),
        "contribution": one_of(tuple(MEASURES)),
        "contribution_rule": one_of(get_args(ContributionRule)),
        "loss_rule": one_of(get_args(LossRule)),
        "liability_cap": amount("0.1", hint="Write e.g. 0.1, or leave it out for no cap"),
        "grace_rounds": whole_number(0, MOST_ROUNDS, example=0),
        "evaluation_limit": whole_number(1, 10_000_000, example=64),
        "utility": one_of(get_args(UtilityRule)),
        "contribution_score": one_of(get_args(ContributionScore)),
        "scorers": one_of(get_args(ScorersRule)),
        "figures": one_of(get_args(FiguresRule)),
        "profits": one_of(get_args(ProfitsRule)),
        "harm": one_of(get_args(HarmRule)),
        "ending": one_of(get_args(EndingRule)),
    }
)
RATES_KEYS: Keys = MappingProxyType(  # and a table `classes`, with these keys for each class
    {"gain": amount("1.0"), "sample": amount("2e-4"), "round": amount("0.001")}
)
LEARNING_KEYS: Keys = MappingProxyType(
    {
        "model": one_of(get_args(ModelName)),
        "algorithm": one_of(tuple(ALGORITHMS)),
        "learning_rate": number("a number above 0, at most 1e30", "0.1", lambda rate: 0 < rate <= 1e30),
        # Fewer than 3 can leave a batch of one, which has no variance; sums over very many lose precision.
        "batch_size": whole_number(3, 1024, example=32),
        "local_epochs": whole_number(1, 10_000, example=1),
        "iteration_limit": whole_number(1, 10_000, example=5),
        "stop_below": number("a number from 0 to 1", "0.01", lambda change: 0 <= change <= 1),
        "score": one_of(get_args(ScoreName)),
    }
)
DATA_KEYS: Keys = MappingProxyType(
    {
        "validation_share": number("a number between 0 and 1, both excluded", "0.3", lambda share: 0 < share < 1),
        "label_skew": number(
            "a number from 0.001 to 1e+06",
            "0.5",
            lambda skew: 1e-3 <= skew <= 1e6,
            hint="Write e.g. 0.5, or leave it out for no skew",
        ),
    }
)
DEFAULTS_KEYS: Keys = MappingProxyType(
    {
        "source": name(200, "mnist-5k"),
        "samples_per_round": number(
            "a number above 0, at most 1000000", "100", lambda arrivals: 0 < arrivals <= 1_000_000
        ),
        "unit_value": amount("1.0"),
        "cost_per_sample": amount("2e-4"),
        "cost_per_step": amount("1e-5"),
        "cost_per_round": amount("0.001"),
        "worth_curve": curve(),
        "class": name(60, "hospital"),
    }
)
CLIENT_KEYS: Keys = MappingProxyType(  # and tables `defect`, `settings`
    {
        "name": name(60, "north"),
        **DEFAULTS_KEYS,
        "reported_profit": signed_amount("0.0", hint="Write e.g. 0.0, or leave it out for the truth"),
    }
)
TASK_KEYS: Keys = MappingProxyType(  # and the task's own settings
    {"metric": name(60, "roc-auc"), "lower_is_better": truth()}
)


def mechanism_keys(mechanism: type[Mechanism] | None) -> Keys:
    """The keys of a [mechanism] table: those of every mechanism, and the parameters of this one, if it is known."""
    own = {} if mechanism is None else {name: _parameter(one) for name, one in mechanism.parameters.items()}
    return {**MECHANISM_KEYS, **own}


def _parameter(parameter: Parameter) -> Kind:
    return number(
        f"a number from {parameter.minimum:g} to {parameter.maximum:g}",
        f"{parameter.default:g}",
        lambda value: parameter.minimum <= value <= parameter.maximum,
    )


TABLE_KEYS: Mapping[str, Keys] = MappingProxyType(
    {
        "mechanism": MECHANISM_KEYS,
        "rates": RATES_KEYS,
        "learning": {**LEARNING_KEYS, **parameter_kinds()},
        "data": DATA_KEYS,
        "defaults": DEFAULTS_KEYS,
    }
)


def _positive(example: str) -> Kind:
    return number(f"a number above 0, at most {LARGEST_FACTOR:g}", example, lambda size: 0 < size <= LARGEST_FACTOR)


DEFECTS: Mapping[str, tuple[type[Defect], Keys]] = MappingProxyType(
    {
        "label-noise": (
            LabelNoise,
            {
                "probability": number("a number from 0 to 1", "0.3", lambda chance: 0 <= chance <= 1),
                "training_only": truth(),
            },
        ),
        "label-flip": (
            LabelFlip,
            {
                "fraction": number("a number from 0 to 1", "0.5", lambda fraction: 0 <= fraction <= 1),
                "training_only": truth(),
            },
        ),
        "duplicates": (
            Duplicates,
            {"fraction": number("a number from 0 to 1, 1 excluded", "0.5", lambda fraction: 0 <= fraction < 1)},
        ),
        "untrained": (Untrained, {}),
        "noised": (
            Noised,
            {"deviation": _positive("0.01")},
        ),
        "scaled": (
            Scaled,
            {
                "factor": number(
                    f"a number from {-LARGEST_FACTOR:g} to {LARGEST_FACTOR:g}",
                    "1.05",
                    lambda factor: -LARGEST_FACTOR <= factor <= LARGEST_FACTOR,
                )
            },
        ),
        "sign-flip": (SignFlip, {"factor": _positive("1.0")}),
        "noised-update": (NoisedUpdate, {"ratio": _positive("5.0")}),
    }
)
DEFECT_KIND = one_of(tuple(DEFECTS))


def defect_kind(defect: Defect) -> str:
    """The name of a defect in scenarios."""
    return next(kind for kind, (make, _) in DEFECTS.items() if make is type(defect))
