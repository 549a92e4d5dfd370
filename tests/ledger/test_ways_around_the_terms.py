"""What an operator could do in a ledger with terms, alone or with a member, and still have it verify as sound."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from commonweal.decision.decide import decide_figures
from commonweal.decision.ending import find_ending
from commonweal.decision.mechanism import decide_round
from commonweal.decision.mechanisms import make_mechanism
from commonweal.errors import LedgerError
from commonweal.federation.settlement import FederationLedger
from commonweal.ledger.chain import rotation_message
from commonweal.ledger.entries import Posting
from commonweal.ledger.keys import SigningKey
from commonweal.ledger.reports import ReportBasis, SignedReport
from commonweal.ledger.rounds import RoundToSettle, draft_round
from commonweal.records import Figures, PairedGain, RoundRecord
from commonweal.valuation.harm import harm_evidence
from commonweal.valuation.used_gains import used_gains
from tests.ledger.sample_ledger import CLIENT_KEYS, next_document, verified
from tests.ledger.test_terms import AGREED, GAINS, a_round, open_with, rules_found

FREE = replace(
    AGREED, round_count=None, grace_rounds=0, profit_bounds={}, most_samples={}, silence_charge=1001, silence_limit=2
)
NAMES = ("ann", "bob", "cyd", "dan", "eve")
KEYS = {name: SigningKey.from_seed(name.encode().ljust(32, b".")) for name in (*NAMES, "harm of clients")}
TWO = {client: GAINS[client] for client in ("ann", "cyd")}
SAME_REPORTS = "a round settled again has everybody whose report it listed, unless all clients sign anew"
CONTRIBUTIONS = "a round settled again under the same signatures has the same contributions"
NOT_SILENT_BEFORE = "nobody becomes silent in a round that is settled again"


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """A ledger by these rules; all members sign."""
    for client, key in KEYS.items():
        monkeypatch.setitem(CLIENT_KEYS, client, key)
    made = []

    def open_by(agreed=FREE, names=("ann", "bob", "cyd"), **options):
        members = {name: KEYS[name].public for name in names}
        made.append(open_with(tmp_path, agreed, **{"members": members} | options))
        return made[-1]

    yield open_by
    made[0].store.close()


def basis(sample, attempt="a/1", number=1, **other):
    given = {"model": "1" * 64, "opening_model": "0" * 64, "baseline": 0.5, "measured": 0.6, "settings": "5" * 64}
    terms = sample.ledger.state.terms_of(1).hash
    return ReportBasis(number=number, attempt=attempt, terms=terms, **given | other)


def the_round(sample, rows=GAINS, number=1, silent=(), on=None, **options):
    """In which all clients report on this basis; None: on none."""
    bases = {} if on is None else dict.fromkeys(rows, on)
    settled = a_round(sample.ledger, number, rows, FREE, bases=bases, **options)
    return replace(settled, record=replace(settled.record, silent=silent))


def forged(sample, settled, edit=lambda body: None):
    """The rules that an entry of this round breaks, if the operator writes it by itself."""
    terms = sample.ledger.state.terms_of(settled.record.round_number).terms
    draft = draft_round(settled, sample.ledger.identity, terms)
    body = copy.deepcopy(dict(draft.body))
    edit(body)
    return rules_found(sample, next_document(sample.entries(), "round", body, draft.postings))


def refused_and_found(sample, settled, *rules, match):
    with pytest.raises(LedgerError, match=match):
        sample.ledger.settle(settled)
    assert set(forged(sample, settled)) == set(rules)


def settled_and_reversed(sample, *args, **options):
    sample.ledger.settle(the_round(sample, *args, **options))
    sample.ledger.reverse_round(1, "an error")


# Reports that an earlier settlement of the round lists.


@pytest.mark.parametrize("attempt", [None, "a/1"])
def test_who_reported_does_not_become_silent(opened, attempt):
    sample = opened()
    on = None if attempt is None else basis(sample, attempt)
    settled_and_reversed(sample, on=on)
    again = the_round(sample, TWO, absent=("bob",), silent=("bob",), on=on)
    refused_and_found(sample, again, NOT_SILENT_BEFORE, SAME_REPORTS, match="'bob' cannot be silent in round 1")


@pytest.mark.parametrize("attempt", [None, "a/1"])
def test_a_report_is_not_dropped_under_the_same_signatures(opened, attempt):
    sample = opened()
    on = None if attempt is None else basis(sample, attempt)
    settled_and_reversed(sample, on=on)
    again = the_round(sample, TWO, absent=("bob",), on=on)
    refused_and_found(sample, again, SAME_REPORTS, match="expected bob with its report as in entry 3, got without it")


def test_a_report_is_not_dropped_by_whoever_does_not_sign(opened):
    """A settlement on which nobody's signature is left explains nothing."""
    sample = opened(members={"ann": KEYS["ann"].public, "bob": KEYS["bob"].public, "cyd": None})
    settled_and_reversed(sample)
    again = the_round(sample, {"cyd": GAINS["cyd"]}, absent=("ann", "bob"))
    refused_and_found(sample, again, SAME_REPORTS, match="expected ann with its report")


