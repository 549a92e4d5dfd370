"""What verification would find in an entry, the ledger refuses to write: it would stay unsound for good."""

from __future__ import annotations

from dataclasses import replace

import pytest

from commonweal.errors import LedgerError
from commonweal.ledger.canonical import canonical
from commonweal.ledger.ledger import Ledger
from commonweal.ledger.reports import ReportBasis, SignedReport
from commonweal.ledger.sql.store import open_store
from commonweal.ledger.terms import Terms
from commonweal.records import PairedGain
from commonweal.valuation.used_gains import used_gains
from tests.ledger.sample_ledger import CLIENT_KEYS, open_ledger, verified
from tests.ledger.test_order_of_rounds import ALL, FLI, FREE, KEYS, by_fli, forged_round, reverse, settled
from tests.ledger.test_terms import a_round, open_with


@pytest.fixture
def sample(tmp_path):
    made = open_with(tmp_path, FREE, members=KEYS)
    yield made
    made.store.close()


def refused(sample, made, match):
    before = sample.ledger.state.number
    with pytest.raises(LedgerError, match=match):
        sample.ledger.settle(made)
    assert len(sample.entries()) == before
    assert Ledger(sample.store, sample.keys).state.number == before
    assert not verified(sample.store).findings


def basis(sample, attempt="a/1", **other):
    given = {"number": 1, "model": "m1", "opening_model": "m0", "baseline": 0.5, "measured": 0.6}
    return ReportBasis(attempt=attempt, terms=sample.ledger.state.terms_hash, **given | other)


def nested(depth):
    return [nested(depth - 1)] if depth else []


FORMAT = "an earlier report has the fields of its format"
PRINTABLE = "texts have only printable characters"
EARLIER = {
    "sound": ({}, None),
    "a field more": ({"note": "hello"}, FORMAT),
    "commands for a terminal": ({"note": "\x1b[31mhello"}, PRINTABLE),
    "commands in an attempt": ({"attempt": "\x1b[31mhello/1"}, PRINTABLE),
    "a figure as text": ({"profit": "0.5"}, FORMAT),
    "a field less": ({"model": None}, FORMAT),
    "another format": ({"format": "commonweal.report/1"}, FORMAT),
    "lists in lists": ({"profit": nested(300)}, FORMAT),
    "terms of nobody": ({"terms": "0" * 64}, "earlier reports name terms that the ledger has stated"),
}


@pytest.mark.parametrize("what", EARLIER)
def test_an_earlier_report_that_its_client_made_up(sample, what):
    """One malicious member would make the ledger of an honest operator unsound."""
    changes, rule = EARLIER[what]
    first = settled(sample, 1, bases=dict.fromkeys(KEYS, basis(sample, "never/1")))
    document = {**first.report(sample.ledger.identity, "dan").document(), **changes}
    made_up = SignedReport(document=document, signature=CLIENT_KEYS["dan"].sign(canonical(document)))
    bases = dict.fromkeys(KEYS, basis(sample)) | {"dan": basis(sample, number=2, earlier=(made_up,))}
    made = settled(sample, 1, bases=bases)
    if rule is None:
        sample.ledger.settle(made)
        assert not verified(sample.store).findings
    else:
        refused(sample, made, rule)
        assert rule in forged_round(sample, made)


def test_an_entry_that_nobody_could_read_back(sample, monkeypatch):
    """The content is parsed before it is written, whatever else would have refused it."""
    monkeypatch.setattr("commonweal.ledger.verification.one_entry.parse", lambda content: None)
    before = sample.ledger.state.number
    with pytest.raises(LedgerError, match="the content is a JSON document"):
        sample.ledger.settle(settled(sample, 1))
    monkeypatch.undo()
    assert len(sample.entries()) == before
    sample.ledger.settle(settled(sample, 1))


@pytest.mark.parametrize(
    ("measured", "rule"), [(0.9, "a gain is measured from"), (0.38, "a metric that rises is a ga")]
)
def test_figures_of_both_models_that_do_not_give_the_gain(tmp_path, measured, rule):
    agreed = replace(FREE, figures="pooled")
    sample = open_with(tmp_path, agreed, members=KEYS)
    table = {
        client: PairedGain(gain=0.1 + 0.01 * place, sample_count=30, squared_change=5.0)
        for place, client in enumerate(KEYS)
    }
    gains = used_gains("pooled/1", [table])
    rows = {client: (gains.pooled[client] - 0.02, 0.2, None) for client in KEYS}
    unsigned = a_round(sample.ledger, 1, rows, agreed)
    bases = {client: basis(sample, measured=0.5 + table[client].gain) for client in KEYS}

    def signed(bases):
        made = replace(unsigned, record=replace(unsigned.record, gains=gains), bases=bases)
        reports = {name: made.report(sample.ledger.identity, name) for name in KEYS}
        return replace(made, signatures={name: one.signed(CLIENT_KEYS[name]) for name, one in reports.items()})

    refused(sample, signed({**bases, "dan": basis(sample, measured=measured)}), rule)
    sample.ledger.settle(signed(bases))
    assert not verified(sample.store).findings
    sample.store.close()


