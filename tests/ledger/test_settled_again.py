"""Reversed rounds: what may change when they are settled again, and income that is divided in between."""

from __future__ import annotations

from dataclasses import replace

import pytest

from commonweal.decision.decide import decide_figures
from commonweal.errors import InputError, LedgerError
from commonweal.ledger.entries import Posting, postings_of
from commonweal.ledger.money import in_proportion
from commonweal.ledger.rounds import draft_round
from commonweal.records import Rules
from tests.ledger.sample_ledger import (
    FIRST_ROUND,
    LENIENT,
    MEMBERS,
    next_document,
    odd_notes,
    open_ledger,
    parsed,
    sealed,
    signed_round,
    tampering,
    verified,
)
from tests.ledger.test_terms import AGREED, open_with
from tests.ledger.test_terms import a_round as by_terms

RULES = "a round settled again under the same signatures has the same rules"
CONTRIBUTIONS = "a round settled again under the same signatures has the same contributions"
AS_BEFORE = "a round settled again is as before"
BETWEEN = "no income is divided between a reversal and the new settlement"
OTHER_CONTRIBUTIONS = FIRST_ROUND | {"ann": (0.31, 0.1, None)}  # the reports are the same
BOB_ANEW = OTHER_CONTRIBUTIONS | {"bob": (0.2, 0.3, None)}
ALL_ANEW = {client: (profit + 0.01, contribution, None) for client, (profit, contribution, _) in FIRST_ROUND.items()}


@pytest.fixture
def sample(tmp_path):
    """Round 1 is settled, and reversed."""
    made = open_ledger(str(tmp_path / "ledger.db"), tmp_path / "keys", "accruals")
    made.ledger.admit(MEMBERS)
    made.ledger.settle(signed_round(made.ledger.identity, 1, FIRST_ROUND))
    made.ledger.reverse_round(1, "an error")
    yield made
    made.store.close()


def forged_again(sample, *rounds):
    """What verification says if the operator writes these settlements of round 1, reversing each but the last."""
    with tampering(sample.store) as attacker:

        def add(kind, body, postings):
            document = next_document(attacker.entries(), kind, body, postings)
            attacker.add(sealed(document, sample.operator))

        for settled in rounds:
            last = parsed(attacker.entries()[-1])
            if last["kind"] == "round":
                opposite = [replace(posting, amount=-posting.amount) for posting in postings_of(last)]
                add("reversal", {"entry": last["number"], "reason": "again"}, opposite)
            draft = draft_round(settled, sample.ledger.identity, sample.ledger.terms)
            add("round", draft.body, draft.postings)
        return verified(attacker)


def a_round(sample, figures=FIRST_ROUND, rules=LENIENT, **options):
    return signed_round(sample.ledger.identity, 1, figures, rules, **options)


def with_grace(settled):
    decision = decide_figures(settled.record.decision.figures, settled.record.decision.rules, grace=True)
    return replace(settled, record=replace(settled.record, decision=decision))


UNDER_THE_SAME_SIGNATURES = {
    "mu": (lambda sample: a_round(sample, rules=Rules(mu=0.05)), RULES, "mu inf as in entry 3", "0.05"),
    "loss rule": (
        lambda sample: a_round(sample, rules=replace(LENIENT, loss_rule="equal")),
        RULES,
        "loss_rule contribution as in entry 3",
        "equal",
    ),
    "grace": (lambda sample: with_grace(a_round(sample)), RULES, "grace False as in entry 3", "True"),
    "contributions": (
        lambda sample: a_round(sample, OTHER_CONTRIBUTIONS),
        CONTRIBUTIONS,
        "ann 0.5 as in entry 3",
        "0.1",
    ),
    "mu, and one signed anew": (
        lambda sample: a_round(sample, BOB_ANEW, Rules(mu=0.05)),
        RULES,
        "mu inf as in entry 3",
        "0.05",
    ),
}


@pytest.mark.parametrize("which", UNDER_THE_SAME_SIGNATURES)
def test_another_round_under_the_same_signatures(sample, which):
    make, rule, expected, found = UNDER_THE_SAME_SIGNATURES[which]
    outcome = forged_again(sample, make(sample))
    (finding,) = outcome.findings
    assert (finding.entry, finding.rule, finding.expected, finding.found) == (5, rule, expected, found)
    assert AS_BEFORE in {note.rule for note in outcome.notes}
    with pytest.raises(LedgerError, match=r"was settled in entry 3 and reversed, .* Settle it by the same rules and"):
        sample.ledger.settle(make(sample))


