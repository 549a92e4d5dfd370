"""A member does not go back behind what it saw settled.

It would measure from a later baseline than the round that it is asked to repeat, and report a loss that it does not
have. Its refusal carries the newest statement it keeps: proof, signed by the operator, of what the ledger once held.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from commonweal.errors import CommonwealError
from commonweal.ledger.reports import is_of_opening
from commonweal.ledger.signed_files import known_head_in
from commonweal.remote.member.report_book import ReportBook
from commonweal.remote.member.store import (
    ERROR,
    OPERATOR_HEAD,
    REPORTS,
    STATEMENTS,
    MemberState,
    MemberStore,
    OpenRound,
)
from commonweal.remote.messages.answer_limit import LARGEST_PROOF
from commonweal.remote.messages.message import CLOSE, OPEN, PROOF, SAW_SETTLED, Message, QuestionError


def refusal_to_go_back(
    store: MemberStore, state: MemberState, kind: str, fields: Mapping[str, Any], went_back: str = ""
) -> Message | None:
    """The answer to a question that would go back; None if it does not.

    `went_back` says why the head of the ledger that came with the question does.
    """
    if kind not in (OPEN, CLOSE):
        return None
    number, seen = fields["round"], state.settled_round
    opened = 0 if state.under_way is None else state.under_way.round_number
    known = max(seen, state.told_round)  # settled, with this member or without it
    is_other = fields["settled_round"] == seen and fields["settled_attempt"] != state.settled_attempt
    if fields["settled_round"] < seen or (kind == OPEN and (number <= known or number < opened)):
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
    return Message(fields={SAW_SETTLED: seen, PROOF: newest_proof(store)})


def newest_proof(store: MemberStore) -> str:
    """What the operator signed that names the latest entry of the ledger: a statement or a head; empty if nothing."""
    best, proof = 0, ""
    for file in (*(store.path / STATEMENTS).glob("*.json"), store.path / OPERATOR_HEAD):
        try:
            text = file.read_bytes().decode()
            known = known_head_in(text.encode(), file.name)
        except (CommonwealError, OSError, UnicodeDecodeError):
            continue
        if known.number > best and known.signed.is_sound and len(json.dumps(text)) <= LARGEST_PROOF:
            best, proof = known.number, text
    return proof


def check_settled(store: MemberStore, open_round: OpenRound, model: str) -> float | None:
    """The metric of the model that a round was settled with, as the member signed it.

    Refuses a settlement with a model that the member did not report on: its baseline would be of another model.
    """
    number, last = open_round.round_number, ReportBook(store, open_round.round_number).last
    fault = ""
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
