"""A member does not go back behind what it saw settled.

It would measure from a later baseline than the round that it is asked to repeat, and report a loss that it does not
have. Its refusal carries a file that the operator signed: proof of what the ledger once held.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from commonweal.errors import CommonwealError
from commonweal.ledger.reports import SignedReport, is_of_opening
from commonweal.ledger.signed_files import known_head_in
from commonweal.ledger.statement_parts import part_in
from commonweal.remote.member.incoming import Incoming
from commonweal.remote.member.question_fields import fault_of_rounds
from commonweal.remote.member.report_book import ReportBook
from commonweal.remote.member.store import (
    ERROR,
    OPERATOR_HEAD,
    OPERATOR_HEADS,
    REPORTS,
    STATEMENTS,
    MemberState,
    MemberStore,
    OpenRound,
)
from commonweal.remote.member.told_rounds import round_told
from commonweal.remote.messages.answer_limit import LARGEST_PROOF
from commonweal.remote.messages.message import CLOSE, OPEN, PROOF, SAW_SETTLED, SUMMARISE, Message, QuestionError


def refusal_to_go_back(
    store: MemberStore,
    state: MemberState,
    kind: str,
    fields: Mapping[str, Any],
    incoming: Incoming,
    own: SignedReport | None,
) -> Message | None:
    """The answer to a question that would go back; None if it does not, or does not say.

    That comes first: whatever else is wrong with the question may be so because it goes back. `own` is the member's own
    report of its last settled round, if the question carries it.
    """
    if kind not in (SUMMARISE, OPEN, CLOSE) or fault_of_rounds(kind, fields):
        return None
    seen, went_back = state.settled_round, incoming.went_back
    # A summary is asked for before the first round.
    number = 1 if kind == SUMMARISE else fields["round"]
    settled = (seen, state.settled_attempt)
    if kind != SUMMARISE:
        settled = (fields["settled_round"], fields["settled_attempt"])
    opened = 0 if state.under_way is None else state.under_way.round_number
    known = max(seen, state.told_round)  # settled, with this member or without it
    is_other = settled[0] == seen and settled[1] != state.settled_attempt
    is_other = is_other and same_settled(store, state, settled[1], own) is None
    if settled[0] < seen or (kind != CLOSE and (number <= known or number < opened)):
        why = f"round {max(known, opened)} was {'settled' if known >= opened else 'opened'} here before"
    elif seen and is_other:
        why = f"round {seen} was settled here by another attempt than the coordinator says now"
    elif went_back:
        why = went_back
    else:
        return None
    store.log(
        f"{ERROR} refused to go back to round {number}: {why}. The coordinator may have been restored from an older "
        "backup. Ask the operator, and keep the statements"
    )
    return Message(fields={SAW_SETTLED: seen, PROOF: newest_proof(store, incoming.came, known)})


def same_settled(store: MemberStore, state: MemberState, opening: str, own: SignedReport | None) -> SignedReport | None:
    """The report of this opening of the last settled round, if it has the profit that the round was settled with.

    Statements name a profit and no attempt. A round that is trained again has the same profit, so that only the
    coordinator can say which of the two was settled. A folder that was restored since may not have the report: then it
    is `own`, which the coordinator sends.
    """
    reports, profit = ReportBook(store, state.settled_round), state.settled_profit
    if profit is None:
        known = reports.last_of(state.settled_attempt)
        profit = None if known is None else known.document["profit"]
    if profit is None:
        return None
    is_own = own is not None and own.document["round"] == state.settled_round and own.document["profit"] == profit
    return reports.last_of(opening, profit) or (own if is_own else None)


def same_settled_in_words(round_number: int) -> str:
    return (
        f"round {round_number} was settled by another of the attempts that were reported here with the same profit; "
        "what was measured in that one counts"
    )


def newest_proof(store: MemberStore, came: Mapping[int, str] | None = None, round_number: int = 0) -> str:
    """What the operator signed that names the latest entry of the ledger: a statement or a head; empty if nothing.

    Entries that a question now names are `came`, by their numbers. What contradicts them comes first, and what ends
    with one of them proves nothing. Then come statements that tell of `round_number`, the last round that is known
    here as settled: heads may be of the ledger that the question is about, and were kept when it was asked before.
    """
    came = came or {}
    last = max(came, default=0)
    heads = (store.path / OPERATOR_HEAD, *(store.path / OPERATOR_HEADS).glob("*.json"))
    best, proof = (False, False, 0), ""
    for file in (*(store.path / STATEMENTS).glob("*.json"), *heads):
        try:
            text = file.read_bytes().decode()
            known = known_head_in(text.encode(), file.name)
        except (CommonwealError, OSError, UnicodeDecodeError):
            continue
        if came.get(known.number) == known.head:
            continue
        is_against = bool(came) and (known.number > last or known.number in came)
        rank = (is_against, _tells(text.encode(), round_number), known.number)
        if rank > best and known.signed.is_sound and len(json.dumps(text)) <= LARGEST_PROOF:
            best, proof = rank, text
    return proof


def _tells(content: bytes, round_number: int) -> bool:
    """Whether this is a statement with the outcome of a round."""
    with suppress(CommonwealError):
        return any(round_told(line) == round_number for line in part_in(content, "it")[0].statement.lines)
    return False


def check_settled(store: MemberStore, open_round: OpenRound, model: str) -> float | None:
    """The metric of the model that a round was settled with, as the member signed it.

    Refuses a settlement with a model that the member did not report on: its baseline would be of another model.
    """
    number, reports = open_round.round_number, ReportBook(store, open_round.round_number)
    last, fault = reports.last, ""
    if last is not None:  # a round that was trained again after a backup was put back may have been settled before
        last = reports.last_of(open_round.attempt, last.document["profit"]) or last
        if last is not reports.last:
            store.log(same_settled_in_words(number))
    if model not in open_round.accuracies:
        fault = f"with model {model[:16]}…, which was not measured here"
    elif open_round.terms is None:  # opened by a version that kept no reports
        return open_round.accuracies[model]
    elif last is None or not is_of_opening(last.document["attempt"], open_round.attempt):
        fault = "by an attempt that was not reported here last"
    elif last.document["model"] != model:
        fault = f"with model {model[:16]}…, but was reported here on model {last.document['model'][:16]}…"
    if fault:
        refusal = f"Round {number} is said to be settled {fault}. Compare the ledger with the member's own reports."
        store.log(f"{ERROR} {refusal}")
        raise QuestionError(refusal)
    assert last is not None
    measured: float | None = last.document.get("measured")
    return measured


def note_another_attempt(store: MemberStore, round_number: int, attempt: str) -> None:
    """Tell the member if a round was settled by another attempt than the last one that it reported."""
    last = ReportBook(store, round_number).last if round_number else None
    if last is not None and not is_of_opening(last.document["attempt"], attempt):
        store.log(
            f"{ERROR} round {round_number} was settled by another attempt than the last one that was reported here. "
            f"Compare the ledger with {REPORTS}/round-{round_number:04d}.json"
        )