def second_report(sample, client):
    """A client's second report, of another attempt, with the first one."""
    first = the_round(sample, on=basis(sample)).report(sample.ledger.identity, client)
    earlier = SignedReport(document=first.document(), signature=first.signed(KEYS[client]))
    return basis(sample, "b/1", number=2, model="2" * 64, earlier=(earlier,))


def of_another_attempt(sample, rows, **options):
    bases = {client: second_report(sample, client) for client in rows}
    return a_round(sample.ledger, 1, rows, FREE, bases=bases, **options)


def test_in_another_attempt_a_client_may_be_absent_but_not_silent(opened):
    sample = opened()
    settled_and_reversed(sample, on=basis(sample))
    other = {"ann": (0.3, 0.3, None), "cyd": (0.15, 0.4, None)}
    again = of_another_attempt(sample, other, absent=("bob",))
    silent = replace(again, record=replace(again.record, silent=("bob",)))
    refused_and_found(sample, silent, NOT_SILENT_BEFORE, match="'bob' cannot be silent in round 1")
    sample.ledger.settle(again)
    assert not verified(sample.store).findings
    sample.ledger.reverse_round(1, "back to the first reports")
    rule = "a round that is settled again lists all reports that it listed before"
    first = the_round(sample, on=basis(sample))
    refused_and_found(sample, first, rule, match=r"report 2 of ann \(attempt b/1\) as in entry 5")


@pytest.mark.parametrize("is_anew", [False, True])
def test_who_was_absent_does_not_become_silent(opened, is_anew):
    """Whoever else signs anew."""
    sample = opened()
    settled_and_reversed(sample, TWO, absent=("bob",))
    rows = {client: (row[0] + 0.01, *row[1:]) for client, row in TWO.items()} if is_anew else TWO
    again = the_round(sample, rows, absent=("bob",), silent=("bob",))
    refused_and_found(sample, again, NOT_SILENT_BEFORE, match="'bob' cannot be silent in round 1")


def test_a_federation_lists_who_was_not_silent_before_as_absent(opened):
    """So that its coordinator can settle the round."""
    sample = opened()
    settled_and_reversed(sample, TWO, absent=("bob",))
    again = the_round(sample, TWO, absent=("bob",), silent=("bob",))
    members = dict(sample.ledger.state.members)
    federation = FederationLedger(
        sample.location, sample.keys, name="five banks", members=members, agreed=FREE,
        sign=lambda report: report.signed(KEYS[report.client]),
    )  # fmt: skip
    federation.settle(again.record, again.sample_counts)
    federation.close()
    outcome = verified(sample.store)
    assert not outcome.findings
    assert outcome.state.silences.get("bob", []) == []


def test_one_new_signature_does_not_free_the_contributions_of_others(opened):
    sample = opened()
    settled_and_reversed(sample)
    again = the_round(sample, {"ann": (0.3, 0.01, None), "bob": (0.2, 0.3, None), "cyd": (0.09, 0.98, None)})
    refused_and_found(sample, again, CONTRIBUTIONS, match=r"expected ann 0\.5 as in entry 3, got 0\.01")
    sample.ledger.settle(the_round(sample, GAINS | {"cyd": (0.09, 0.2, None)}))
    assert not verified(sample.store).findings


@pytest.mark.parametrize("attempt", ["a/1", "z/1"])
def test_a_client_signs_one_report_per_number_and_attempt(opened, attempt):
    sample = opened()
    settled_and_reversed(sample, on=basis(sample))
    again = the_round(sample, GAINS | {"cyd": (0.09, 0.2, None)}, on=basis(sample, attempt))
    rule = "a client signs one report per number and attempt of a round"
    match = rf"report 1 of \w+ \(attempt a/1\) as in entry 3, got another report 1 \(attempt {attempt}\)"
    refused_and_found(sample, again, rule, match=match)