def test_a_detour_does_not_explain_other_contributions(sample):
    """First without bob, then with him, his old report, and other contributions than at first."""
    without_bob = {client: FIRST_ROUND[client] for client in ("ann", "cyd")}
    steps = a_round(sample, without_bob, absent=("bob",)), a_round(sample, OTHER_CONTRIBUTIONS)
    assert [finding.rule for finding in forged_again(sample, *steps).findings] == [CONTRIBUTIONS]
    sample.ledger.settle(steps[0])
    sample.ledger.reverse_round(1, "bob is back")
    with pytest.raises(LedgerError, match="was settled in entry 3"):
        sample.ledger.settle(steps[1])


@pytest.mark.parametrize(
    ("figures", "rules", "options", "said"),
    [
        (ALL_ANEW, Rules(mu=0.05), {},
         "signed anew by 2 of 2; decision; rules: mu inf before, 0.05 now; reported figures: ann, bob, cyd"),
        (BOB_ANEW, LENIENT, {},
         "signed anew by 1 of 2; decision; contributions: ann 0.5 before, 0.1 now; reported figures: bob"),
        ({client: FIRST_ROUND[client] for client in ("ann", "cyd")}, LENIENT, {"absent": ("bob",)},
         "who was absent; signed anew by 0 of 1; decision; contributions: bob 0.3 before, None now; "
         "reported figures: bob, cyd"),
    ],
)  # fmt: skip
def test_a_correction_is_a_note_that_says_what_changed(sample, figures, rules, options, said):
    sample.ledger.settle(a_round(sample, figures, rules, **options))
    outcome = verified(sample.store)
    assert outcome.findings == ()
    assert [(note.entry, note.rule, note.expected, note.found) for note in odd_notes(outcome)] == [
        (5, AS_BEFORE, "as in entry 3", said)
    ]


@pytest.mark.parametrize("is_agreed", [True, False])
def test_another_order_of_the_clients_under_the_same_signatures(tmp_path, is_agreed):
    """It decides ties: bob or cyd is eliminated. In version 1 of settlements, the terms do not fix it."""
    agreed = replace(AGREED, settlement_version=1, grace_rounds=0, profit_bounds={}, rules=Rules(mu=1.0))
    sample = open_with(tmp_path, agreed if is_agreed else None)
    figures = {"ann": (0.3, 0.5, None), "bob": (-0.31, 0.2, None), "cyd": (-0.31, 0.2, None)}
    sample.ledger.settle(by_terms(sample.ledger, 1, figures, agreed))
    eliminated = dict(sample.ledger.state.eliminated)
    sample.ledger.reverse_round(1, "an error")
    again = by_terms(sample.ledger, 1, {client: figures[client] for client in ("ann", "cyd", "bob")}, agreed)
    assert set(eliminated).isdisjoint(again.record.decision.eliminated)
    if is_agreed:
        with pytest.raises(LedgerError, match="expected the order ann, bob, cyd as in entry 3, got ann, cyd, bob"):
            sample.ledger.settle(again)
    else:
        sample.ledger.settle(again)
        sample.ledger.reverse_round(1, "an error")
    outcome = forged_again(sample, again)
    order = "a round settled again under the same signatures has its clients in the same order"
    assert [finding.rule for finding in outcome.findings] == ([order] if is_agreed else [])
    assert "signed anew by 0 of 2; order of clients; decision" in [note.found for note in outcome.notes]
    sample.store.close()


def test_another_version_of_the_rules_is_a_note(sample):
    """A newer commonweal decides by its own version."""
    sample.ledger.settle(a_round(sample, rules=replace(LENIENT, version=1)))
    outcome = verified(sample.store)
    assert outcome.findings == ()
    assert [note.found for note in outcome.notes if note.rule == AS_BEFORE] == [
        "signed anew by 0 of 2; version of the rules: 2 before, 1 now",
    ]


def test_the_same_round_again_is_nothing_to_note(sample):
    sample.ledger.settle(a_round(sample))
    outcome = verified(sample.store)
    assert outcome.findings == odd_notes(outcome) == ()


def test_where_nobody_signs_the_operator_may_correct_anything(tmp_path):
    sample = open_ledger(str(tmp_path / "ledger.db"), tmp_path / "keys")
    sample.ledger.admit(dict.fromkeys(MEMBERS))
    sample.ledger.settle(replace(a_round(sample), signatures={}))
    sample.ledger.reverse_round(1, "a typing error")
    sample.ledger.settle(replace(a_round(sample, OTHER_CONTRIBUTIONS, Rules(mu=0.05)), signatures={}))
    outcome = verified(sample.store)
    assert outcome.findings == ()
    assert [note.rule for note in odd_notes(outcome)] == [AS_BEFORE]
    sample.store.close()


# Income.


@pytest.fixture
def accrued(sample):
    """Round 2 is settled as well, so that somebody has accrued something while round 1 is reversed."""
    sample.ledger.settle(signed_round(sample.ledger.identity, 2, {"ann": (0.2, 0.4, None)}, absent=("bob", "cyd")))
    return sample


