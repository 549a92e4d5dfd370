"""What an operator could still do unnoticed: words that only look alike, detours, notes that nobody sees."""

from __future__ import annotations

from dataclasses import replace

import pytest

from commonweal.decision.decide import decide_figures
from commonweal.decision.mechanism import decide_round
from commonweal.decision.mechanisms import make_mechanism
from commonweal.errors import InputError, LedgerError
from commonweal.ledger.amendments import Amendment
from commonweal.ledger.keys import SigningKey
from commonweal.ledger.member_documents import ClientReport
from commonweal.ledger.receipts import read_receipt, receipt_document
from commonweal.ledger.reports import ReportBasis, SignedReport
from commonweal.ledger.signed_files import signed_content
from commonweal.ledger.verification.receipts import disproved_by_receipts
from commonweal.records import AgreedRates, Figures, PairedGain, Rates
from commonweal.valuation.harm import harm_evidence
from commonweal.valuation.rates import rated_profit
from commonweal.valuation.used_gains import used_gains
from tests.ledger.sample_ledger import (
    CLIENT_KEYS,
    next_document,
    parsed,
    sealed,
    tampering,
    verified,
)
from tests.ledger.test_terms import AGREED, GAINS, a_round, forged_round, open_with, rules_found

KEYS = {name: SigningKey.from_seed(name.encode().ljust(32, b".")) for name in ("ann", "bob", "cyd")}
PUBLIC = {name: key.public for name, key in KEYS.items()}
FREE = replace(AGREED, round_count=None, grace_rounds=0, profit_bounds={}, most_samples={}, silence_charge=1001)
LIKE_A = "\u0430"  # Cyrillic


@pytest.fixture(autouse=True)
def own_keys(monkeypatch):
    """Everybody signs."""
    for name, key in KEYS.items():
        monkeypatch.setitem(CLIENT_KEYS, name, key)


def rests_on(ledger, **changed):
    """What a report of round 1 rests on."""
    given = {"number": 1, "attempt": "a/1", "model": "1" * 64, "opening_model": "0" * 64, "baseline": 0.5}
    given |= {"measured": 0.6, "settings": "5" * 64, "terms": ledger.state.terms_of(1).hash}
    return ReportBasis(**given | changed)


@pytest.fixture
def opened(tmp_path):
    made = []

    def make(agreed=FREE, **options):
        made.append(open_with(tmp_path, agreed, **{"members": PUBLIC} | options))
        return made[-1]

    yield make
    for each in made:
        each.store.close()


LOOK_ALIKES = {
    "utility": f"g{LIKE_A}in",
    "measure": f"qu{LIKE_A}ntity",
    "scorers": f"{LIKE_A}ll",
    "contribution_score": f"metric{LIKE_A}",
    "metric": f"{LIKE_A}ccuracy",
}


@pytest.mark.parametrize(("name", "word"), LOOK_ALIKES.items())
def test_a_word_of_the_terms_that_only_looks_like_a_known_one(opened, name, word):
    """The checks that depend on the word would be switched off."""
    with pytest.raises(InputError, match=name):
        replace(FREE, **{name: word})
    sample = opened()
    terms = sample.ledger.terms.to_document()
    forged = {**terms, "agreed": {**terms["agreed"], name: word}}
    assert rules_found(sample, next_document(sample.entries(), "terms", {"terms": forged})) == [
        "the entry has everything that its kind needs"
    ]
    opening = parsed(sample.entries()[0])
    opening["body"]["terms"] = forged
    with tampering(sample.store) as forger:
        forger.put(sealed(opening, sample.operator))
        assert "the entry has everything that its kind needs" in [found.rule for found in verified(forger).findings]


def test_a_metric_of_ones_own_is_noted(opened):
    sample = opened(replace(FREE, metric="net benefit"))
    result = verified(sample.store)
    assert not result.findings
    assert [(note.entry, note.rule) for note in result.notes] == [(1, "figures are measured by a built-in metric")]


def test_income_taken_back_until_a_round_that_was_reversed_is_settled_again(opened):
    """The further round is settled before the income is reversed, and again after that."""
    sample = opened(settlement="accruals")
    ledger = sample.ledger
    ledger.settle(a_round(ledger, 1, GAINS, FREE))
    income = ledger.realise(100_000, "invoice 1")
    second = a_round(ledger, 2, {"ann": (0.01, 0.01, None), "bob": (0.9, 0.1, None), "cyd": (0.9, 5.0, None)}, FREE)
    ledger.settle(second)
    ledger.reverse_round(2, "typo")
    taken_back = ledger.reverse(income.entry, "typo")
    ledger.settle(second)
    again = ledger.realise(100_000, "invoice 1b")
    result = verified(sample.store)
    assert not result.findings
    assert [(note.entry, note.rule, note.found) for note in result.notes] == [
        (
            taken_back.entry,
            "income is reversed before further rounds are settled",
            "round 2 settled since: if the income is divided again, it is by other payoffs",
        ),
        (again.entry, "income that is reversed is divided again before further rounds", "with round 2"),
    ]