def test_the_contribution_of_a_member_with_an_odd_name_is_compared(opened):
    names = ("ann", "bob", "cyd", "dan", "harm of clients")
    sample = opened(replace(FREE, harm="advise", round_count=9), names)
    harm = (evidence("dan", names),)

    def settle(own):
        contributions = dict(zip(names, (0.4, 0.3, 0.1, 0.1, own), strict=True))
        return decided(sample, contributions, harm=harm)

    sample.ledger.settle(settle(0.1))
    sample.ledger.reverse_round(1, "an error")
    refused_and_found(sample, settle(20.0), CONTRIBUTIONS, match=r"harm of clients 0\.1 as in entry 3, got 20")


# Late reports and charges.


@pytest.mark.parametrize("attempt", [None, "a/1"])
def test_nobody_is_charged_after_a_late_report(opened, attempt):
    sample = opened(members={"ann": KEYS["ann"].public, "bob": KEYS["bob"].public, "cyd": None})
    ledger, on = sample.ledger, None if attempt is None else basis(sample, attempt)

    def settle():
        settled = a_round(ledger, 1, TWO, FREE, absent=("bob",), bases={} if on is None else {"ann": on})
        ledger.settle(replace(settled, record=replace(settled.record, silent=("bob",))))

    settle()
    late = basis(sample, "a/2", entry=ledger.state.plays[1].entry)
    report = a_round(ledger, 1, GAINS, FREE, bases={"bob": late}).report(ledger.identity, "bob")
    ledger.report_late("bob", 1, report.document(), report.signed(KEYS["bob"]))
    ledger.reverse_round(1, "again")
    settle()
    with pytest.raises(LedgerError, match="'bob' has reported round 1 late, so it is not charged"):
        ledger.charge("bob", 1)
    postings = [Posting("clients/bob", -1001), Posting("clients/ann", 501), Posting("clients/cyd", 500)]
    charge = next_document(sample.entries(), "charge", {"client": "bob", "round": 1, "amount": "1001"}, postings)
    assert "a charge is for a silence, by the terms" in rules_found(sample, charge)


@pytest.mark.parametrize("is_silent_again", [True, False])
def test_a_charge_by_which_a_client_got_a_model_stays(opened, is_silent_again):
    """Also if it reports late after that."""
    sample = opened()
    ledger = sample.ledger
    ledger.settle(the_round(sample, TWO, absent=("bob",), silent=("bob",)))
    settled = ledger.state.plays[1].entry
    charge = ledger.charge("bob", 1).entry
    if is_silent_again:
        ledger.settle(the_round(sample, TWO, 2, absent=("bob",), silent=("bob",)))
    else:
        ledger.settle(the_round(sample, GAINS, 2))
        report = the_round(sample, on=basis(sample, "a/2", entry=settled)).report(ledger.identity, "bob")
        ledger.report_late("bob", 1, report.document(), report.signed(KEYS["bob"]))
    with pytest.raises(LedgerError, match="because of it the client got the model of round 2"):
        ledger.reverse(charge, "goodwill")
    opposite = [Posting(account, -int(amount)) for account, amount in ledger.document(charge)["postings"]]
    reversal = next_document(sample.entries(), "reversal", {"entry": charge, "reason": "goodwill"}, opposite)
    assert rules_found(sample, reversal) == ["nothing rests on what is reversed"]


# Harm and the end.


def evidence(client, names, margin=-0.01):
    effects = {name: -0.05 - 0.0001 * place for place, name in enumerate(names) if name != client}
    return harm_evidence(client, (1,), effects, 45, margin)


def decided(sample, contributions, harmful=(), harm=()):
    """A round of all members, decided without those who are eliminated as harmful."""
    profits = dict(zip(contributions, (0.2, 0.1, 0.3, 0.05, 0.02), strict=True))
    figures = Figures(profits=profits, contributions=contributions)
    decision, _ = decide_round(make_mechanism(replace(FREE.rules, version=2)), figures, {}, harmful=harmful)
    return signed(sample, RoundRecord(round_number=1, decision=decision, harm=harm))


def signed(sample, record, **options):
    clients = record.decision.figures.clients
    settled = RoundToSettle(
        record=record,
        rules_version="2",
        measured_by=sample.ledger.terms.agreed.measured_by,
        sample_counts=dict.fromkeys(clients, 100),
        **options,
    )
    signatures = {name: settled.report(sample.ledger.identity, name).signed(KEYS[name]) for name in clients}
    return replace(settled, signatures=signatures)


