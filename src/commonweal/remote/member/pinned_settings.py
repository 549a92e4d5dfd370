"""What the first question of a ledger fixes for good at a member, and which questions it refuses because of that.

The seed draws a member's validation samples, and the task's settings decide what is measured on them. If they came anew
with each question, the coordinator could try many and keep the figure that it likes, or have the member's rows summed
up in so many ways that single rows can be told.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from commonweal.remote.member.store import ERROR, MemberState, MemberStore, OpenRound
from commonweal.remote.messages.message import CLOSE, OPEN, RECEIPT, SUMMARISE, QuestionError
from commonweal.remote.messages.settings_hash import SETTINGS

LEAST_SUMMARY_ROWS = 5  # sums over fewer rows tell too much of each
MOST_ROUNDS = 10_000
_MISSED_ROUNDS = 10  # beyond twice the known rounds: a member may have been away while the terms were amended
_LONGEST_ATTEMPT = 64  # characters
_BOOK, _TERMS = "book", "terms"
_NOTHING_TO_MEASURE = (RECEIPT, CLOSE)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 1000


def _is_table(value: object) -> bool:
    """Whether it is the text of a JSON object."""
    try:
        return isinstance(value, str) and isinstance(json.loads(value), dict)
    except ValueError:
        return False


_RULES: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "seed": (lambda value: type(value) is int and value >= 0, "a whole number"),
    "rounds": (lambda value: type(value) is int and 1 <= value <= MOST_ROUNDS, f"from 1 to {MOST_ROUNDS}"),
    "settings": (_is_table, "the text of a JSON object"),
    "metric": (_is_text, "a name"),
    "lower_is_better": (lambda value: type(value) is bool, "true or false"),
    "utility": (lambda value: value in ("gain", "advantage"), "gain or advantage"),
    "figures": (lambda value: value in ("measured", "pooled", "forecast"), "measured, pooled or forecast"),
    "smooth": (lambda value: type(value) is bool, "true or false"),
    "learning": (_is_table, "the text of a JSON object"),
}
assert tuple(_RULES) == SETTINGS, "every setting has a rule"


def check_question(store: MemberStore, state: MemberState, kind: str, fields: Mapping[str, Any]) -> None:
    """Refuse a question that departs from what is fixed, and tell the member in its log."""
    reason = _malformed(kind, fields) or _too_early(state, kind, fields) or _departs(state, kind, fields)
    if reason:
        store.log(f"{ERROR} refused a question {kind}: {reason}")
        raise QuestionError(reason)


def pin(store: MemberStore, state: MemberState, fields: Mapping[str, Any]) -> None:
    """Fix what the question says, where nothing is fixed yet; it has passed `check_question`."""
    given = {name: fields[name] for name in (_BOOK, *SETTINGS) if name in fields and name not in state.pinned}
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


def is_first_measure(open_round: OpenRound, digest: str) -> bool:
    """Whether a model is measured for the first time in this round, or for the first time since more training.

    A figure that was measured is never replaced: the coordinator may have asked until it liked the answer.
    """
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


def _malformed(kind: str, fields: Mapping[str, Any]) -> str:
    ledger = fields.get(_BOOK)
    if not isinstance(ledger, str) or re.fullmatch(r"[0-9a-f]{64}", ledger) is None:
        return f"A ledger must be named by 64 hexadecimal digits, got {_shown(ledger)}."
    if kind in _NOTHING_TO_MEASURE:
        return ""  # what they bring is doubted, and kept as evidence
    for name, (is_sound, rule) in _RULES.items():
        if name in fields and not is_sound(fields[name]):
            return f"{name} must be {rule}, got {_shown(fields[name])}."
    if kind == SUMMARISE:
        return ""
    number, attempt = fields.get("round"), fields.get("attempt")
    if type(number) is not int or number < 1:
        return f"A round must be a whole number from 1, got {_shown(number)}."
    if not isinstance(attempt, str) or not 0 < len(attempt) <= _LONGEST_ATTEMPT:
        return f"An attempt must be named by 1 to {_LONGEST_ATTEMPT} characters, got {_shown(attempt)}."
    return ""


def _too_early(state: MemberState, kind: str, fields: Mapping[str, Any]) -> str:
    if kind in _NOTHING_TO_MEASURE and state.book is None:
        return f"No round of ledger {fields['book'][:16]}… was opened here, so there is nothing to keep of it."
    opened = 0 if state.under_way is None else state.under_way.round_number
    if kind == SUMMARISE and (state.settled_round or opened > 1):
        return "A summary is sent only before the first round, which is over."
    return ""


def _departs(state: MemberState, kind: str, fields: Mapping[str, Any]) -> str:
    if kind in _NOTHING_TO_MEASURE:
        return ""
    for name in (_BOOK, *SETTINGS):
        if name in state.pinned and fields.get(name) != state.pinned[name]:
            return (
                f"{name} was {_shown(state.pinned[name])} in the first question of this federation and is "
                f"{_shown(fields.get(name))} now. It cannot change while a federation runs. If the members agreed to "
                "start again, use a new ledger, and name another `home` in the member's file."
            )
    return _wrong_opening(state, fields) if kind == OPEN else ""


def _wrong_opening(state: MemberState, fields: Mapping[str, Any]) -> str:
    number, planned = fields["round"], fields.get("rounds", MOST_ROUNDS)
    if not _is_table(fields.get("agreed")):
        return "What was agreed on must be the text of a JSON object."
    if state.settled_round and state.agreed and _text(json.loads(fields["agreed"])) != _text(state.agreed):
        return "What the members' data have in common was agreed on before the first round, and is told otherwise now."
    if number > planned and fields.get(_TERMS) == state.pinned.get(_TERMS, ""):
        return f"Round {number} was never agreed on: there are {planned} rounds, and the terms were not amended."
    most = 2 * max(planned, state.settled_round) + _MISSED_ROUNDS
    if number > most:
        return f"Round {number} is too far ahead: round {state.settled_round} was the last one settled here."
    return ""


def _text(document: object) -> str:
    return json.dumps(document, sort_keys=True)


def _shown(value: object) -> str:
    return ascii(value)[:80]
