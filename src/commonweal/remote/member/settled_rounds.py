"""When a member adopts what a round changed: the baseline, the memory of training, the model that it trains alone.

A statement that the operator signed counts more than what a question says: else an operator could settle rounds and
tell the member that none was, and the member would report the same gain again and again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from commonweal.ledger.member_documents import ROUND_LIMIT
from commonweal.ledger.reports import SignedReport, is_of_opening, went_on_to
from commonweal.records.statement import StatementLine
from commonweal.remote.member.going_back import (
    check_settled,
    note_another_attempt,
    same_settled,
    same_settled_in_words,
)
from commonweal.remote.member.report_book import ReportBook
from commonweal.remote.member.store import ERROR, MemberState, MemberStore, OpenRound
from commonweal.remote.member.told_rounds import round_told
from commonweal.remote.messages.message import QuestionError

KeptLines = Callable[[], Sequence[StatementLine]]
"""Reads the lines of the statements that are kept."""


def commit(
    store: MemberStore, state: MemberState, fields: Mapping[str, Any], own: SignedReport | None, kept: KeptLines
) -> None:
    """Adopt the round that a question says was settled last, if it was opened and reported here.

    A folder from a backup may have the opening without the report that settled the round, `own`, or may have another
    report of it: that is left to `recover`.
    """
    settled = (fields["settled_round"], fields["settled_attempt"])
    is_news = settled[0] > state.settled_round
    if is_news and settled[0] in state.missed_rounds:
        _refuse_told(store, settled[0])
    for opening in state.openings():
        if is_news and settled == (opening.round_number, opening.attempt):
            model = fields["settled_model"]
            if _is_older_than_report(store, opening, model, own):
                return
            measured = check_settled(store, opening, model)
            _adopt(store, state, opening, model, measured, fields.get("models", []))
            return
    if is_news:
        if settled[0] <= state.told_round and ReportBook(store, settled[0]).reports and not _is_stated(own, kept):
            _refuse_told(store, settled[0])
        note_another_attempt(store, *settled)
    elif settled[0] == state.settled_round and settled[1] != state.settled_attempt:
        _settle_by_another(store, state, settled[1], own)


def _is_stated(own: SignedReport | None, kept: KeptLines) -> bool:
    """Whether the last line that a statement has of the round of a report has its profit."""
    return own is not None and _stated(own.document["round"], kept)[-1:] == [own.document["profit"]]


def _stated(round_number: int, kept: KeptLines) -> list[float | None]:
    """The profits that statements say a round was settled with."""
    return [line.profit for line in kept() if round_told(line) == round_number]


def _settle_by_another(store: MemberStore, state: MemberState, attempt: str, own: SignedReport | None) -> None:
    """Go on from another attempt of the last settled round, if it was reported with the profit that the statement says.

    What training remembers stays that of the attempt that was adopted first: both went on from the same round.
    """
    report = same_settled(store, state, attempt, own)
    if report is None:
        return
    store.log(same_settled_in_words(state.settled_round))
    state.settled_attempt = attempt
    if report.document.get("measured") is not None:
        state.baseline = report.document["measured"]


def _is_older_than_report(store: MemberStore, opening: OpenRound, model: str, own: SignedReport | None) -> bool:
    """Whether this member signed a later report than its folder knows, of an opening that was not reported so here."""
    reports = ReportBook(store, opening.round_number).reports
    is_known = any(
        is_of_opening(report.document["attempt"], opening.attempt) and report.document["model"] == model
        for report in reports
    )
    return own is not None and not is_known and own.document["number"] > len(reports)


def _refuse_told(store: MemberStore, number: int) -> None:
    """Refuse a settled round that is news although statements tell of it: it was adopted when they came, if ever."""
    refusal = (
        f"Round {number} is said to be settled with this member, but the statements that are kept here do not say "
        "so: it was settled without this member, or what was trained in it is lost."
    )
    store.log(f"{ERROR} {refusal} Ask the operator")
    raise QuestionError(refusal)


def adopt_stated(
    store: MemberStore, state: MemberState, lines: Sequence[StatementLine], said: tuple[Any, Any] = (None, None)
) -> None:
    """Adopt what the lines of a statement that was kept show settled, whatever attempt is open.

    The attempt that the question with the statement says is settled, `said` with its round, decides only between
    attempts that were reported with the same profit.
    """
    for line in lines:
        number = _round_of(store, state, line)
        if number is None or not 0 < number <= ROUND_LIMIT:
            continue
        state.told_round = max(state.told_round, number)
        if line.profit is None:
            if number not in state.missed_rounds:
                state.missed_rounds.append(number)
            if number == state.settled_round:
                store.log(
                    f"{ERROR} round {number}: the statement says that it was settled without this member, which was "
                    "told before that it was settled with it, and measures its utility from that round. Unless the "
                    "round was reversed, object at once"
                )
        elif number > state.settled_round:
            _adopt_reported(store, state, number, line.profit, said[1] if said[0] == number else None)
        if number == state.settled_round:
            state.settled_profit = line.profit
    store.save(state)


def _round_of(store: MemberStore, state: MemberState, line: StatementLine) -> int | None:
    """The round of a line: the one that it names, unless only another one was reported here with this profit."""
    told = round_told(line)
    if line.profit is None or (told is not None and told <= ROUND_LIMIT and ReportBook(store, told).reports):
        return told
    for opening in state.openings():
        if any(report.document["profit"] == line.profit for report in ReportBook(store, opening.round_number).reports):
            return opening.round_number
    return told


def _adopt_reported(store: MemberStore, state: MemberState, number: int, profit: float, attempt: Any) -> None:
    """Adopt a round that was settled with this profit, if it was reported so.

    Without such a report the folder is older than the statement, and `recover` goes on from the operator's copy.
    """
    reports = ReportBook(store, number).reports
    openings = [opening for opening in state.openings() if opening.round_number == number]
    matching = [each.document for each in reports if each.document["profit"] == profit]
    if not matching:
        return
    named = [each for each in matching if isinstance(attempt, str) and is_of_opening(each["attempt"], attempt)]
    report = (named or matching)[-1]
    if report is not matching[-1]:
        store.log(same_settled_in_words(number))
    if not openings:  # a folder of a version that kept one earlier opening
        _adopt_signed(store, state, report)
        return
    same = [opening for opening in openings if is_of_opening(report["attempt"], opening.attempt)]
    opening = replace((same or openings)[-1], attempt=report["attempt"].rpartition("/")[0])
    _adopt(store, state, opening, report["model"], report.get("measured"), [])


def _adopt_signed(store: MemberStore, state: MemberState, report: Mapping[str, Any]) -> None:
    """Adopt a round by the signed report alone, if its opening is not here any more."""
    if report.get("measured") is None:  # a member that compares with training alone needs the model of that round
        _drop_openings(store, state, report["round"])
        return
    state.settled_round, state.settled_attempt = report["round"], report["attempt"].rpartition("/")[0]
    state.settled_profit = None
    state.baseline, state.memory = report["measured"], None
    _drop_openings(store, state, report["round"])


def refuse_unadopted(store: MemberStore, state: MemberState, round_number: int) -> None:
    """No round is opened after one that was settled with this member and whose outcome it could not adopt."""
    told = state.told_round
    if told > max((state.settled_round, *state.missed_rounds)) and ReportBook(store, told).reports:
        refusal = (
            f"Round {told} was settled with this member, but what was trained in it is not in its folder any more."
        )
        store.log(f"{ERROR} refused to open round {round_number}: {refusal} Restore the folder from a backup")
        raise QuestionError(refusal)


def keep_reported(store: MemberStore, state: MemberState) -> None:
    """Before a round is opened: keep what is open now if it was reported, since it may turn out to be settled."""
    open_round = state.under_way
    if open_round is not None:
        last = ReportBook(store, open_round.round_number).last
        if last is not None and is_of_opening(last.document["attempt"], open_round.attempt):
            others = [each for each in state.reported if each.attempt != open_round.attempt]
            state.reported = [*others, open_round]


def recover(
    store: MemberStore,
    state: MemberState,
    fields: Mapping[str, Any],
    report: SignedReport | None,
    kept: KeptLines,
) -> str:
    """After `commit`: go on from a report that this member signed, if its folder is older than the ledger or was lost.

    Returns what happened, for the log and the coordinator; empty if the folder knows the last settled round. Raises
    `QuestionError` if the coordinator names a round that neither the folder nor the member's own signature knows, or a
    report with another profit than the statements say. If they say nothing of the round, it must be a later report than
    those in the folder.
    """
    settled = (fields["settled_round"], fields["settled_attempt"])
    if settled[0] <= state.settled_round:
        return ""
    stated = _stated(settled[0], kept)
    if report is None:
        # A new folder, or one of a version that kept its baseline and did not note which round it is of.
        if not state.settled_round and (not stated or state.baseline is not None):
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
    profit, fault = report.document["profit"], ""
    if stated and stated[-1] != profit:
        fault = f"its profit is {profit!r}, and {stated[-1]!r} in the statements kept here"
    elif not stated and report.document["number"] <= len(ReportBook(store, settled[0]).reports):
        fault = "that is not the last report of that round that was signed here"
    if fault:
        refusal = f"Round {settled[0]} is said to be settled with report {report.document['number']}, but {fault}."
        store.log(f"{ERROR} refused to open round {fields['round']}: {refusal} Ask the operator")
        raise QuestionError(refusal)
    (state.settled_round, state.settled_attempt), state.settled_profit = settled, report.document["profit"]
    known = went_on_to(report.document)
    state.baseline = None if fields["utility"] == "advantage" else math.nan if known is None else known
    state.alone = state.alone or _first_alone(state, fields, report)
    state.memory = state.under_way = None
    state.reported = []
    return (
        f"this folder is older than the ledger: round {settled[0]} was settled with a report that was signed here and "
        "is not known here any more. What was measured then counts, as it was signed; what training remembered is lost"
    )


def _first_alone(state: MemberState, fields: Mapping[str, Any], report: SignedReport) -> str | None:
    """The model that training alone starts from, if the folder was put back within the first settled round."""
    ranges = json.loads(fields.get("settled_rounds", "[]"))
    first = ranges[0][0] if ranges else 0
    starts = {opening.first_alone for opening in state.openings() if opening.round_number == first}
    if report.document["round"] == first:
        starts &= {report.document.get("opening_model")}
    elif first != 1:  # a later round may have been opened with another model when it was run again
        return None
    return starts.pop() if len(starts) == 1 else None


def refuse_after_withdrawal(store: MemberStore, state: MemberState, round_number: int) -> None:
    """A member that gave notice takes part in one more round, and in no other."""
    if state.withdrew:
        store.log(
            f"{ERROR} refused to open round {round_number}: this member withdrew after round {state.settled_round}. "
            "Ask the operator why it is still asked"
        )
        raise QuestionError(f"This member withdrew after round {state.settled_round}, and takes part in no later one.")


def refuse_to_open_again(store: MemberStore, state: MemberState, fields: Mapping[str, Any]) -> None:
    """An attempt that was trained in or reported is not opened again: what was done in it would be forgotten.

    Nor is a round opened of which no further report would be signed.
    """
    asked, open_round = (fields["round"], fields["attempt"]), state.under_way
    reports = ReportBook(store, fields["round"])
    is_used = reports.has_opening(fields["attempt"])
    if open_round is not None and (open_round.round_number, open_round.attempt) == asked:
        is_used |= bool(open_round.steps) or fields["models"] != [open_round.opening]
    if is_used:
        refusal = f"Attempt {fields['attempt']} of round {fields['round']} is under way and not opened again."
        store.log(f"{ERROR} {refusal}")
        raise QuestionError(f"{refusal} A new attempt needs a new name.")
    reports.check_room()


def baseline_of(state: MemberState, open_round: OpenRound) -> float | None:
    """What utility is measured from: the last settled round; before the first one, the model that opened this round."""
    return open_round.first_baseline if state.baseline is None else state.baseline


def _adopt(
    store: MemberStore,
    state: MemberState,
    opening: OpenRound,
    model: str,
    measured: float | None,
    needed: Sequence[str],
) -> None:
    """`measured` is the metric of the model as it was signed; `needed` are the models of the question with the news."""
    number = opening.round_number
    state.settled_round, state.settled_attempt, state.settled_profit = number, opening.attempt, None
    is_known = measured is not None and not math.isnan(measured)
    state.baseline = measured if is_known else baseline_of(state, opening)  # what it signed last counts
    state.memory = opening.memory
    state.alone, state.alone_memory = opening.alone, opening.alone_memory
    state.withdrew |= opening.has_notice
    _drop_openings(store, state, number)
    store.save(state)
    store.forget_all_but([*needed, model, *state.arrays()])


def _drop_openings(store: MemberStore, state: MemberState, number: int) -> None:
    """Forget the openings of a round that was settled, and open no later one that went on from before it."""
    later = [opening for opening in state.openings() if opening.round_number > number]
    if later:
        store.log(
            f"{ERROR} round {later[0].round_number} was opened here before the operator told that round {number} was "
            "settled, so it was measured from an older round. It must be opened again. Ask the operator"
        )
    state.under_way = None
    state.reported = [opening for opening in state.reported if opening.round_number > number]