ONLY_TWO = {client: GAINS[client] for client in ("ann", "bob")}


def asked_again(ledger, *, attempt="a/1", next_attempt="a/2"):
    """A round that is valued again, with ann alone: bob reported before that, and cyd never did."""
    first = a_round(ledger, 1, ONLY_TWO, FREE, bases=dict.fromkeys(ONLY_TWO, rests_on(ledger, attempt=attempt)))
    reports = {
        client: SignedReport(
            document=first.report(ledger.identity, client).document(), signature=first.signatures[client]
        )
        for client in ONLY_TWO
    }
    basis = rests_on(ledger, number=2, attempt=next_attempt, model="2" * 64, earlier=(reports["ann"],))
    second = a_round(ledger, 1, {"ann": GAINS["ann"]}, FREE, bases={"ann": basis}, absent=("bob", "cyd"))
    settled = replace(second, unused_reports={"bob": (reports["bob"],)})
    return replace(settled, record=replace(second.record, silent=("cyd",)))


def receipt_of_bob(sample, settled, tmp_path):
    report = settled.unused_reports["bob"][0]
    document = receipt_document(
        ledger=sample.ledger.identity,
        round_number=1,
        client="bob",
        signature=report.signature,
        at="2026-01-01T00:00:00.000000Z",
        key_rotations=[],
    )
    path = tmp_path / "receipt.json"
    path.write_bytes(signed_content(document, sample.operator))
    return read_receipt(path)


def test_a_receipt_for_a_report_before_the_round_was_valued_again_accuses_nobody(opened, tmp_path):
    sample = opened()
    settled = asked_again(sample.ledger)
    receipt = receipt_of_bob(sample, settled, tmp_path)
    for given, is_listed in ((replace(settled, unused_reports={}), False), (settled, True)):
        entry = sample.ledger.settle(given).entry
        result = verified(sample.store)
        assert not result.findings
        noted = [note.found for note in result.notes if note.rule == "who reported a round is in it"]
        assert noted == ["bob absent: it did not answer when it was asked again"] * is_listed
        findings, notes = disproved_by_receipts(sample.store, result.state, [receipt], result.operators)
        of_entry = [each.found for each in (notes if is_listed else findings) if each.entry == entry]
        assert of_entry == ["absent"]
        assert bool(findings) != is_listed
        sample.ledger.reverse_round(1, "to list the report")


ODD = {
    "silent": ({"silent": ["bob", "cyd"]}, {}, "who reported and was asked again in vain is absent, not silent"),
    "another opening": ({}, {"attempt": "b/1"}, "who reported and is absent is asked again in a later valuation"),
    "no later valuation": ({}, {"next_attempt": "a/0"}, "who reported and is absent is asked again in a later"),
    "nobody": ({"unused_reports": []}, {}, "who reported and was asked again in vain is absent, not silent"),
}


@pytest.mark.parametrize(("changed", "attempts", "rule"), ODD.values(), ids=ODD)
def test_reports_that_were_not_made_before_the_round_was_valued_again(opened, changed, attempts, rule):
    sample = opened()
    found = forged_round(sample, asked_again(sample.ledger, **attempts), **changed)
    assert [each.startswith(rule) for each in found] == [True]


def test_an_unused_report_is_signed_by_its_client(opened):
    sample = opened()
    settled = asked_again(sample.ledger)
    forged = replace(settled.unused_reports["bob"][0], signature=settled.signatures["ann"])
    settled = replace(settled, unused_reports={"bob": (forged,)})
    assert forged_round(sample, settled) == ["an earlier report is signed by its client"]
    with pytest.raises(LedgerError, match="an earlier report is signed by its client"):
        sample.ledger.settle(settled)


RATES = AgreedRates(common=Rates(gain=2.0, sample=1e-3, round=0.01))
GAIN = 0.6 - 0.5  # from the baseline to what was measured
BY_RATES = {"profit": rated_profit(RATES.common, GAIN, 100), "gain": GAIN}
LIMITED = replace(
    FREE,
    rules=replace(FREE.rules, mu=float("inf")),
    rates=RATES,
    profit_bounds={"cyd": (-1.0, 1.0)},
    most_samples={"cyd": 200},
)


