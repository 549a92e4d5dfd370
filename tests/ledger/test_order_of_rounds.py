"""While a round is reversed, nothing is entered by which it, or a later round, could come out otherwise.

Each attack leaves a round out for a while, so that the ledger forgets what follows from it, and brings it back later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from commonweal.decision.mechanism import decide_round
from commonweal.decision.mechanisms import make_mechanism
from commonweal.errors import LedgerError
from commonweal.ledger.amendments import amendment_body
from commonweal.ledger.entries import postings_of
from commonweal.ledger.keys import SigningKey
from commonweal.ledger.reports import ReportBasis
from commonweal.ledger.rounds import RoundToSettle, draft_round
from commonweal.records import Figures, RoundRecord, Rules
from tests.ledger.sample_ledger import CLIENT_KEYS, next_document, sealed, signed_notice, verified
from tests.ledger.test_terms import AGREED, a_round, amendment_of, open_with, rules_found, signed_by

FREE = replace(
    AGREED,
    round_count=None,
    grace_rounds=0,
    profit_bounds={},
    most_samples={},
    quorum=0.5,
    silence_charge=50_000,
    silence_limit=2,
)
KEYS = {name: CLIENT_KEYS[name].public for name in ("ann", "bob", "dan")}
ALL = {"ann": (0.3, 0.5, None), "bob": (0.2, 0.3, None), "dan": (0.1, 0.2, None)}
WITHOUT_DAN = {name: row for name, row in ALL.items() if name != "dan"}
LOSING = {**ALL, "dan": (-0.5, 0.01, None)}
LENIENT = Rules(mu=float("inf"))
REVERSED = "terms and members do not change while a round is reversed"
IN_ORDER = "where rules are agreed, rounds are settled in order and without gaps"


@pytest.fixture
def sample(tmp_path):
    made = open_with(tmp_path, FREE, members=KEYS)
    yield made
    made.store.close()


def settled(sample, number, rows=ALL, silent=(), **options):
    absent = tuple(name for name in KEYS if name not in rows)
    made = a_round(sample.ledger, number, rows, FREE, absent=absent, **options)
    return replace(made, record=replace(made.record, silent=silent))


def reverse(sample, *numbers):
    for number in numbers:
        sample.ledger.reverse_round(number, "a mistake")


def forged_round(sample, made: RoundToSettle) -> list[str]:
    terms = sample.ledger.state.terms_of(made.record.round_number).terms
    draft = draft_round(made, sample.ledger.identity, terms)
    return rules_found(sample, next_document(sample.entries(), "round", draft.body, draft.postings))


# Amendments, while a round is reversed.


def round_to_come(sample):
    """It would still be settled by the terms before."""
    for number in (1, 2):
        sample.ledger.settle(settled(sample, number))
    reverse(sample, 2)


def placeholders(sample):
    """The numbers of rounds that one colluder reports alone would be exempt from the amendment."""
    sample.ledger.settle(settled(sample, 1))
    for number in (2, 3, 4):
        sample.ledger.settle(settled(sample, number, {"bob": (0.0, 0.0, None)}))
    reverse(sample, 4, 3, 2)


def vote_of_the_eliminated(sample):
    sample.ledger.settle(settled(sample, 1))
    sample.ledger.settle(settled(sample, 2, LOSING))
    assert sample.ledger.state.eliminated == {"dan": 2}
    reverse(sample, 2)


def vote_of_the_withdrawn(sample):
    for number in (1, 2):
        sample.ledger.settle(settled(sample, number))
    sample.ledger.withdraw("dan", 2, signed_notice(sample.ledger.identity, "dan", 2))
    sample.ledger.settle(a_round(sample.ledger, 3, WITHOUT_DAN, FREE))
    reverse(sample, 3, 2)


@pytest.mark.parametrize("before", [round_to_come, placeholders, vote_of_the_eliminated, vote_of_the_withdrawn])
@pytest.mark.parametrize("newcomers", [{}, {"eve": SigningKey.from_seed(b"e" * 32)}])
def test_no_amendment_while_a_round_is_reversed(sample, before, newcomers):
    before(sample)
    keys = {name: key.public for name, key in newcomers.items()}
    amendment = amendment_of(sample.ledger.state, rules=LENIENT, members=keys)
    signatures = signed_by(amendment, *KEYS) | {name: amendment.signed(name, key) for name, key in newcomers.items()}
    with pytest.raises(LedgerError, match=r"while round 2 is reversed \(entry \d+\).* Settle round 2 first"):
        sample.ledger.amend(amendment, signatures)
    forged = next_document(sample.entries(), "amendment", amendment_body(amendment, signatures))
    assert REVERSED in rules_found(sample, forged)


def test_a_ledger_without_rules_gets_them_while_no_round_is_reversed(tmp_path):
    """Otherwise, the reversed rounds would be settled without rules afterwards."""
    sample = open_with(tmp_path, None, members=KEYS)
    for number in (1, 2):
        sample.ledger.settle(a_round(sample.ledger, number, ALL, FREE, measured_by=None))
    sample.ledger.reverse_round(2, "a mistake")
    terms = replace(sample.ledger.terms, agreed=FREE)
    state = replace(sample.ledger.state, terms=terms)
    amendment = replace(amendment_of(state), terms_before=sample.ledger.state.terms_hash)
    with pytest.raises(LedgerError, match="Settle round 2 first"):
        sample.ledger.amend(amendment, signed_by(amendment, *KEYS))
    forged = next_document(sample.entries(), "amendment", amendment_body(amendment, signed_by(amendment, *KEYS)))
    assert REVERSED in rules_found(sample, forged)
    sample.store.close()


def test_no_withdrawal_while_a_round_is_reversed(sample):
    """A notice that was held back would take its client out of rounds that it has played."""
    for number in (1, 2):
        sample.ledger.settle(settled(sample, number))
    reverse(sample, 2)
    notice = signed_notice(sample.ledger.identity, "dan", 1)
    with pytest.raises(LedgerError, match="A withdrawal cannot be entered while round 2 is reversed"):
        sample.ledger.withdraw("dan", 1, notice)
    body = {"client": "dan", "round": 1, "signature": notice}
    assert rules_found(sample, next_document(sample.entries(), "withdrawal", body)) == [REVERSED]


# Rounds out of order.


def by_fli(sample, number: int, costs, state):
    rules = FLI.rules
    figures = Figures(
        profits=dict.fromkeys(KEYS, 0.1),
        contributions=dict.fromkeys(KEYS, 0.1),
        costs=dict(zip(KEYS, costs, strict=True)),
    )
    decision, after = decide_round(make_mechanism(rules), figures, state, sample_counts=dict.fromkeys(KEYS, 100))
    made = RoundToSettle(
        record=RoundRecord(round_number=number, decision=decision),
        rules_version="fli/1",
        measured_by=FLI.measured_by,
        sample_counts=dict.fromkeys(KEYS, 100),
        with_costs=True,
    )
    reports = {name: made.report(sample.ledger.identity, name) for name in KEYS}
    return replace(made, signatures={name: one.signed(CLIENT_KEYS[name]) for name, one in reports.items()}), after


FLI = replace(FREE, rules=Rules(mu=float("inf"), mechanism="fli", parameters=(("omega", 1.0),)), rules_version="fli/1")


def test_a_mechanism_that_remembers_forgets_no_round(tmp_path):
    """What FLI still owes for round 1 would have no part in round 2."""
    sample = open_with(tmp_path, FLI, members=KEYS)
    first, _ = by_fli(sample, 1, (0.9, 0.01, 0.01), {})
    sample.ledger.settle(first)
    reverse(sample, 1)
    second, _ = by_fli(sample, 2, (0.1, 0.1, 0.1), {})
    with pytest.raises(LedgerError, match="Round 2 cannot be settled before round 1, which entry 4 reversed"):
        sample.ledger.settle(second)
    assert IN_ORDER in forged_round(sample, second)
    sample.store.close()


def silent_in_the_second(sample):
    """The silent member would take part in round 3 without a report or a charge."""
    sample.ledger.settle(settled(sample, 2, WITHOUT_DAN, silent=("dan",)))
    return settled(sample, 3)


def eliminated_in_the_second(sample):
    """The eliminated member would be silent in round 3, and charged for it."""
    sample.ledger.settle(settled(sample, 2, LOSING))
    return settled(sample, 3, WITHOUT_DAN, silent=("dan",))


def other_model(sample):
    """Round 3 would open with the model of a placeholder."""

    def based(number: int, model: str, opening: str, rows):
        basis = ReportBasis(
            number=1,
            attempt="a/1",
            model=model,
            opening_model=opening,
            baseline=0.5,
            terms=sample.ledger.state.terms_hash,
        )
        return settled(sample, number, rows, bases=dict.fromkeys(rows, basis))

    sample.ledger.settle(based(2, "poisoned", "m1", {"bob": (0.0, 0.0, None)}))
    return based(3, "m3", "poisoned", ALL)


@pytest.mark.parametrize("make", [silent_in_the_second, eliminated_in_the_second, other_model])
def test_no_later_round_while_one_is_reversed(sample, make: Callable):
    sample.ledger.settle(settled(sample, 1))
    third = make(sample)
    reverse(sample, 2)
    with pytest.raises(LedgerError, match="Round 3 cannot be settled before round 2, which entry 5 reversed"):
        sample.ledger.settle(third)
    assert IN_ORDER in forged_round(sample, third)


def test_rounds_are_reversed_last_first_and_settled_again_in_order(sample):
    made = {number: settled(sample, number) for number in (1, 2, 3, 4)}
    for number in made:
        sample.ledger.settle(made[number])
    with pytest.raises(
        LedgerError, match=r"Round 2 cannot be reversed while round 4 is settled: .* Reverse round 4 first"
    ):
        sample.ledger.reverse_round(2, "a mistake")
    entry = sample.ledger.state.rounds[2]
    opposite = [replace(each, amount=-each.amount) for each in postings_of(sample.ledger.document(entry))]
    forged = next_document(sample.entries(), "reversal", {"entry": entry, "reason": "a mistake"}, opposite)
    assert rules_found(sample, forged) == ["nothing rests on what is reversed"]
    balances = dict(sample.ledger.state.balances)
    reverse(sample, 4, 3, 2)
    for number in (2, 3, 4):
        sample.ledger.settle(made[number])
    assert dict(sample.ledger.state.balances) == balances
    assert sample.ledger.state.next_round == 5
    outcome = verified(sample.store)
    assert not outcome.findings
    assert not outcome.notes


def test_what_follows_from_silence_is_entered_again_between_the_rounds(sample):
    """A later round that rests on a charge or an exclusion can be settled again, though a round is still reversed."""
    ledger = sample.ledger
    second = settled(sample, 2, WITHOUT_DAN, silent=("dan",))
    third, fourth = settled(sample, 3), settled(sample, 4, WITHOUT_DAN, silent=("dan",))
    ledger.settle(settled(sample, 1))
    ledger.settle(second)
    charge = ledger.charge("dan", 2).entry
    ledger.settle(third)
    ledger.settle(fourth)
    (exclusion,) = ledger.end_memberships()
    ledger.reverse(exclusion.entry, "a mistake")
    reverse(sample, 4, 3)
    ledger.reverse(charge, "a mistake")
    reverse(sample, 2)
    ledger.settle(second)
    ledger.charge("dan", 2)
    ledger.rotate_key()
    ledger.settle(third)
    ledger.settle(fourth)
    assert ledger.end_memberships()[0].fresh
    ledger.settle(a_round(ledger, 5, WITHOUT_DAN, FREE))
    assert not verified(sample.store).findings


def test_a_ledger_without_rules_takes_rounds_in_any_order(tmp_path):
    sample = open_with(tmp_path, None, members=KEYS)
    for number in (1, 5, 3):
        sample.ledger.settle(a_round(sample.ledger, number, ALL, FREE, measured_by=None))
    sample.ledger.reverse_round(1, "a mistake")
    sample.ledger.withdraw("dan", 5, signed_notice(sample.ledger.identity, "dan", 5))
    sample.ledger.settle(a_round(sample.ledger, 1, ALL, FREE, measured_by=None))
    assert not verified(sample.store).findings
    sample.store.close()


def test_a_model_that_was_reversed_opens_no_round(sample):
    """A placeholder that one colluder reported does not count once the round is settled again without it."""

    def based(number, model, opening, rows, attempt="a/1"):
        terms = sample.ledger.state.terms_hash
        basis = ReportBasis(number=1, attempt=attempt, model=model, opening_model=opening, baseline=0.5, terms=terms)
        return settled(sample, number, rows, bases=dict.fromkeys(rows, basis))

    others = {name: ALL[name] for name in ("ann", "dan")}
    sample.ledger.settle(based(1, "m1", "m0", ALL))
    sample.ledger.settle(based(2, "poisoned", "m1", {"bob": (0.0, 0.0, None)}))
    reverse(sample, 2)
    sample.ledger.settle(based(2, "m2", "m1", others, "b/1"))
    assert forged_round(sample, based(3, "m3", "poisoned", ALL)) == ["a round opens with the model of the round before"]
    sample.ledger.settle(based(3, "m3", "m2", ALL))
    assert not verified(sample.store).findings


# Income, by payoffs that are taken back.

OTHERWISE = "income is divided by payoffs that stand, or is divided again"


@pytest.fixture
def accruing(tmp_path):
    made = open_with(tmp_path, FREE, members=KEYS, settlement="accruals")
    yield made
    made.store.close()


@pytest.mark.parametrize("is_settled_in_between", [False, True])
def test_no_income_by_an_absence_that_is_taken_back(accruing, is_settled_in_between):
    """Called alone in the round, bob gets all of the income; the reports of the others come back afterwards."""
    ledger = accruing.ledger
    alone = settled(accruing, 1, {"bob": ALL["bob"]})
    ledger.settle(alone)
    income = ledger.realise(1_000_000, "licence").entry
    reverse(accruing, 1)
    if is_settled_in_between:  # as before, which changes nothing
        ledger.settle(alone)
        assert not verified(accruing.store).findings
        reverse(accruing, 1)
    everybody = settled(accruing, 1)
    with pytest.raises(
        LedgerError, match=rf"divided in entry {income} by the payoffs of round 1 .* Reverse entry {income}"
    ):
        ledger.settle(everybody)
    assert forged_round(accruing, everybody) == [OTHERWISE]
    ledger.reverse(income, "divided by one report")
    ledger.settle(everybody)
    ledger.realise(1_000_000, "licence, divided again")
    assert not verified(accruing.store).findings
    assert ledger.state.balances["clients/ann"] > ledger.state.balances["clients/bob"] > 0


def test_an_income_that_is_reversed_after_the_new_settlement_is_sound(accruing):
    """As earlier versions let operators do it."""
    ledger = accruing.ledger
    ledger.settle(settled(accruing, 1, {"bob": ALL["bob"]}))
    income = ledger.realise(1_000_000, "licence").entry
    reverse(accruing, 1)
    draft = draft_round(settled(accruing, 1), ledger.identity, ledger.terms)
    postings = [replace(each, amount=-each.amount) for each in postings_of(ledger.document(income))]
    again = next_document(accruing.entries(), "round", draft.body, draft.postings)
    undone = {**next_document(accruing.entries(), "reversal", {"entry": income, "reason": "by one report"}, postings)}
    undone |= {"number": again["number"] + 1, "previous": sealed(again, accruing.operator).hash}
    assert rules_found(accruing, again) == [OTHERWISE]
    assert rules_found(accruing, again, undone) == []
