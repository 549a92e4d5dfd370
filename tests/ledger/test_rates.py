"""Agreed rates in a ledger: profits are computed again from gains and counts, and whatever departs is found."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from commonweal.decision.decide import decide_figures
from commonweal.errors import InputError, LedgerError
from commonweal.federation.amending import amended
from commonweal.ledger.amendment_draft import changes_between
from commonweal.ledger.reports import ReportBasis, SignedReport
from commonweal.ledger.terms import Terms
from commonweal.records import AgreedRates, Figures, Rates
from commonweal.valuation.rates import rated_profit
from tests.ledger.sample_ledger import CLIENT_KEYS, verified
from tests.ledger.test_taking_part import FREE
from tests.ledger.test_terms import AGREED, a_round, forged_round, open_with

COMMON = AgreedRates(common=Rates(gain=2.0, sample=1e-3, round=0.01))
GAINS = {"ann": 0.3, "bob": 0.2, "cyd": 0.15}
RATED = replace(FREE, rates=COMMON)


@pytest.fixture
def sample(tmp_path):
    made = open_with(tmp_path, RATED)
    yield made
    made.store.close()


def the_round(sample, number=1, *, gains=None, counts=100, profits=None, rates=COMMON.common):
    """A round by the rates, in which clients signed these gains, and these profits in place of those that follow."""
    gains = GAINS if gains is None else gains
    rows = {client: (0.0, 0.2 + 0.1 * place, None) for place, client in enumerate(GAINS)}
    followed = {client: rated_profit(rates, gain, counts) for client, gain in gains.items()}
    figures = Figures(
        profits={**dict.fromkeys(GAINS, 0.1), **followed, **(profits or {})},
        contributions={client: row[1] for client, row in rows.items()},
        further={"gain": gains},
    )
    plain = a_round(sample.ledger, number, rows, RATED)
    decision = decide_figures(figures, plain.record.decision.rules)
    return a_round(
        sample.ledger,
        number,
        rows,
        RATED,
        record=replace(plain.record, decision=decision),
        sample_counts=dict.fromkeys(rows, counts),
    )


def test_rounds_by_the_rates_are_settled_and_verify(sample):
    sample.ledger.settle(the_round(sample))
    result = verified(sample.store)
    assert not result.findings
    assert result.round_count == 1
    body = json.loads(sample.entries()[-1].content)["body"]
    for row in body["inputs"]:
        assert row["profit"] == 2.0 * row["further"]["gain"] - (1e-3 * row["sample_count"] + 0.01)


DEPARTURES = {
    "the profit of bob": {"profits": {"bob": 0.29}},
    "the profit of ann": {"rates": Rates(gain=2.0, sample=2e-3, round=0.01)},
    "the gain of cyd": {"gains": {"ann": 0.3, "bob": 0.2}},
}


@pytest.mark.parametrize("what", DEPARTURES)
def test_a_profit_that_departs_from_the_rates_is_refused_and_found(sample, what):
    """Also if its client signed it."""
    settled = the_round(sample, **DEPARTURES[what])
    with pytest.raises(LedgerError, match=f"departs from the terms of this ledger: {what}"):
        sample.ledger.settle(settled)
    assert f"rounds keep to the terms: {what}" in forged_round(sample, settled)


@pytest.mark.parametrize(
    ("gain", "unsigned", "is_found"),
    [(0.2, "measured", True), (-0.2, "baseline", True), (0.0, "measured", False), (0.2, None, False)],
)
def test_a_gain_is_the_change_of_metrics_that_were_signed(sample, gain, unsigned, is_found):
    """A client that leaves one of them out would choose what its gain is measured from."""
    given = {"number": 1, "attempt": "a/1", "model": "m" * 64, "opening_model": "o" * 64, "settings": "s" * 64}
    metrics = {client: {"baseline": 0.5, "measured": 0.5 + own} for client, own in GAINS.items()}
    metrics["bob"] = {"baseline": 0.5, "measured": 0.5 + gain} | ({} if unsigned is None else {unsigned: None})
    terms = sample.ledger.state.terms_hash
    bases = {client: ReportBasis(**given, **own, terms=terms) for client, own in metrics.items() if client != "cyd"}
    settled = replace(the_round(sample, gains=GAINS | {"bob": gain}), bases=bases)
    signatures = {c: settled.report(sample.ledger.identity, c).signed(CLIENT_KEYS[c]) for c in bases}
    settled = replace(settled, signatures=signatures)
    assert forged_round(sample, settled) == (["rounds keep to the terms: the gain of bob"] if is_found else [])
    if is_found:
        with pytest.raises(LedgerError, match="the gain of bob is 0 without both metrics that it is the change of"):
            sample.ledger.settle(settled)


BEFORE = {"baseline": 0.5, "measured": 0.7}
STEADY = {n: {"baseline": 0.25 * n, "measured": 0.25 * (n + 1)} for n in (1, 2, 3)}
NOT_FROM_THERE = "utility is measured from what the client measured in its last settled round"


def measured_round(sample, number, metrics, reversed_by=()):
    """A round in which clients signed these metrics; those in `reversed_by` call a metric that rises a loss."""
    rest = {"attempt": f"{number}/1", "model": f"{number}" * 64, "opening_model": f"{number - 1}" * 64, "number": 1}
    terms = sample.ledger.state.terms_hash
    bases = {client: ReportBasis(**rest, **own, terms=terms) for client, own in metrics.items()}
    gains = {client: (basis.change or 0.0) * (-1 if client in reversed_by else 1) for client, basis in bases.items()}
    settled = replace(the_round(sample, number, gains=GAINS | gains, counts=1), bases=bases)
    settled = replace(settled, measured_by=sample.ledger.terms.agreed.measured_by)
    signatures = {
        client: settled.report(sample.ledger.identity, client).signed(CLIENT_KEYS[client]) for client in bases
    }
    return replace(settled, signatures=signatures)


@pytest.mark.parametrize(
    ("signed", "found"),
    [
        ([{"baseline": 0.7, "measured": 0.8}], []),
        ([{"baseline": 0.7, "measured": None}, {"baseline": 0.7, "measured": 0.8}], []),
        ([{"baseline": None, "measured": None}], [NOT_FROM_THERE]),
        ([{"baseline": 0.7, "measured": None}, {"baseline": None, "measured": 0.95}], [NOT_FROM_THERE]),
        ([{"baseline": 0.7, "measured": None}, {"baseline": 0.95, "measured": 0.8}], [NOT_FROM_THERE]),
        ([{"baseline": 0.7, "measured": None}, {"baseline": 0.95, "measured": 0.95}], [NOT_FROM_THERE]),
    ],
)
def test_a_gain_is_measured_from_what_was_signed_last(sample, signed, found):
    """A client that signs no metric in one round would choose what its next gain is measured from."""
    for number, of_bob in enumerate([BEFORE, *signed], 1):
        settled = measured_round(sample, number, {"ann": STEADY[number], "bob": of_bob})
        if number <= len(signed):
            sample.ledger.settle(settled)
    assert forged_round(sample, settled) == found


ALL_SAY = "once reports say what they rest on, all do"
TRACED = "gains that profits follow from are the change of metrics that clients signed"


def test_a_report_of_an_earlier_form_does_not_escape_from_what_was_signed(sample):
    """Without metrics, each gain of a client could be as large as its metric can change at all."""
    sample.ledger.settle(measured_round(sample, 1, {"ann": STEADY[1], "bob": BEFORE}))
    settled = the_round(sample, 2, gains=GAINS | {"bob": 1.0})
    with pytest.raises(LedgerError, match=f"{ALL_SAY}; expected attempt and model of ann, as signed since round 1"):
        sample.ledger.settle(settled)
    assert forged_round(sample, settled) == [ALL_SAY, ALL_SAY]
    sample.ledger.reverse_round(1, "to report it otherwise")
    assert ALL_SAY in forged_round(sample, the_round(sample, 1))


def test_gains_without_metrics_are_noted_and_found_once_others_sign_them(sample):
    """Before the others report for the first time, or in a ledger of a simulation."""
    sample.ledger.settle(the_round(sample, 1, gains=GAINS | {"bob": 1.0}))
    noted = [(note.entry, note.found) for note in verified(sample.store).notes if note.rule == TRACED]
    assert noted == [(3, "none in round 1")]
    settled = measured_round(sample, 2, {"ann": STEADY[1], "bob": BEFORE})
    assert forged_round(sample, settled) == [TRACED]
    with pytest.raises(LedgerError, match=f"{TRACED}; expected what that of bob in round 1 is the change of"):
        sample.ledger.settle(settled)
    sample.ledger.reverse_round(1, "to report it with metrics")
    sample.ledger.settle(measured_round(sample, 1, {"ann": STEADY[1], "bob": BEFORE}))
    assert not verified(sample.store).findings


@pytest.mark.parametrize(("baseline", "found"), [(0.9, []), (0.7, [NOT_FROM_THERE])])
def test_of_a_round_that_was_settled_twice_the_last_report_counts(sample, baseline, found):
    """Who chooses between the two would gain the difference once more."""
    first = measured_round(sample, 1, {"ann": STEADY[1], "bob": BEFORE})
    sample.ledger.settle(first)
    sample.ledger.reverse_round(1, "played again")
    again = measured_round(sample, 1, {"ann": STEADY[1], "bob": {"baseline": 0.5, "measured": 0.9}})
    bases = {}
    for client, basis in again.bases.items():
        before = first.report(sample.ledger.identity, client).document()
        earlier = SignedReport(document=before, signature=first.signatures[client])
        bases[client] = replace(basis, number=2, attempt="1/2", earlier=(earlier,))
    again = replace(again, bases=bases)
    signatures = {c: again.report(sample.ledger.identity, c).signed(CLIENT_KEYS[c]) for c in bases}
    sample.ledger.settle(replace(again, signatures=signatures))
    of_bob = {"baseline": baseline, "measured": 0.95}
    assert forged_round(sample, measured_round(sample, 2, {"ann": STEADY[2], "bob": of_bob})) == found


@pytest.mark.parametrize("of_bob", [{"baseline": 37.0, "measured": 0.7}, {"baseline": 0.5, "measured": -3.0}])
def test_what_is_signed_lies_within_the_bounds_of_the_metric(sample, of_bob):
    """The accuracy of a model is between 0 and 1."""
    settled = measured_round(sample, 1, {"ann": STEADY[1], "bob": of_bob})
    name = next(name for name, value in of_bob.items() if not 0 <= value <= 1)
    assert forged_round(sample, settled) == [f"rounds keep to the terms: the {name} of bob"]
    with pytest.raises(LedgerError, match=f"the {name} of bob is accuracy, from 0 to 1 in the terms"):
        sample.ledger.settle(settled)


@pytest.mark.parametrize("gain", [-5.0, -1.001, 1.001])
@pytest.mark.parametrize("has_bases", [True, False])
def test_a_gain_is_not_larger_than_the_bounds_of_the_metric_are_apart(sample, has_bases, gain):
    """Nobody signs for cyd, or what its gain is the change of: a loss that no accuracy can have is not shared."""
    metrics = {"ann": STEADY[1], "bob": BEFORE}

    def with_gain(number):
        gains = GAINS | {"cyd": number}
        if not has_bases:
            return the_round(sample, gains=gains)
        rest = {"attempt": "1/1", "model": "1" * 64, "opening_model": "0" * 64, "number": 1}
        terms = sample.ledger.state.terms_hash
        bases = {client: ReportBasis(**rest, **own, terms=terms) for client, own in metrics.items()}
        changed = {client: basis.change for client, basis in bases.items()}
        settled = replace(the_round(sample, gains=gains | changed), bases=bases)
        signatures = {c: settled.report(sample.ledger.identity, c).signed(CLIENT_KEYS[c]) for c in bases}
        return replace(settled, signatures=signatures)

    assert forged_round(sample, with_gain(gain)) == ["rounds keep to the terms: the gain of cyd"]
    with pytest.raises(LedgerError, match="the gain of cyd is in accuracy, at most 1 in size in the terms"):
        sample.ledger.settle(with_gain(gain))
    assert forged_round(sample, with_gain(-1.0)) == []


@pytest.mark.parametrize("is_noticed", [True, False])
@pytest.mark.parametrize("metric", ["accuracy", "net_benefit"])
def test_a_metric_that_rises_is_a_gain_in_all_rounds_or_in_none(tmp_path, metric, is_noticed):
    """Alone among clients whose metric has not changed, bob could call a rise a loss, and the next fall another one."""
    sample = open_with(tmp_path, replace(RATED, metric=metric))
    sample.ledger.settle(measured_round(sample, 1, {"ann": STEADY[1], "bob": BEFORE}))
    same = dict.fromkeys(("baseline", "measured"), STEADY[1]["measured"])
    rises = {"ann": same, "bob": {"baseline": 0.7, "measured": 0.9}}
    settled = measured_round(sample, 2, rises, reversed_by=("bob",) if is_noticed else ())
    rule = "a metric that rises is a gain for all clients of a round, or for none"
    assert forged_round(sample, settled) == ([rule] if is_noticed else [])


def test_the_smallest_difference_is_found(sample):
    profit = rated_profit(COMMON.common, GAINS["ann"], 100)
    settled = the_round(sample, profits={"ann": profit + 1e-16})
    assert "rounds keep to the terms: the profit of ann" in forged_round(sample, settled)


def test_counts_that_were_not_declared_are_found(sample):
    settled = replace(the_round(sample), sample_counts={})
    assert "rounds keep to the terms: the number of new samples of ann" in forged_round(sample, settled)


def test_a_member_without_rates_has_no_profit(tmp_path):
    rates = AgreedRates(by_class={"large": COMMON.common}, classes={"ann": "large", "bob": "large"})
    sample = open_with(tmp_path, replace(FREE, rates=rates))
    with pytest.raises(LedgerError, match="the rate of cyd is missing in the terms and needed for its profit"):
        sample.ledger.settle(the_round(sample))
    sample.store.close()


def test_terms_without_rates_are_as_before():
    """Members sign the hash of the terms, so a rule that nobody uses must not be in them."""
    assert "rates" not in Terms(name="x", agreed=AGREED).to_document()["agreed"]
    rated = Terms(name="x", agreed=replace(AGREED, rates=COMMON))
    assert rated.to_document()["agreed"]["rates"] == {"gain": 2.0, "sample": 1e-3, "round": 0.01}
    assert Terms.from_document(rated.to_document()) == rated


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        (AgreedRates(common=Rates(gain=-1.0)), "The rate 'gain' must be a number of at least 0, got -1.0."),
        (AgreedRates(common=Rates(gain=True)), "must be a number"),
        (
            AgreedRates(by_class={"a": Rates(gain=1.0)}, classes={"ann": "b"}),
            "'ann' is of class 'b', and there are no rates for that class. State them first.",
        ),
    ],
)
def test_rates_that_nobody_can_use_are_refused(rates, message):
    with pytest.raises(InputError, match=message):
        replace(AGREED, rates=rates)


def test_an_amendment_changes_rates():
    before = Terms(name="x", agreed=RATED)
    after = amended(before, [("rates.gain", "2.5"), ("rates.round", "0")])
    assert after.agreed.rates.common == Rates(gain=2.5, sample=1e-3, round=0.0)
    assert changes_between(before, after) == ["rates.gain: 2 → 2.5", "rates.round: 0.01 → 0"]
    assert amended(before, [("rates", "none")]).agreed.rates is None
    by_class = amended(
        before,
        [("rates", "none"), ("rates.classes.big.gain", "3"), ("rates.classes.big.sample", "1e-3"),
         ("rates.members.ann", "big")],
    )  # fmt: skip
    assert by_class.agreed.rates.of("ann") == Rates(gain=3.0, sample=1e-3)


@pytest.mark.parametrize(
    ("changed", "shown"),
    [
        ({"by_class": {"agreed": Rates(gain=9.0), "rules": Rates(gain=1.0)}}, "rates.classes.agreed.gain: 1 → 9"),
        ({"classes": {"rules": "rules"}}, "rates.members.rules: agreed → rules"),
        (
            {"by_class": {"agreed": Rates(gain=1.0000001), "rules": Rates(gain=1.0)}},
            "rates.classes.agreed.gain: 1 → 1.0000001",
        ),
    ],
)
def test_no_name_and_no_rounding_hides_a_change_from_those_who_sign_it(changed, shown):
    rates = AgreedRates(by_class=dict.fromkeys(("agreed", "rules"), Rates(gain=1.0)), classes={"rules": "agreed"})
    bounds = {"rules": (-1.0, 1.0)}
    before = Terms(name="x", agreed=replace(RATED, rates=rates, profit_bounds=bounds, most_samples={"rules": 5}))
    after = replace(before, agreed=replace(before.agreed, rates=replace(rates, **changed)))
    assert changes_between(before, after) == [shown]
    wider = replace(before, agreed=replace(before.agreed, profit_bounds={"rules": (-1.0, 9.0)}))
    assert changes_between(before, wider) == ["profit_bounds.rules: [-1.0, 1.0] → [-1.0, 9.0]"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([("rates.bonus", "1")], "'rates.bonus' is not a rate that can be amended"),
        ([("rates.gain", "much")], "rates.gain must be 0 or a number"),
        ([("rates.classes.big.gain", "3")], "one rate for all members"),
        ([("rates", "none"), ("rates.sample", "3")], "needs the rate of a gain first"),
        ([("rates", "none"), ("rates.classes.a.gain", "3"), ("rates.gain", "3")], "Rates differ by class"),
        ([("rates", "none"), ("rates.members.ann", "a")], "no rates for that class"),
    ],
)
def test_amendments_of_rates_that_make_no_sense(changes, message):
    with pytest.raises(InputError, match=message):
        amended(Terms(name="x", agreed=RATED), changes)
