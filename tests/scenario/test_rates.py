"""The table [rates] and the classes of clients: what they mean, and what is refused."""

from __future__ import annotations

import pytest

from commonweal.errors import ScenarioError
from commonweal.records import AgreedRates, Rates
from commonweal.scenario.description import describe
from commonweal.scenario.document import digest, from_document, to_document
from commonweal.scenario.toml_file import parse_scenario
from tests.scenario.small import DEFAULTS, MECHANISM, SMALL, TOP, TWO

RATED = f'{MECHANISM}profits = "rates"\n'
COMMON = "[rates]\ngain = 1.5\nsample = 2e-4\n"
CLASSES = "[rates.classes.large]\ngain = 2.0\nround = 0.1\n[rates.classes.small]\ngain = 1.0\n"
TWO_CLASSES = '[[clients]]\nname = "north"\nclass = "large"\n[[clients]]\nname = "south"\nclass = "small"\n'


def test_one_set_of_rates_for_all():
    scenario = parse_scenario(TOP + RATED + COMMON + DEFAULTS + TWO, "my.toml")
    assert scenario.mechanism.rates == AgreedRates(common=Rates(gain=1.5, sample=2e-4, round=0.0))
    assert scenario.mechanism.rates.of("south") == Rates(gain=1.5, sample=2e-4)
    words = "by agreed rates: 1.5 per unit of gain − 0.0002 per new sample"
    assert describe(scenario).settings["profits"] == words


def test_rates_by_class():
    scenario = parse_scenario(TOP + RATED + CLASSES + DEFAULTS + TWO_CLASSES, "my.toml")
    rates = scenario.mechanism.rates
    assert (rates.of("north"), rates.of("south")) == (Rates(gain=2.0, round=0.1), Rates(gain=1.0))
    assert rates.of("nobody") is None
    facts = describe(scenario).client_facts
    assert (facts["north"]["class"], facts["south"]["class"]) == ("large", "small")


def test_the_class_of_most_clients_can_stand_in_the_defaults():
    clients = '[[clients]]\nname = "north"\nclass = "large"\n[[clients]]\nname = "south"\n'
    scenario = parse_scenario(TOP + RATED + CLASSES + DEFAULTS + 'class = "small"\n' + clients, "my.toml")
    assert dict(scenario.mechanism.rates.classes) == {"north": "large", "south": "small"}


@pytest.mark.parametrize("text", [RATED + COMMON + DEFAULTS + TWO, RATED + CLASSES + DEFAULTS + TWO_CLASSES])
def test_documents_keep_rates(text):
    scenario = parse_scenario(TOP + text, "my.toml")
    again = from_document(to_document(scenario))
    assert again == scenario
    assert again.mechanism.rates == scenario.mechanism.rates
    assert digest(again) == digest(scenario)


def test_without_rates_nothing_is_said_of_them():
    scenario = parse_scenario(SMALL, "my.toml")
    assert scenario.mechanism.rates is None
    stated = parse_scenario(SMALL.replace(MECHANISM, f'{MECHANISM}profits = "private"\n'), "my.toml")
    assert digest(stated) == digest(scenario)
    document = to_document(scenario)
    assert "rates" not in document
    assert "profits" not in document["mechanism"]
    assert all("class" not in client for client in document["clients"])


REFUSALS = {
    "unknown rule": (MECHANISM + 'profits = "secret"\n' + DEFAULTS + TWO, "profits must be one of private, rates"),
    "no rates": (RATED + DEFAULTS + TWO, 'profits = "rates" needs a table [rates]', "gain = 1.0"),
    "rates without effect": (
        MECHANISM + COMMON + DEFAULTS + TWO,
        '[rates] has no effect with profits = "private"',
        'Write profits = "rates" in [mechanism], or remove [rates].',
    ),
    "no gain": (RATED + "[rates]\nsample = 1.0\n" + DEFAULTS + TWO, "gain is missing in [rates]"),
    "negative": (RATED + "[rates]\ngain = -1.0\n" + DEFAULTS + TWO, "gain must be 0 or a number from", "got -1.0"),
    "unknown rate": (RATED + COMMON + "gian = 1.0\n" + DEFAULTS + TWO, "unknown key 'gian' in [rates]"),
    "not a table": (TOP + RATED + "rates = 3\n", "unknown key 'rates' in [mechanism]"),
    "both": (RATED + COMMON + CLASSES + DEFAULTS + TWO_CLASSES, "gain is for all clients", "Remove one of them."),
    "classes are no tables": (
        RATED + "[rates]\nclasses = 3\n" + DEFAULTS + TWO,
        "classes must be a table with a table for each class, got 3",
    ),
    "no gain of a class": (
        RATED + "[rates.classes.large]\nsample = 1.0\n" + DEFAULTS + TWO,
        "gain is missing in [rates.classes.large]",
    ),
    "no class": (RATED + CLASSES + DEFAULTS + TWO, "class is missing for client 'north'", "'large', 'small'"),
    "unknown class": (
        RATED + CLASSES + DEFAULTS + TWO_CLASSES.replace('"small"', '"tiny"'),
        "class must be one of 'large', 'small', got 'tiny' for client 'south'",
    ),
    "a class for one rate": (
        RATED + COMMON + DEFAULTS + TWO_CLASSES,
        "class has no effect for client 'north': [rates] is for all",
    ),
    "a class without rates": (
        MECHANISM + DEFAULTS + TWO_CLASSES,
        "class has no effect for client 'north': profits do not follow from rates",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name):
    text, *parts = REFUSALS[name]
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text if text.startswith(TOP) else TOP + text, "my.toml")
    for part in parts:
        assert part in str(caught.value)