SHARES = dict(zip(NAMES, (0.4, 0.3, 0.1, 0.1, 0.1), strict=True))


def test_all_harmful_clients_are_eliminated_or_nobody(opened):
    """Three of five come out harmful, so nobody is eliminated for it, and nobody is spared."""
    sample = opened(replace(FREE, harm="eliminate", round_count=9), NAMES)
    harm = tuple(evidence(name, NAMES) for name in ("bob", "cyd", "eve"))
    settled = decided(sample, SHARES, ("bob", "cyd"), harm)
    with pytest.raises(LedgerError, match="harm is eliminate in the terms and no elimination of eve in the round"):
        sample.ledger.settle(settled)
    assert len(forged(sample, settled)) == 1
    sample.ledger.settle(decided(sample, SHARES, (), harm))
    assert not verified(sample.store).findings


@pytest.mark.parametrize("value", ["yes", 1, None])
def test_whether_somebody_is_eliminated_is_true_or_false(opened, value):
    sample = opened(replace(FREE, harm="advise", round_count=9), NAMES)
    settled = decided(sample, SHARES, harm=(evidence("bob", NAMES),))
    assert forged(sample, settled) == []
    edit = lambda body: body["harm"]["found"][0].update(is_eliminated=value)  # noqa: E731
    assert "evidence of harm is complete" in forged(sample, settled, edit)


def test_the_margin_of_harm_follows_from_the_effects(opened):
    """Four scorers with effects of 0.05, of five clients: at least 0.1 · 4 · 0.05 / (5 · 4)."""
    sample = opened(replace(FREE, harm="advise", round_count=9), NAMES)
    for margin, rules in ((-0.00102, []), (-0.0005, ["the margin of harm follows from the effects"])):
        assert forged(sample, decided(sample, SHARES, harm=(evidence("bob", NAMES, margin),))) == rules


def test_a_federation_does_not_end_in_a_grace_round(opened):
    sample = opened(replace(FREE, figures="forecast", ending="stop", grace_rounds=1, round_count=9))
    names = ("ann", "bob", "cyd")
    gains = used_gains("forecast/1", [dict.fromkeys(names, PairedGain(gain=0.01, sample_count=30, squared_change=2.0))])
    figures = Figures(
        profits={name: gains.pooled[name] - 0.5 for name in names},
        contributions={"ann": 0.4, "bob": 0.3, "cyd": 0.1},
        expected={name: gains.expected[name] - 0.5 for name in names},
    )
    mechanism = make_mechanism(replace(FREE.rules, version=2))
    decision, _ = decide_round(mechanism, figures, {}, grace=True, finished=True)
    record = RoundRecord(round_number=1, decision=decision, gains=gains, ending=find_ending(figures.expected))
    settled = signed(sample, record)
    with pytest.raises(LedgerError, match="ending is none in a grace round in the terms and an ending in the round"):
        sample.ledger.settle(settled)
    assert len(forged(sample, settled)) == 1


# Gains and keys.


@pytest.mark.parametrize(("gain", "rules"), [(0.1, 1), (-0.1, 0)])
def test_the_sign_of_a_gain_is_that_of_the_metric(opened, gain, rules):
    """The model got worse for cyd; ann and bob show that more is better."""
    sample = opened(replace(FREE, figures="pooled"))
    metrics = {"ann": (0.5, 0.6), "bob": (0.5, 0.6), "cyd": (0.6, 0.5)}
    table = {name: PairedGain(gain=0.1, sample_count=30, squared_change=5.0) for name in metrics}
    gains = used_gains("pooled/1", [table | {"cyd": replace(table["cyd"], gain=gain)}])
    figures = Figures(
        profits={name: gains.pooled[name] - 0.03 for name in metrics},
        contributions={"ann": 0.4, "bob": 0.3, "cyd": 0.1},
    )
    record = RoundRecord(round_number=1, decision=decide_figures(figures, replace(FREE.rules, version=2)), gains=gains)
    bases = {name: basis(sample, baseline=low, measured=high) for name, (low, high) in metrics.items()}
    found = forged(sample, signed(sample, record, bases=bases))
    assert found == ["a metric that rises is a gain for all clients of a round, or for none"] * rules


def test_the_operator_does_not_change_to_the_key_of_a_member(opened):
    sample = opened()
    key = KEYS["cyd"]
    body = {"operator": key.public, "proof": key.sign(rotation_message(sample.ledger.identity, key.public))}
    assert rules_found(sample, next_document(sample.entries(), "key-rotation", body)) == [
        "members have keys of their own"
    ]