def test_income_divided_between_a_reversal_and_the_new_settlement(accrued):
    """Nothing is divided wrongly by the entry itself; but bob, who earned in round 1, gets nothing."""
    ledger = accrued.ledger
    parts = in_proportion(1_000_000, ledger.state.weights())
    assert list(parts) == ["ann"]
    with tampering(accrued.store) as attacker:
        divided = [Posting("model-income", -1_000_000)]
        divided += [Posting(f"clients/{client}", part) for client, part in parts.items()]
        income = {"reference": "invoice 1", "amount": "1000000"}
        attacker.add(sealed(next_document(attacker.entries(), "realisation", income, divided), accrued.operator))
        outcome = verified(attacker)
        assert outcome.findings == (), "the round may stay reversed for good"
        assert [(note.entry, note.rule) for note in outcome.notes if note.rule == BETWEEN] == [(6, BETWEEN)]
        draft = draft_round(a_round(accrued), ledger.identity, ledger.terms)
        attacker.add(sealed(next_document(attacker.entries(), "round", draft.body, draft.postings), accrued.operator))
        (finding,) = verified(attacker).findings
    assert (finding.entry, finding.rule) == (6, BETWEEN)
    assert finding.found == "divided without round 1, which entry 7 settled again"


def test_the_ledger_divides_no_income_while_a_round_waits(accrued):
    ledger = accrued.ledger
    with pytest.raises(LedgerError, match=r"Round 1 was reversed in entry 4 and is not settled again, so its payoffs"):
        ledger.realise(1_000_000, "invoice 1")
    ledger.settle(a_round(accrued))
    ledger.realise(1_000_000, "invoice 1")
    outcome = verified(accrued.store)
    assert outcome.findings == ()
    assert ledger.state.balances["clients/bob"] > 0


def test_a_round_that_stays_reversed_for_good(accrued):
    """Income can be divided without it; to settle it after all, the income is reversed first."""
    ledger = accrued.ledger
    with pytest.raises(InputError, match="Round 2 is settled, so income cannot be divided without it"):
        ledger.realise(1_000_000, "invoice 1", without=[1, 2])
    ledger.realise(1_000_000, "invoice 1", without=[1])
    with pytest.raises(LedgerError, match=r"divided in entry 6 while round 1 was reversed.* Reverse entry 6"):
        ledger.settle(a_round(accrued))
    ledger.reverse(6, "round 1 is to count")
    ledger.settle(a_round(accrued))
    ledger.realise(1_000_000, "invoice 1, divided again")
    outcome = verified(accrued.store)
    assert outcome.findings == ()


DIVIDED_AGAIN = "income that is reversed is divided again before further rounds"


@pytest.mark.parametrize("waits", [True, False])
def test_income_that_is_taken_back(sample, waits):
    """Divided after a further round, it goes by the payoffs of that one, too; of other income it says nothing."""
    ledger = sample.ledger

    def noted():
        outcome = verified(sample.store)
        assert outcome.findings == ()
        return [(note.entry, note.found) for note in outcome.notes if note.rule == DIVIDED_AGAIN]

    ledger.settle(a_round(sample))
    ledger.reverse(ledger.realise(1_000_000, "invoice 1").entry, "booked too early")
    assert noted() == [(7, "none since")]
    second = signed_round(ledger.identity, 2, {"cyd": (0.2, 0.4, None)}, absent=("ann", "bob"))
    if waits:
        ledger.settle(second)
    else:
        ledger.reverse_round(1, "an error")
        ledger.settle(a_round(sample))  # again, before the income
    ledger.realise(1000, "invoice 2")
    ledger.realise(1_000_000, "invoice 1, divided again")
    assert noted() == ([(10, "with round 2")] if waits else [])


def test_a_round_reversed_after_income_was_divided_by_it(tmp_path):
    sample = open_ledger(str(tmp_path / "ledger.db"), tmp_path / "keys", "accruals")
    sample.ledger.admit(MEMBERS)
    sample.ledger.settle(a_round(sample))
    sample.ledger.realise(1000, "invoice 1")
    sample.ledger.reverse_round(1, "an error")
    outcome = verified(sample.store)
    assert outcome.findings == ()
    assert [(note.entry, note.rule, note.found) for note in odd_notes(outcome)] == [
        (5, "rounds are reversed before income is divided by them", "income in entry 4"),
        (5, "a reversed round is settled again", "round 1 reversed, and not settled since"),
    ]
    sample.store.close()


def test_a_round_that_stays_reversed_is_a_note(sample):
    rule = "a reversed round is settled again"
    outcome = verified(sample.store)
    assert not outcome.findings
    assert [(note.entry, note.found) for note in outcome.notes if note.rule == rule] == [
        (4, "round 1 reversed, and not settled since")
    ]
    sample.ledger.settle(a_round(sample))
    assert rule not in [note.rule for note in verified(sample.store).notes]
