"""What the first question of a ledger fixes for good at a member, and which questions it refuses because of that.

The seed draws a member's validation samples, and the task's settings decide what is measured on them. If they came anew
with each question, the coordinator could try many and keep the figure that it likes, or have the member's rows summed
up in so many ways that single rows can be told.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from commonweal.ledger.reports import SignedReport
from commonweal.remote.member.question_fields import (
    MOST_ROUNDS,
    SETTING_DEFAULTS,
    SETTING_RULES,
    fault_of,
    fault_of_envelope,
)
from commonweal.remote.member.report_book import ReportBook
from commonweal.remote.member.store import ERROR, MemberState, MemberStore, OpenRound
from commonweal.remote.messages.message import CLOSE, OPEN, RECEIPT, Message, QuestionError
from commonweal.remote.messages.settings_hash import SETTINGS, settings_hash

LEAST_SUMMARY_ROWS = 5  # sums over fewer rows tell too much of each
_MISSED_ROUNDS = 10  # beyond twice the known rounds: a member may have been away while the terms were amended
_BOOK, _TERMS = "book", "terms"
_NOTHING_TO_MEASURE = (RECEIPT, CLOSE)

assert tuple(SETTING_RULES) == SETTINGS, "every setting has a rule"


def check_addressed(store: MemberStore, state: MemberState, name: str, kind: str, fields: Mapping[str, Any]) -> None:
    """Refuse a question for somebody else, about no ledger of this member, or too early, and say so in its log."""
    reason = ""
    if fields.get("client") != name:
        reason = (
            f"This SuperNode answers for {name!r}, but the question is for {_shown(fields.get('client'))}. The "
            "operator's file must give each client the same name as the client's own file."
        )
    reason = reason or fault_of_envelope(kind, fields) or _too_early(state, kind, fields)
    if not reason and state.book not in (None, fields[_BOOK]):
        reason = (
            f"This member's folder belongs to ledger {state.book[:16] if state.book else ''}…, but the question is "
            f"about ledger {fields[_BOOK][:16]}…. Name another `home` in the member's file."
        )
    _refuse(store, kind, reason)


def check_question(
    store: MemberStore, state: MemberState, kind: str, question: Message, own: SignedReport | None
) -> None:
    """Refuse a question that is malformed or departs from what is fixed, and tell the member in its log.

    `own` is the member's own report of its last settled round, if the question carries it.
    """
    reason = question.fault or fault_of(kind, question) or _departs(state, kind, question.fields)
    if not reason and kind == OPEN:
        reason = _wrong_opening(store, state, question.fields, own)
    _refuse(store, kind, reason)


def _refuse(store: MemberStore, kind: str, reason: str) -> None:
    if reason:
        store.log(f"{ERROR} refused a question {kind[:80]}: {reason}")
        raise QuestionError(reason)


def pin(store: MemberStore, state: MemberState, fields: Mapping[str, Any]) -> None:
    """Fix what the question says, where nothing is fixed yet; it has passed `check_question`.

    What it leaves out is fixed, too: else the coordinator could choose later, when it knows what suits it.
    """
    given = {name: _said(fields, name) for name in (_BOOK, *SETTINGS) if name not in state.pinned}
    if not given:
        return
    state.pinned |= given
    shown = ", ".join(f"{name} {given[name]}" for name in SETTINGS if name in given)
    store.log(f"ledger {fields['book'][:16]}…: fixed from now on are {shown}")


def pin_terms(store: MemberStore, state: MemberState, fields: Mapping[str, Any]) -> None:
    """Remember the terms of the first round that was opened, to know whether they were amended since."""
    number, planned = fields["round"], fields["rounds"]
    if number > planned:
        store.log(
            f"round {number} is after the {planned} rounds of this federation, so its terms must have been amended: "
            "compare them with the ledger"
        )
    if _TERMS not in state.pinned:
        is_first = state.book is None and number <= planned
        state.pinned[_TERMS] = fields.get(_TERMS) if is_first else ""  # "": they may have been amended before


def check_iteration(open_round: OpenRound, iteration: int, fields: Mapping[str, Any]) -> None:
    """Refuse to train out of order, or in more iterations than the first question of the ledger fixed."""
    limit, done = json.loads(fields["learning"])["iteration_limit"], len(open_round.steps)
    if iteration > limit:
        raise QuestionError(f"A round has at most {limit} iterations, got iteration {iteration}.")
    if iteration != done + 1:
        raise QuestionError(f"Iteration {done} was trained last in this round, so {iteration} cannot come now.")


def is_first_measure(open_round: OpenRound, digest: str) -> bool:
    """Whether a model is measured for the first time in this round, or for the first time since more training.

    A figure that was measured is never replaced: the coordinator may have asked until it liked the answer. Of the model
    that opened the round, the first measure counts, whatever was trained since: gains are measured from it.
    """
    if digest == open_round.opening and digest in open_round.accuracies:
        return False
    memory = open_round.memory or ""
    is_first = open_round.measured_with.get(digest) != memory
    open_round.measured_with[digest] = memory
    return is_first


def check_summary(store: MemberStore, summary: object) -> None:
    """Refuse to send sums over a handful of rows; other tasks than that for tables may summarise what they like."""
    count = summary.get("row_count") if isinstance(summary, Mapping) else None
    if type(count) is int and count < LEAST_SUMMARY_ROWS:
        reason = (
            f"The summary would be of fewer than {LEAST_SUMMARY_ROWS} rows, those that arrive in the first round for "
            "training, and tell too much of each. Agree on fewer rounds, or add rows."
        )
        store.log(f"{ERROR} sent no summary: {reason}")
        raise QuestionError(reason)


def _too_early(state: MemberState, kind: str, fields: Mapping[str, Any]) -> str:
    if state.book is None and (kind in _NOTHING_TO_MEASURE or "statement" in fields or "trail" in fields):
        return f"No round of ledger {fields['book'][:16]}… was opened here, so there is nothing to keep of it."
    return ""


def _departs(state: MemberState, kind: str, fields: Mapping[str, Any]) -> str:
    if kind in _NOTHING_TO_MEASURE:
        return ""
    for name in (_BOOK, *SETTINGS):
        now = _said(fields, name)
        if name in state.pinned and now != state.pinned[name]:
            return (
                f"{name} was {_shown(state.pinned[name])} in the first question of this federation and is "
                f"{_shown(now)} now. It cannot change while a federation runs. If the members agreed to start again, "
                "use a new ledger, and name another `home` in the member's file."
            )
    return ""


def _wrong_opening(store: MemberStore, state: MemberState, fields: Mapping[str, Any], own: SignedReport | None) -> str:
    number, planned = fields["round"], fields.get("rounds", MOST_ROUNDS)
    agreed = json.loads(fields["agreed"])
    is_other = bool(state.settled_round and state.agreed) and _text(agreed) != _text(state.agreed)
    if is_other and not measured_by(store, state, fields, agreed, own):
        return (
            "What the members' data have in common was agreed on before the first round, and is told otherwise now. "
            "If the coordinator was restored from a backup, put back the results folder and ledger that are newest."
        )
    if number > planned and fields.get(_TERMS) == state.pinned.get(_TERMS, ""):
        return f"Round {number} was never agreed on: there are {planned} rounds, and the terms were not amended."
    most = 2 * max(planned, state.settled_round) + _MISSED_ROUNDS
    if number > most:
        return f"Round {number} is too far ahead: round {state.settled_round} was the last one settled here."
    return ""


def measured_by(
    store: MemberStore,
    state: MemberState,
    fields: Mapping[str, Any],
    agreed: Mapping[str, Any],
    own: SignedReport | None,
) -> bool:
    """Whether this member signed that it measured its last settled round by what the data are said to have in common.

    An older backup may have run the first round again with other members, and have told something else since.
    """
    report = ReportBook(store, fields["settled_round"]).last_of(fields["settled_attempt"]) or own
    return report is not None and report.document.get("settings") == settings_hash(state.pinned, agreed)


def _said(fields: Mapping[str, Any], name: str) -> Any:
    return fields.get(name, SETTING_DEFAULTS.get(name))


def _text(document: object) -> str:
    return json.dumps(document, sort_keys=True)


def _shown(value: object) -> str:
    return ascii(value)[:80]