def with_a_silence(sample, agreed=FREE):
    """Round 1, in which cyd is silent: the receipt of its entry."""
    ledger = sample.ledger
    figures = Figures(
        profits=dict.fromkeys(ONLY_TWO, BY_RATES["profit"]),
        contributions=dict.fromkeys(ONLY_TWO, 0.2),
        further={} if agreed.rates is None else {"gain": dict.fromkeys(ONLY_TWO, GAIN)},
    )
    plain = a_round(ledger, 1, ONLY_TWO, agreed, absent=("cyd",))
    record = replace(plain.record, decision=decide_figures(figures, plain.record.decision.rules), silent=("cyd",))
    bases = dict.fromkeys(ONLY_TWO, rests_on(ledger))
    return ledger.settle(a_round(ledger, 1, ONLY_TWO, agreed, record=record, bases=bases))


def late_report(sample, entry, *, profit=0.1, sample_count=100, gain=None, **basis):
    """What cyd signs late, and its signature."""
    ledger = sample.ledger
    given = {"attempt": "a/2", "entry": sample.entries()[entry - 1].hash}
    report = ClientReport(
        ledger=ledger.identity,
        round_number=1,
        client="cyd",
        profit=profit,
        sample_count=sample_count,
        further={} if gain is None else {"gain": gain},
        basis=rests_on(ledger, **given | basis),
    )
    return report.document(), report.signed(KEYS["cyd"])


def test_a_charge_that_is_taken_back_after_a_late_report(opened):
    sample = opened()
    settled = with_a_silence(sample)
    charge = sample.ledger.charge("cyd", 1)
    sample.ledger.report_late("cyd", 1, *late_report(sample, settled.entry))
    assert [note.rule for note in verified(sample.store).notes] == ["who reports late is not charged"]
    taken_back = sample.ledger.reverse(charge.entry, "a favour")
    result = verified(sample.store)
    assert not result.findings
    assert [(note.entry, note.rule) for note in result.notes] == [(taken_back.entry, "a charge for a silence stands")]


JUNK = {
    "the profit of cyd": {"profit": -123456.0},
    "the number of new samples of cyd": {"sample_count": 10**9},
    "the baseline of cyd": {"baseline": -7.0},
    "the measured of cyd": {"measured": 42.0},
    "the gain of cyd": {"gain": None},
}


@pytest.mark.parametrize(("what", "changed"), JUNK.items(), ids=JUNK)
def test_a_late_report_keeps_to_the_terms(opened, what, changed):
    sample = opened(LIMITED)
    settled = with_a_silence(sample, LIMITED)
    document, signature = late_report(sample, settled.entry, **BY_RATES | changed)
    body = {"client": "cyd", "round": 1, "report": document, "signature": signature}
    found = rules_found(sample, next_document(sample.entries(), "late-report", body))
    assert f"late reports keep to the terms: {what}" in found
    with pytest.raises(LedgerError, match="late reports keep to the terms"):
        sample.ledger.report_late("cyd", 1, document, signature)
    sample.ledger.report_late("cyd", 1, *late_report(sample, settled.entry, **BY_RATES))
    assert not verified(sample.store).findings


def test_a_late_report_by_other_settings_is_noted(opened):
    sample = opened()
    settled = with_a_silence(sample)
    sample.ledger.report_late("cyd", 1, *late_report(sample, settled.entry, settings="9" * 64))
    rule = "clients measure by the same settings in all rounds"
    assert [note.rule for note in verified(sample.store).notes] == [rule]


def test_a_note_says_who_was_absent_before_anything_with_names(opened, monkeypatch):
    """Texts are cut where they are printed, and nowhere else."""
    names = [f"{place}, a hospital with a very long name indeed, and a town" for place in "abcde"]
    for name in names:
        monkeypatch.setitem(CLIENT_KEYS, name, SigningKey.from_seed(name.encode()[:32]))
    sample = opened(members={name: CLIENT_KEYS[name].public for name in names})
    ledger = sample.ledger
    rows = {name: (0.1 * place, 0.1 * place + 0.1, None) for place, name in enumerate(names)}
    first = a_round(ledger, 1, rows, FREE, bases=dict.fromkeys(names, rests_on(ledger)))
    ledger.settle(first)
    ledger.reverse_round(1, "a crash")
    rows = {name: (0.1 * place, 0.5 - 0.1 * place, None) for place, name in enumerate(names[:4])}
    bases = {
        name: rests_on(
            ledger,
            number=2,
            attempt="b/1",
            earlier=(
                SignedReport(document=first.report(ledger.identity, name).document(), signature=first.signatures[name]),
            ),
        )
        for name in rows
    }
    ledger.settle(a_round(ledger, 1, rows, FREE, bases=bases, absent=(names[4],)))
    note = next(each for each in verified(sample.store).notes if each.rule == "a round settled again is as before")
    assert note.found.startswith("who was absent; signed anew by 4 of 4; decision; contributions: a, a hospital")
    assert len(note.found) > 300
    assert len(str(note)) < 300


