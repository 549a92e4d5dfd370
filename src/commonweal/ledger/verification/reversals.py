"""Check what happens around reversals: rounds that are settled again, and income divided in between."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from commonweal.ledger.order import divided_otherwise
from commonweal.ledger.settled_again import Settlement, changes, unexplained
from commonweal.ledger.verification.replay import LedgerReplay


def check_settled_again(number: int, body: Mapping[str, Any], replay: LedgerReplay) -> None:
    """Compare a round with every earlier settlement of it, so that no detour explains a change."""
    now = Settlement.of(number, body, replay.state)
    before = replay.settlements.get(body["round"], ())
    if before:
        what = changes(before[-1], now)
        if what:
            rule = "a round settled again is as before"
            replay.notes.add(number, rule, f"as in entry {before[-1].entry}", what)
        faults = (unexplained(each, now, has_rules=replay.state.has_rules) for each in before)
        for fault in filter(None, faults):
            replay.findings.add(number, fault.rule, fault.expected, fault.found)
            break


def check_reversed_income(number: int, reversed_entry: int, replay: LedgerReplay) -> None:
    """Income that is divided again goes by the payoffs of then; a round reversed meanwhile may be settled again."""
    since = [n for n, settled in replay.settlements.items() if any(each.entry > reversed_entry for each in settled)]
    if since and replay.past[reversed_entry].kind == "realisation":
        rule = "income is reversed before further rounds are settled"
        found = f"round {min(since)} settled since: if the income is divided again, it is by other payoffs"
        replay.notes.add(number, rule, f"no round since entry {reversed_entry}", found)


def check_reversed_after_income(number: int, reversed_entry: int, replay: LedgerReplay) -> None:
    """Income that a round had a part in stays as it was divided."""
    income = replay.state.realised_since(reversed_entry)
    if income is not None and replay.past[reversed_entry].kind == "round":
        rule = "rounds are reversed before income is divided by them"
        replay.notes.add(number, rule, f"no income since entry {reversed_entry}", f"income in entry {income}")


def conclude_divided_without(replay: LedgerReplay) -> None:
    """A finding if the round was settled again and the income not divided again; else a note."""
    for divided in replay.divided_without:
        if divided.entry in replay.state.reversals:
            continue
        noticed = replay.notes if divided.settled_again is None else replay.findings
        later = "" if divided.settled_again is None else f", which entry {divided.settled_again} settled again"
        noticed.add(
            divided.entry,
            "no income is divided between a reversal and the new settlement",
            f"round {divided.round_number} settled",
            f"divided without round {divided.round_number}{later}",
        )


def conclude_divided_otherwise(replay: LedgerReplay) -> None:
    """Income that was divided by a round that is settled otherwise now, and not divided again."""
    state = replay.state
    for round_number, entry in state.rounds.items():
        stated = replay.past[entry].postings
        for income, settled in divided_otherwise(round_number, stated, state, lambda each: replay.past[each].postings):
            rule = "income is divided by payoffs that stand, or is divided again"
            found = f"divided by those in entry {settled}, which was reversed, and entry {entry} has others"
            replay.findings.add(income, rule, f"the payoffs of round {round_number} in entry {entry}", found)


def note_income_taken_back(replay: LedgerReplay) -> None:
    """Note income that was reversed and not divided again, or by other rounds, so by other payoffs.

    Each income has a reference of its own, so the next one of the same amount counts as the same income.
    """
    state, rule = replay.state, "income that is reversed is divided again before further rounds"
    waiting: dict[int, list[int]] = {}  # by amount: incomes of it that were reversed, the first one first
    for income in sorted(state.references.values(), key=lambda each: each.entry):
        taken_back = waiting.get(income.amount, [])
        before = next((each for each in taken_back if state.reversals[each] < income.entry), None)
        if before is not None:
            taken_back.remove(before)
            first, second = (replay.divided_by_rounds[each] for each in (before, income.entry))
            if first != second:
                expected = f"by the same rounds as in entry {before}, which entry {state.reversals[before]} reversed"
                changes = (("with", second - first), ("without", first - second))
                found = " and ".join(f"{word} round {min(rounds)}" for word, rounds in changes if rounds)
                replay.notes.add(income.entry, rule, expected, found)
        if income.entry in state.reversals:
            waiting.setdefault(income.amount, []).append(income.entry)
    for entry in sorted(state.reversals[each] for taken_back in waiting.values() for each in taken_back):
        replay.notes.add(entry, rule, "an income of the same amount", "none since")


def note_never_settled_again(replay: LedgerReplay) -> None:
    """Note rounds that stay reversed: their clients have neither transfers nor payoffs from them."""
    for round_number, entry in replay.state.undone.items():
        rule, found = "a reversed round is settled again", f"round {round_number} reversed, and not settled since"
        replay.notes.add(replay.state.reversals[entry], rule, f"round {round_number} settled", found)