def test_old_reports_after_the_round_before_got_another_model(sample):
    def round_on(number, model, opening, attempt):
        on = basis(sample, attempt, model=model, opening_model=opening, measured=None)
        return settled(sample, number, bases=dict.fromkeys(KEYS, on))

    second = round_on(2, "m2", "m1", "a/1")
    sample.ledger.settle(round_on(1, "m1", "m0", "a/1"))
    sample.ledger.settle(second)
    reverse(sample, 2, 1)
    first = round_on(1, "other", "m0", "b/1")
    earlier = {c: round_on(1, "m1", "m0", "a/1").report(sample.ledger.identity, c).document() for c in KEYS}
    bases = {
        client: replace(
            first.bases[client],
            number=2,
            earlier=(SignedReport(document=each, signature=CLIENT_KEYS[client].sign(canonical(each))),),
        )
        for client, each in earlier.items()
    }
    sample.ledger.settle(settled(sample, 1, bases=bases))
    refused(sample, second, "a round opens with the model of the round before")


@pytest.mark.parametrize("is_opened_again", [False, True])
def test_a_decision_that_forgets_the_round_before(tmp_path, is_opened_again):
    """What FLI still owes for round 1 counts in round 2, also if another process settled round 1."""
    sample = open_with(tmp_path, FLI, members=KEYS)
    first, owed = by_fli(sample, 1, (0.9, 0.01, 0.01), {})
    sample.ledger.settle(first)
    if is_opened_again:
        sample.ledger = Ledger(sample.store, sample.keys)
    refused(sample, by_fli(sample, 2, (0.1, 0.1, 0.1), {})[0], "the decision follows from its inputs")
    second, _ = by_fli(sample, 2, (0.1, 0.1, 0.1), owed)
    sample.ledger.settle(second)
    reverse(sample, 2, 1)
    refused(sample, by_fli(sample, 1, (0.9, 0.01, 0.01), owed)[0], "the decision follows from its inputs")
    sample.ledger.settle(first)
    sample.ledger.settle(second)
    assert not verified(sample.store).findings
    sample.store.close()


@pytest.mark.parametrize("is_opened_again", [False, True])
def test_a_round_is_decided_from_what_the_round_before_was_settled_with(tmp_path, is_opened_again):
    """Without agreed rules a round can be reversed alone; what FLI owed after later rounds stays as it was."""
    sample = open_ledger(str(tmp_path / "ledger.db"), tmp_path / "keys")
    sample.ledger.admit(KEYS)
    owed = {0: {}}
    for number, costs in {1: (0.9, 0.01, 0.01), 2: (0.3, 0.2, 0.1), 3: (0.1, 0.1, 0.1)}.items():
        made, owed[number] = by_fli(sample, number, costs, owed[number - 1])
        sample.ledger.settle(made)
    sample.ledger.reverse_round(2, "wrong figures")
    corrected, owed_now = by_fli(sample, 2, (0.01, 0.01, 0.8), owed[1])
    assert owed_now != owed[2]
    sample.ledger.settle(corrected)
    if is_opened_again:
        sample.ledger = Ledger(sample.store, sample.keys)
    sample.ledger.settle(by_fli(sample, 4, (0.1, 0.1, 0.1), owed[3])[0])
    assert not verified(sample.store).findings
    sample.store.close()


def test_a_ledger_whose_terms_command_a_terminal(tmp_path, sample):
    store = open_store(str(tmp_path / "other.db"), create=True)
    terms = Terms(name="five banks", agreed=replace(FREE, metric="\x1b[31maccuracy"))
    with pytest.raises(LedgerError, match=PRINTABLE):
        Ledger.start(store, terms, sample.keys)
    with store.reading() as reading:
        assert not list(reading.entries())
    store.close()


def test_a_round_is_checked_without_being_settled(sample):
    sample.ledger.check_round(settled(sample, 1))
    wrong = replace(settled(sample, 1), signatures=dict.fromkeys(KEYS, "00" * 64))
    with pytest.raises(LedgerError, match="a report is signed by its client"):
        sample.ledger.check_round(wrong)
    assert sample.ledger.state.number == len(sample.entries()) == 2
    assert ALL.keys() == KEYS.keys()