def test_an_amendment_that_lacks_its_quorum_by_the_rounds_that_stand(opened):
    """Cyd is in the round that it votes after, and eliminated by the one that stands."""
    agreed = replace(FREE, quorum=0.6, rules=replace(FREE.rules, mu=0.0))
    sample = opened(agreed)
    ledger = sample.ledger
    with_a_loss = a_round(ledger, 1, GAINS | {"cyd": (-0.1, 0.2, None)}, agreed)
    ledger.settle(with_a_loss)
    assert ledger.state.eliminated == {"cyd": 1}
    ledger.reverse_round(1, "an error")
    ledger.settle(a_round(ledger, 1, GAINS, agreed))
    amendment = Amendment(
        ledger=ledger.identity,
        number=1,
        terms_before=ledger.state.terms_hash,
        terms=replace(ledger.terms, agreed=replace(agreed, quorum=0.3)),
        first_round=2,
    )
    entered = ledger.amend(amendment, {client: amendment.signed(client, KEYS[client]) for client in ("ann", "cyd")})
    rule = "a quorum signs an amendment"
    assert rule not in [note.rule for note in verified(sample.store).notes]
    ledger.reverse_round(1, "another error")
    ledger.settle(with_a_loss)
    result = verified(sample.store)
    assert not result.findings
    assert [(note.entry, note.expected, note.found) for note in result.notes if note.rule == rule] == [
        (
            entered.entry,
            "signatures of 2 of 2 members by the entries that stand",
            "1: cyd had left before it by these entries",
        )
    ]
    anew = [note.found for note in result.notes if note.rule == "a round settled again is as before"]
    assert [found.startswith("signed anew by 1 of 3") for found in anew] == [True, True], "two reports of one round"


def test_a_row_of_the_table_without_the_metrics_that_it_is_the_change_of(opened):
    agreed = replace(LIMITED, figures="paired", profit_bounds={}, most_samples={})
    sample = opened(agreed)
    ledger = sample.ledger

    def measured(metrics):
        table = {c: PairedGain(gain=GAIN, sample_count=50, squared_change=5.0) for c in PUBLIC}
        gains = used_gains("paired/1", [table])
        rows = {c: (rated_profit(RATES.common, gains.pooled[c], 100), 0.2, None) for c in PUBLIC}
        record = replace(a_round(ledger, 1, rows, agreed).record, gains=gains)
        bases = dict.fromkeys(PUBLIC, rests_on(ledger)) | {"cyd": rests_on(ledger, **metrics)}
        return a_round(ledger, 1, rows, agreed, record=record, bases=bases)

    assert forged_round(sample, measured({})) == []
    for metrics in ({"measured": None}, {"baseline": None, "measured": None}):
        settled = measured(metrics)
        assert forged_round(sample, settled) == ["rounds keep to the terms: the gain of cyd"]
        with pytest.raises(LedgerError, match="the gain of cyd is 0 without both metrics"):
            ledger.settle(settled)


@pytest.mark.parametrize("scorers", [3, 4])
def test_harm_that_only_some_of_the_clients_measured(opened, monkeypatch, scorers):
    agreed = replace(FREE, harm="eliminate", round_count=4, measure="path", rules=replace(FREE.rules, mu=float("inf")))
    names = ("ann", "bob", "cyd", "dan", "eve")
    for name in names:
        monkeypatch.setitem(CLIENT_KEYS, name, SigningKey.from_seed(name.encode().ljust(32, b".")))
    sample = opened(agreed, members={name: CLIENT_KEYS[name].public for name in names})
    rows = dict.fromkeys(names, (0.2, 0.3, None))
    plain = a_round(sample.ledger, 1, rows, agreed).record
    effects = {name: -9.0 - place / 1e5 for place, name in enumerate(names[1 : scorers + 1])}
    decision, _ = decide_round(
        make_mechanism(replace(agreed.rules, version=2)), plain.decision.figures, {}, harmful=("ann",)
    )
    evidence = harm_evidence("ann", [1], effects, 20, -1.0)
    record = replace(plain, decision=decision, harm=(evidence,))
    entry = sample.ledger.settle(a_round(sample.ledger, 1, rows, agreed, record=record)).entry
    result = verified(sample.store)
    assert not result.findings
    expected = [(entry, "harm is measured by all other clients of the round", "3 for ann")] * (scorers == 3)
    assert [(note.entry, note.rule, note.found) for note in result.notes] == expected
