"""When a member adopts what a round changed: the baseline, the memory of training, the model that it trains alone.

A statement that the operator signed counts more than what a question says: else an operator could settle rounds and
tell the member that none was, and the member would report the same gain again and again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from commonweal.ledger.reports import BASED_REPORT_FORMATS, SignedReport, is_of_opening
from commonweal.remote.member.going_back import check_settled, note_another_attempt
from commonweal.remote.member.report_book import ReportBook
from commonweal.remote.member.store import ERROR, MemberState, MemberStore, OpenRound
from commonweal.remote.messages.message import QuestionError


def commit(store: MemberStore, state: MemberState, fields: Mapping[str, Any]) -> None:
    """Adopt the round that a question says was settled last, if it is the one that is open here."""
    open_round = state.under_way
    settled = (fields["settled_round"], fields["settled_attempt"])
    if open_round is not None and settled == (open_round.round_number, open_round.attempt):
        check_settled(store, open_round, fields["settled_model"])
        _adopt(store, state, open_round, fields["settled_model"], fields.get("models", []))
    elif settled[0] > state.settled_round:
        note_another_attempt(store, *settled)


def commit_as_stated(store: MemberStore, state: MemberState, statement: str) -> None:
    """Adopt the open round if a statement that was kept shows it settled, whatever the question with it says."""
    open_round = state.under_way
    if open_round is None:
        return
    last = ReportBook(store, open_round.round_number).last
    if last is None or not is_of_opening(last.document["attempt"], open_round.attempt):
        return
    model = last.document["model"]
    if model in open_round.accuracies and _shows(store, statement, open_round.round_number, last.document["profit"]):
        _adopt(store, state, open_round, model, [])


def recover(store: MemberStore, state: MemberState, fields: Mapping[str, Any], *, client: str, key: str) -> str:
    """Go on from what this member signed itself, if its folder is older than the ledger or was lost.

    Returns what happened, for the log and the coordinator; empty if the folder knows the last settled round. Raises
    `QuestionError` if the coordinator names a round that neither the folder nor the member's own signature knows.
    """
    settled = (fields["settled_round"], fields["settled_attempt"])
    if settled[0] <= state.settled_round:
        return ""
    report = _own_report(fields, client=client, key=key)
    if report is None:
        if not state.settled_round:  # a new folder, or one of a version that did not note which round was settled
            return ""
        refusal = (
            f"Round {settled[0]} is said to be settled with this member, but its folder knows nothing of it, and its "
            "signed report of that round was not sent along."
        )
        store.log(
            f"{ERROR} refused to open round {fields['round']}: {refusal} If this folder was restored from a backup, "
            "put back a newer one; if not, ask the operator"
        )
        raise QuestionError(refusal)
    state.settled_round, state.settled_attempt = settled
    state.baseline = report.document.get("measured")
    state.memory = state.alone = state.alone_memory = state.under_way = None
    return (
        f"this folder is older than the ledger: round {settled[0]} was settled with a report that was signed here and "
        "is not known here any more. What was measured then counts, as it was signed; what training remembered is lost"
    )


def refuse_after_withdrawal(store: MemberStore, state: MemberState, round_number: int) -> None:
    """A member that gave notice takes part in one more round, and in no other."""
    if state.withdrew:
        store.log(
            f"{ERROR} refused to open round {round_number}: this member withdrew after round {state.settled_round}. "
            "Ask the operator why it is still asked"
        )
        raise QuestionError(f"This member withdrew after round {state.settled_round}, and takes part in no later one.")


def refuse_to_open_again(store: MemberStore, state: MemberState, fields: Mapping[str, Any]) -> None:
    """An attempt that was trained in is not opened again: its steps, and what they cost, would be forgotten."""
    open_round = state.under_way
    if open_round is None or (open_round.round_number, open_round.attempt) != (fields["round"], fields["attempt"]):
        return
    if open_round.steps or fields["models"] != [open_round.opening]:
        refusal = f"Attempt {open_round.attempt} of round {open_round.round_number} is under way and not opened again."
        store.log(f"{ERROR} {refusal}")
        raise QuestionError(f"{refusal} A new attempt needs a new name.")


def baseline_of(state: MemberState, open_round: OpenRound) -> float | None:
    """What utility is measured from: the last settled round; before the first one, the model that opened this round."""
    return open_round.first_baseline if state.baseline is None else state.baseline


def _adopt(store: MemberStore, state: MemberState, open_round: OpenRound, model: str, needed: list[str]) -> None:
    """`needed` are the models of the question that brought the news: they may have come with it."""
    state.settled_round, state.settled_attempt = open_round.round_number, open_round.attempt
    state.baseline = open_round.accuracies[model]
    state.memory = open_round.memory
    state.alone, state.alone_memory = open_round.alone, open_round.alone_memory
    state.withdrew |= open_round.has_notice
    state.under_way = None
    store.save(state)
    store.forget_all_but([*needed, model, state.memory, state.alone, state.alone_memory])


def _shows(store: MemberStore, statement: str, round_number: int, profit: float) -> bool:
    """Whether a line of the statement is that of the round: by its words, or by the profit if they name no round."""
    for line in json.loads(statement)["document"]["lines"]:
        if line.get("profit") != profit:
            continue
        named = re.match(r"round (\d{1,9}):", line["text"])
        number = round_number if named is None else int(named[1])
        if number == round_number or not ReportBook(store, number).reports:
            return True
    return False


def _own_report(fields: Mapping[str, Any], *, client: str, key: str) -> SignedReport | None:
    """This member's own report of the last settled round, as the coordinator sends it; None if it is not that."""
    try:
        report = SignedReport.from_document(json.loads(fields.get("settled_report", "")))
        document = report.document
        is_of_attempt = is_of_opening(document["attempt"], fields["settled_attempt"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    wanted = {
        "book": fields["book"],
        "client": client,
        "round": fields["settled_round"],
        "model": fields["settled_model"],
    }
    is_wanted = all(document.get(name) == value for name, value in wanted.items())
    is_wanted &= document.get("format") in BASED_REPORT_FORMATS
    return report if is_wanted and is_of_attempt and report.is_signed(key) else None
