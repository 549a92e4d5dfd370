"""Refuse entries that this version cannot read, however they are damaged, before anything is computed from them.

Verification reports what is refused here, and goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from commonweal.errors import CommonwealError, LedgerError
from commonweal.ledger.entries import amount_in

UNREADABLE = (CommonwealError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""What reading a damaged document may raise."""

_BODIES: Mapping[str, Mapping[str, type | tuple[type, ...]]] = {
    "opening": {"terms": dict, "operator": str},
    "terms": {"terms": dict},
    "amendment": {
        "book": str, "amendment": int, "terms_before": str, "terms": dict, "first_round": int, "members": list,
        "signatures": list,
    },
    "admission": {"members": list},
    "round": {
        "round": int, "rules_version": str, "rules": dict, "absent": list, "inputs": list, "decision": dict,
    },
    "realisation": {"reference": str, "amount": str},
    "reversal": {"entry": int, "reason": str},
    "withdrawal": {"client": str, "round": int},
    "late-report": {"client": str, "round": int, "report": dict, "signature": str},
    "charge": {"client": str, "round": int, "amount": str},
    "exclusion": {"client": str, "rounds": list},
    "key-rotation": {"operator": str, "proof": str},
}  # fmt: skip


@contextmanager
def readable(number: int, made: str | None = None) -> Iterator[None]:
    """Turn errors in this block into one about entry `number`; `made` is what cannot be made then."""
    try:
        yield
    except UNREADABLE:
        cannot = f"Cannot make {made}: this" if made else "This"
        raise LedgerError(
            f"{cannot} version cannot read entry {number}. Use a newer version, or check the ledger with: commonweal "
            "ledger verify"
        ) from None


def check_readable(document: Mapping[str, Any]) -> None:
    """Refuse an entry whose fields do not have the types that all readers count on; TypeError or KeyError."""
    for name, kind in {"number": int, "at": str, "kind": str, "body": dict, "postings": list}.items():
        _check(document, name, kind)
    for account, amount in document["postings"]:
        if not isinstance(account, str) or not isinstance(amount, str):
            raise TypeError(account, amount)
        amount_in(amount)
    body = document["body"]
    for name, expected in _BODIES.get(document["kind"], {}).items():
        _check(body, name, expected)
    if document["kind"] in ("admission", "amendment"):
        for member in body["members"]:
            _check(member, "client", str)
            _check(member, "key", (str, type(None)))
    if document["kind"] == "amendment":
        for row in body["signatures"]:
            _check(row, "client", str)
            _check(row, "signature", str)
    if document["kind"] == "exclusion" and not all(type(number) is int for number in body["rounds"]):
        raise TypeError(body["rounds"])
    if document["kind"] == "round":
        for row in body["inputs"]:
            _check(row, "client", str)
            _check({"further": {}, **row}, "further", dict)
        others = [body.get(name, []) for name in ("silent", "resting")]
        for names in (body["absent"], *others, body["decision"]["retained"], body["decision"]["eliminated"]):
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise TypeError(names)


def _check(document: Mapping[str, Any], name: str, expected: type | tuple[type, ...]) -> None:
    value = document[name]
    if not isinstance(value, expected) or isinstance(value, bool):
        raise TypeError(f"{name}: {type(value).__name__}")
