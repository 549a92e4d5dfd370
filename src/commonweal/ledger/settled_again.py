"""A round that is reversed and settled again: what changed, and whether its clients signed for the change.

Clients sign their own figures, neither the contributions nor the rules. So a reversed round could be settled again in
another way under the signatures that it had before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from commonweal.errors import LedgerError
from commonweal.ledger.canonical import first_difference
from commonweal.ledger.silence import silent_in

SAME_RULES = "a round settled again under the same signatures has the same rules"
SAME_CONTRIBUTIONS = "a round settled again under the same signatures has the same contributions"
SAME_SILENCE = "under the same signatures, nobody becomes silent in a round that is settled again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What matters of one settlement of a round."""

    entry: int
    version: Any  # of the rules
    rules: Mapping[str, Any]  # by which it was decided
    contributions: Mapping[str, Any]  # by client, and what else the operator measured
    figures: Mapping[str, Any]  # that clients reported
    absent: tuple[Any, ...]
    silent: tuple[Any, ...]
    otherwise: Mapping[str, Any]  # what else the entry states
    signatures: Mapping[str, Any]  # of clients with a key

    @classmethod
    def of(cls, entry: int, body: Mapping[str, Any], members: Mapping[str, str | None]) -> Settlement:
        """Python's own errors if the entry is damaged."""
        rows = {row["client"]: row for row in body["inputs"]}
        measured = ("contribution", "signature", "client")
        return cls(
            entry=entry,
            version=body["rules_version"],
            rules={**body["rules"], "grace": body["grace"]},
            contributions={client: row["contribution"] for client, row in rows.items()}
            | {f"{name} of clients": body[name] for name in ("harm",) if name in body},
            figures={
                client: tuple(value for name, value in sorted(row.items()) if name not in measured)
                for client, row in rows.items()
            },
            absent=tuple(body["absent"]),
            silent=silent_in(body),
            otherwise={
                name: body[name] for name in ("ending", "gains", "measured_by", "resting", "plan") if name in body
            },
            signatures={client: row["signature"] for client, row in rows.items() if members.get(client) is not None},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unexplained:
    """Something that changed without anybody's signature."""

    rule: str
    expected: str
    found: str


def unexplained(before: Settlement, now: Settlement) -> Unexplained | None:
    """What a new settlement must not change under the signatures of an earlier one; None if there is nothing.

    Rules: unless every client that signs has signed anew. Contributions: unless at least one has, or somebody who
    was absent is there now or the other way round, since then all contributions may be measured again; a newcomer that
    the round did not list is no reason. Where the operator vouches for every client, nobody signs, and nothing is
    unexplained.
    """
    reused = [client for client, signature in now.signatures.items() if before.signatures.get(client) == signature]
    if not reused:
        return None
    changed = first_difference(before.rules, now.rules)
    if changed is not None:
        return _unexplained(SAME_RULES, changed, before)
    listed = {*before.figures, *before.absent}
    if any(_of(before, client) != _of(now, client) for client in listed):
        return None
    fallen_silent = [client for client in now.silent if client in before.absent and client not in before.silent]
    if fallen_silent:
        return _unexplained(SAME_SILENCE, (f"{fallen_silent[0]}", "absent", "silent"), before)
    changed = first_difference(before.contributions, now.contributions)
    return None if changed is None else _unexplained(SAME_CONTRIBUTIONS, changed, before)


def _of(settlement: Settlement, client: Any) -> tuple[bool, Any]:
    """Whether a client is there, and what it signed."""
    return client in settlement.figures, settlement.signatures.get(client)


def _unexplained(rule: str, changed: tuple[str, str, str], before: Settlement) -> Unexplained:
    name, was, now = changed
    return Unexplained(rule=rule, expected=f"{name} {was} as in entry {before.entry}", found=now)


def check_settled_again(undone: Mapping[str, Any], body: Mapping[str, Any], members: Mapping[str, str | None]) -> None:
    """Refuse to settle a round again under the same signatures and by other rules or contributions.

    `undone` is a reversed entry, of this round or of something else.
    """
    if undone["kind"] != "round" or undone["body"]["round"] != body["round"]:
        return
    entry = undone["number"]
    fault = unexplained(Settlement.of(entry, undone["body"], members), Settlement.of(0, body, members))
    if fault is not None:
        raise LedgerError(
            f"Round {body['round']} was settled in entry {entry} and reversed, and its clients signed the same reports "
            f"for it: {fault.expected}, got {fault.found}. Settle it by the same rules and contributions, or have it "
            "reported and signed anew."
        )


def changes(before: Settlement, now: Settlement) -> str:
    """What the new settlement changed, in words; "" if nothing."""
    parts = [
        _changed(name, getattr(before, field), getattr(now, field))
        for name, field in (("rules", "rules"), ("contributions", "contributions"), ("reported figures", "figures"))
    ]
    if before.version != now.version:
        parts.append(f"version of the rules: {before.version} before, {now.version} now")
    if sorted(map(str, before.absent)) != sorted(map(str, now.absent)):
        parts.append("who was absent")
    if sorted(map(str, before.silent)) != sorted(map(str, now.silent)):
        parts.append("who was silent")
    parts += [
        f"{name.replace('_', ' ')}"
        for name in dict.fromkeys((*before.otherwise, *now.otherwise))
        if before.otherwise.get(name) != now.otherwise.get(name)
    ]
    if any(parts):
        signed = sum(before.signatures.get(client) != signature for client, signature in now.signatures.items())
        parts.append(f"signed anew by {signed} of {len(now.signatures)}" if now.signatures else "nobody signs")
    return "; ".join(filter(None, parts))


def _changed(name: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    keys = dict.fromkeys((*before, *now))
    changed = [key for key in keys if before.get(key) != now.get(key) or (key in before) != (key in now)]
    if not changed:
        return ""
    first = changed[0]
    if len(changed) == 1 and not isinstance(now.get(first, before.get(first)), dict | tuple):
        return f"{name}: {first} {before.get(first)} before, {now.get(first)} now"
    return f"{name}: {', '.join(changed[:5])}{' and more' if len(changed) > 5 else ''}"
