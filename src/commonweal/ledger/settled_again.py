"""A round that is reversed and settled again: what changed, and whether its clients signed for the change.

Clients sign their own figures, neither the contributions nor the rules. So a reversed round could be settled again in
another way under the signatures that it had before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from commonweal.errors import LedgerError
from commonweal.ledger.canonical import first_difference
from commonweal.ledger.late_reports import Play
from commonweal.ledger.reports import unused_in
from commonweal.ledger.rounds import report_of, table_in
from commonweal.ledger.silence import silent_in
from commonweal.ledger.state import LedgerState

SAME_RULES = "a round settled again under the same signatures has the same rules"
SAME_CONTRIBUTIONS = "a round settled again under the same signatures has the same contributions"
SAME_FIGURES = "a round settled again under the same signatures has the same figures"
SAME_ORDER = "a round settled again under the same signatures has its clients in the same order"
SAME_REPORTS = "a round settled again has everybody whose report it listed, unless all clients sign anew"
ALL_REPORTS = "a round that is settled again lists all reports that it listed before"
ONE_REPORT = "a client signs one report per number and attempt of a round"
_OTHERWISE = ("ending", "gains", "measured_by", "resting", "plan", "unused_reports")
_NAMED_BY = ("number", "attempt")  # a report among those of a client and a round


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What matters of one settlement of a round."""

    entry: int
    version: Any  # of the rules
    rules: Mapping[str, Any]  # by which it was decided
    contributions: Mapping[str, Any]  # by client
    harm: Any  # what the operator measured of it; None: nobody is harmful
    figures: Mapping[str, Any]  # that clients reported, in the order that decides ties and odd units
    decision: Any
    attempt: str | None  # that the reports name
    reports: Mapping[str, Sequence[Mapping[str, Any]]]  # by client: all that say what they rest on
    absent: tuple[Any, ...]
    silent: tuple[Any, ...]
    otherwise: Mapping[str, Any]  # what else the entry states
    signatures: Mapping[str, Any]  # of clients with a key

    @classmethod
    def of(cls, entry: int, body: Mapping[str, Any], state: LedgerState) -> Settlement:
        """Python's own errors if the entry is damaged."""
        rows, table = {row["client"]: row for row in body["inputs"]}, table_in(body)
        measured = ("contribution", "signature", "client")
        return cls(
            entry=entry,
            version=body["rules_version"],
            rules={**body["rules"], "grace": body["grace"]},
            contributions={client: row["contribution"] for client, row in rows.items()},
            harm=body.get("harm"),
            figures={
                client: tuple(value for name, value in sorted(row.items()) if name not in measured)
                for client, row in rows.items()
            },
            decision=body["decision"],
            attempt=Play.of(body, "").attempt,
            reports={
                client: (
                    *(each["report"] for each in row["report"]["earlier"]),
                    report_of(body, row, state.identity, table).document(),
                )
                for client, row in rows.items()
                if "report" in row
            }
            | {client: tuple(each.document for each in reports) for client, reports in unused_in(body).items()},
            absent=tuple(body["absent"]),
            silent=silent_in(body),
            otherwise={name: body[name] for name in _OTHERWISE if name in body},
            signatures={client: row["signature"] for client, row in rows.items() if state.members.get(client)},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unexplained:
    """Something that changed without anybody's signature."""

    rule: str
    expected: str
    found: str


def unexplained(before: Settlement, now: Settlement, *, has_rules: bool) -> Unexplained | None:
    """What a new settlement must not change under the signatures of an earlier one; None if there is nothing.

    Rules: unless every client that signs has signed anew. Where rules are agreed, the same holds for contributions,
    harm, the order of clients, and who has reported. Where they are not, contributions may change if at least one has
    signed anew, or if somebody who was absent is there now or the other way round; a newcomer that the round did not
    list is no reason. Where the operator vouches for every client, nobody signs, and nothing is unexplained.
    """
    other = _other_reports(before, now)
    if other is not None:
        return other
    is_reused = any(before.signatures.get(client) == signature for client, signature in now.signatures.items())
    if not is_reused and not (has_rules and _is_same_attempt(before, now)):
        return None
    changed = first_difference(before.rules, now.rules)
    if changed is not None:
        return _unexplained(SAME_RULES, changed, before)
    if has_rules:
        return _changed_figures(before, now)
    listed = {*before.figures, *before.absent}
    if any(_of(before, client) != _of(now, client) for client in listed):
        return None
    return _changed_measurements(before, now, now.contributions)


def _is_same_attempt(before: Settlement, now: Settlement) -> bool:
    """Whether nobody signed anything else: the reports name the attempt of before, or no client that signs is left."""
    if not before.signatures:
        return False
    return not now.signatures or (now.attempt is not None and now.attempt == before.attempt)


def _other_reports(before: Settlement, now: Settlement) -> Unexplained | None:
    """A client that signed two reports under one number or of one attempt, or a report that is not listed any more."""
    for client in now.reports:
        for report in before.reports.get(client, ()):
            was = f"report {report.get('number')} of {client}", f"(attempt {report.get('attempt')})"
            same = [each for each in now.reports[client] if is_named_alike(each, report)]
            if not same:
                return _unexplained(ALL_REPORTS, (*was, f"{len(now.reports[client])} reports without it"), before)
            for other in same:
                if other != report:
                    found = f"another report {other.get('number')} (attempt {other.get('attempt')})"
                    return _unexplained(ONE_REPORT, (*was, found), before)
    return None


def is_named_alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two reports of a client and a round have the same number or attempt: they must be the same report."""
    return any(one.get(name) == other.get(name) for name in _NAMED_BY)


def _changed_figures(before: Settlement, now: Settlement) -> Unexplained | None:
    """What changed although not all clients signed anew: somebody's report is gone, or somebody's figures differ."""
    for client, figures in before.figures.items():
        if client not in now.figures:
            return _unexplained(SAME_REPORTS, (client, "with its report", "without it"), before)
        is_signed_anew = before.signatures.get(client) != now.signatures.get(client)
        if figures != now.figures[client] and not is_signed_anew:
            return _unexplained(SAME_FIGURES, (client, "with the figures", "other figures"), before)
    if _is_in_other_order(before, now):
        return _unexplained(SAME_ORDER, ("the order", ", ".join(before.figures), ", ".join(now.figures)), before)
    return _changed_measurements(before, now, before.contributions)


def _changed_measurements(before: Settlement, now: Settlement, clients: Iterable[str]) -> Unexplained | None:
    """What the operator measured otherwise: contributions of these clients, or harm."""
    contributions = {client: now.contributions[client] for client in clients}
    changed = first_difference(before.contributions, contributions)
    changed = changed or first_difference({"harm": before.harm}, {"harm": now.harm})
    return None if changed is None else _unexplained(SAME_CONTRIBUTIONS, changed, before)


def _is_in_other_order(before: Settlement, now: Settlement) -> bool:
    return [client for client in before.figures if client in now.figures] != [
        client for client in now.figures if client in before.figures
    ]


def _of(settlement: Settlement, client: Any) -> tuple[bool, Any]:
    """Whether a client is there, and what it signed."""
    return client in settlement.figures, settlement.signatures.get(client)


def _unexplained(rule: str, changed: tuple[str, str, str], before: Settlement) -> Unexplained:
    name, was, now = changed
    return Unexplained(rule=rule, expected=f"{name} {was} as in entry {before.entry}", found=now)


def check_settled_again(undone: Mapping[str, Any], body: Mapping[str, Any], state: LedgerState) -> None:
    """Refuse to settle a round again under the same signatures and by other rules, contributions or reports.

    `undone` is a reversed entry, of this round or of something else.
    """
    if undone["kind"] != "round" or undone["body"]["round"] != body["round"]:
        return
    entry = undone["number"]
    before, now = (Settlement.of(entry, each, state) for each in (undone["body"], body))
    fault = unexplained(before, now, has_rules=state.has_rules)
    if fault is not None:
        raise LedgerError(
            f"Round {body['round']} was settled in entry {entry} and reversed, and {fault.rule}: expected "
            f"{fault.expected}, got {fault.found}. Settle it by the same rules and contributions, with all reports, or "
            "have it reported and signed anew."
        )


def changes(before: Settlement, now: Settlement) -> str:
    """What the new settlement changed, in words; "" if nothing. What has lists of names in it comes last."""
    absent = sorted(map(str, before.absent)) != sorted(map(str, now.absent))
    silent = sorted(map(str, before.silent)) != sorted(map(str, now.silent))
    parts = ["who was absent" * absent, "who was silent" * silent]
    if before.version != now.version:
        parts.append(f"version of the rules: {before.version} before, {now.version} now")
    if _is_in_other_order(before, now):
        parts.append("order of clients")
    if before.harm != now.harm:
        parts.append("harm")
    if before.decision != now.decision:
        parts.append("decision")
    parts += [
        f"{name.replace('_', ' ')}"
        for name in dict.fromkeys((*before.otherwise, *now.otherwise))
        if before.otherwise.get(name) != now.otherwise.get(name)
    ]
    parts += [
        _changed(name, getattr(before, field), getattr(now, field))
        for name, field in (("rules", "rules"), ("contributions", "contributions"), ("reported figures", "figures"))
    ]
    if any(parts):
        signed = sum(before.signatures.get(client) != signature for client, signature in now.signatures.items())
        parts.insert(2, f"signed anew by {signed} of {len(now.signatures)}" if now.signatures else "nobody signs")
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
