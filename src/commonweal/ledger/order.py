"""Refuse rounds, income and dates that do not fit the order of the entries before them.

Where rules are agreed, the rounds that stand are always the first ones, 1, 2, 3, … without gaps: rounds are settled in
order, reversed last first, and settled again in order. Terms and members do not change while a round is reversed. So
the state at every entry is that of its rounds in order, whatever was reversed before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime, timedelta

from commonweal.errors import InputError, LedgerError
from commonweal.ledger.entries import Posting, time_text
from commonweal.ledger.member_documents import ROUND_LIMIT
from commonweal.ledger.state import LedgerState

CLOCK_SKEW = timedelta(minutes=5)  # by which the clocks of two machines may differ
NOTHING_REVERSED = "terms and members do not change while a round is reversed"
LARGEST_JUMP = 10_000  # from one round to the next; rounds numbered by date, such as 20261231, stay within it


def is_number_of_a_round(number: int) -> bool:
    return 1 <= number <= ROUND_LIMIT


def is_too_far(number: int, state: LedgerState) -> bool:
    """Whether a round's number is absurdly far beyond the last one, where numbers are free."""
    return not state.has_rules and bool(state.last_round) and number > state.last_round + LARGEST_JUMP


def is_out_of_turn(number: int, state: LedgerState) -> bool:
    """Whether another round is to be settled first; where no rules are agreed, figures may come in any order."""
    return state.has_rules and number != state.next_round


def check_round_number(number: int, state: LedgerState) -> None:
    """Refuse a number that no round can have here."""
    if not is_number_of_a_round(number):
        raise LedgerError(f"Rounds are numbered from 1 to {ROUND_LIMIT}, got round {number}. Correct its number.")
    if is_too_far(number, state):
        raise LedgerError(
            f"Round {number} is too far beyond round {state.last_round}, the last one: a number may be at most "
            f"{LARGEST_JUMP} higher. Correct its number."
        )
    if is_out_of_turn(number, state):
        due = state.next_round
        reversed_in = f", which entry {state.reversals[state.undone[due]]} reversed" if due in state.undone else ""
        raise LedgerError(
            f"Round {number} cannot be settled before round {due}{reversed_in}: this ledger has agreed terms, so its "
            f"rounds are numbered 1, 2, 3, … and settled in order. Settle round {due} first, or correct the number."
        )


def check_is_last(number: int, state: LedgerState) -> None:
    """Refuse to reverse a round that others follow, where rules are agreed: they were decided by what it says."""
    last = max(state.rounds)
    if state.has_rules and number != last:
        raise LedgerError(
            f"Round {number} cannot be reversed while round {last} is settled: this ledger has agreed terms, so rounds "
            f"are reversed last first. Reverse round {last} first; then settle the reversed rounds again in order."
        )


def check_nothing_is_reversed(what: str, state: LedgerState) -> None:
    """Refuse to change terms or members, by `what`, while a round waits to be settled again."""
    if state.undone:
        waiting = state.next_round
        raise LedgerError(
            f"{what} cannot be entered while round {waiting} is reversed (entry "
            f"{state.reversals[state.undone[waiting]]}): terms and members stay as they are until it is settled again. "
            f"Settle round {waiting} first."
        )


def check_nobody_is_missing(number: int, listed: Collection[str], state: LedgerState) -> None:
    """Refuse a round that says nothing about a member that is active in it."""
    missing = [client for client in state.listed_in(number) if client not in listed]
    if missing:
        raise LedgerError(
            f"Client {missing[0]!r} is an active member, but round {number} has neither its figures nor lists it as "
            "absent. Add one or the other."
        )


def check_not_divided_without(round_number: int, state: LedgerState) -> None:
    """Refuse to settle a reversed round again after income was divided without it."""
    settled = state.undone.get(round_number)
    income = None if settled is None else state.realised_since(state.reversals[settled])
    if income is not None:
        raise LedgerError(
            f"Income was divided in entry {income} while round {round_number} was reversed, so the payoffs of this "
            f"round had no part in it. Reverse entry {income}, settle the round, then divide the income again."
        )


def divided_otherwise(
    round_number: int, postings: Sequence[Posting], state: LedgerState, postings_in: Callable[[int], Sequence[Posting]]
) -> Iterator[tuple[int, int]]:
    """Incomes that stand, each with the entry by whose payoffs of a round it was divided: not by these `postings`.

    Where no rules are agreed, nobody has agreed on the payoffs either. `postings_in` gives those of an entry.
    """
    if state.terms_of(round_number).terms.agreed is None:
        return
    for (income, of_round), settled in state.divided_by.items():
        if of_round == round_number and income not in state.reversals and set(postings_in(settled)) != set(postings):
            yield income, settled


def check_not_divided_otherwise(
    round_number: int, postings: Sequence[Posting], state: LedgerState, postings_in: Callable[[int], Sequence[Posting]]
) -> None:
    """Refuse to settle a reversed round with other payoffs than those by which income was divided."""
    for income, settled in divided_otherwise(round_number, postings, state, postings_in):
        raise LedgerError(
            f"Income was divided in entry {income} by the payoffs of round {round_number} in entry {settled}, which "
            f"was reversed since, and the payoffs are others now. Reverse entry {income}, settle the round, then "
            "divide the income again."
        )


def check_may_divide(state: LedgerState, without: Collection[int]) -> None:
    """Refuse to divide income while reversed rounds wait to be settled again; those in `without` stay reversed."""
    settled = sorted(set(without) & set(state.rounds))
    if settled:
        raise InputError(f"Round {settled[0]} is settled, so income cannot be divided without it. Reverse it first.")
    waiting = sorted(set(state.undone) - set(without))
    if waiting:
        raise LedgerError(
            f"Round {waiting[0]} was reversed in entry {state.reversals[state.undone[waiting[0]]]} and is not settled "
            "again, so its payoffs would have no part in this income. Settle it again first, or state that the "
            "income is to be divided without it."
        )


def date_of_entry(now: datetime, state: LedgerState) -> datetime:
    """The date of the next entry, which is never before the latest one; refuses a clock that is far behind."""
    latest = state.latest
    if latest is None or now >= latest:
        return now
    if latest - now > CLOCK_SKEW:
        raise LedgerError(
            f"The clock says {time_text(now)}, but the ledger has an entry of {time_text(latest)}. Set the clock of "
            "this machine right."
        )
    return latest
