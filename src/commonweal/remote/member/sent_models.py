"""Which models a member takes from the coordinator: only what a question needs, so that nobody else fills its disk."""

from __future__ import annotations

import shutil

from commonweal.remote.member.store import MemberState, MemberStore
from commonweal.remote.messages.message import CLOSE, EVALUATE, MODEL, OPEN, RECEIPT, SUMMARISE, Message, QuestionError
from commonweal.task.models import fingerprint
from commonweal.task.records import Model

LEAST_FREE = 100_000_000  # bytes of the member's disk that stay free
_OTHER_GROUPS = ("served", "rows")  # arrays that are used at once and not kept
_NO_MODELS = (SUMMARISE, RECEIPT, CLOSE)


def keep_sent_models(kind: str, question: Message, state: MemberState, store: MemberStore) -> None:
    """Store the models that came with a question; refuse the question if one of them was not needed for it."""
    named = list(question.fields.get("models", []))
    most = 0 if kind in _NO_MODELS else len(named) if kind == EVALUATE else 1
    if len(named) > most:
        raise QuestionError(f"A question {kind} needs at most {most} models, got {len(named)}.")
    sent = {name.removeprefix(MODEL): group for name, group in question.groups.items() if name.startswith(MODEL)}
    for name in question.groups:
        if name not in _OTHER_GROUPS and name.removeprefix(MODEL) not in named:
            raise QuestionError(f"A question must contain only models that it needs, got {ascii(name)[:80]}.")
    if not sent:
        return
    opened = state.under_way.opening if state.under_way is not None and kind != OPEN else None
    first = None if opened is None or store.lacks([opened]) else store.get(opened)
    for digest, model in sent.items():
        if first is not None and _shapes(model) != _shapes(first):
            raise QuestionError("A model must have the same arrays as the one that opened the round, got others.")
        if fingerprint(model) != digest:
            raise QuestionError("A model must be named by its hash, got another name.")
    needed = sum(array.nbytes for model in sent.values() for array in model.values())
    free = shutil.disk_usage(store.path).free
    if free - needed < LEAST_FREE:
        raise QuestionError(f"There is no room on this member's disk for models of {needed:,} bytes.")
    for model in sent.values():
        store.put(model)


def _shapes(model: Model) -> dict[str, tuple[tuple[int, ...], str]]:
    return {name: (array.shape, array.dtype.str) for name, array in model.items()}
