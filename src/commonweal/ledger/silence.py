"""Members that had a round's model and did not report, and what the terms of a ledger make of that.

Whoever falls silent at the report keeps the model and saves its payment, so silences are counted apart from other
absences. Where the terms state a charge or a limit, a silent member takes no part in further rounds until it has
reported late or was charged, and its membership ends after as many silences as the limit. A late report changes nothing
in the round, which is settled. A charge is shared equally by those who were retained in that round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from commonweal.errors import LedgerError
from commonweal.ledger.canonical import canonical
from commonweal.ledger.entries import Draft, Posting, client_account
from commonweal.ledger.keys import is_signed
from commonweal.ledger.late_reports import fault_of_late_report
from commonweal.ledger.line_texts import charge_text, exclusion_text, late_report_text
from commonweal.ledger.money import in_proportion

if TYPE_CHECKING:  # the state counts silences
    from commonweal.ledger.agreed_rules import AgreedRules
    from commonweal.ledger.state import LedgerState


REVERSIBLE = ("round", "realisation", "charge", "exclusion")
"""The kinds of entries that can be reversed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptOut:
    """Who gets no model in a round."""

    owing: Mapping[str, list[int]] = field(default_factory=dict)  # until it reports these rounds late, or is charged
    excluded: frozenset[str] = frozenset()  # for good
    at_the_limit: frozenset[str] = frozenset()  # whose membership ends if they are silent in this round


def silent_in(body: Mapping[str, Any]) -> tuple[str, ...]:
    """The clients that a settled round calls silent; entries in which nobody was have no such list."""
    return tuple(body.get("silent", ()))


def silence_line(kind: str, body: Mapping[str, Any], client: str, amount: int) -> str | None:
    """What an entry on silence says on a client's statement; None if it does not concern the client."""
    if kind == "charge" and (amount or body["client"] == client):
        return charge_text(body["round"], None if body["client"] == client else body["client"])
    if kind == "exclusion" and body["client"] == client:
        return exclusion_text(body["rounds"])
    if kind == "late-report" and body["client"] == client:
        return late_report_text(body["round"])
    return None


def owed_reports(state: LedgerState, client: str, before: int) -> list[int]:
    """The rounds before this one that keep a client out: it had the model, did not report, and was not charged.

    Rounds under terms that state neither a charge nor a limit keep nobody out.
    """
    settled = {(client, number) for number in state.late_reports.get(client, ())} | set(state.charges.values())
    return [
        number
        for number in state.silences.get(client, ())
        if number < before and (client, number) not in settled and _has_consequences(state, number)
    ]


def open_charges(state: LedgerState) -> Iterator[tuple[str, int]]:
    """Clients and rounds of silences that the terms state a charge for, and that were neither charged nor reported."""
    for client in state.silences:
        for number in owed_reports(state, client, state.last_round + 1):
            agreed = _agreed(state, number)
            if agreed is not None and agreed.silence_charge is not None and state.retained[number]:
                yield client, number


def ends_by_silence(state: LedgerState, before: int) -> Iterator[tuple[str, list[int]]]:
    """Active members whose silences up to the round before this one have reached the limit, with their rounds."""
    for client in state.active(before):
        if rounds := _silent_to_the_limit(state, client, before):
            yield client, rounds


def withdrawn_at_the_limit(state: LedgerState) -> Iterator[tuple[str, list[int]]]:
    """Members that left by a notice alone although their silences had reached the limit, with their rounds."""
    for client, last in state.withdrawn.items():
        is_gone = last < state.next_round and client not in state.excluded and client not in state.eliminated
        if is_gone and (rounds := _silent_to_the_limit(state, client, last + 1)):
            yield client, rounds


def at_the_limit(state: LedgerState, round_number: int) -> frozenset[str]:
    """Active members whose membership ends if they are silent in this round."""
    agreed = _agreed(state, round_number)
    limit = None if agreed is None else agreed.silence_limit
    if limit is None:
        return frozenset()
    counts = {client: sum(number < round_number for number in rounds) for client, rounds in state.silences.items()}
    return frozenset(client for client in state.active(round_number) if counts.get(client, 0) + 1 >= limit)


def late_report_draft(
    state: LedgerState, client: str, round_number: int, document: Mapping[str, Any], signature: str
) -> Draft:
    """The entry of a report that came after its round was settled."""
    if round_number not in state.silences.get(client, ()):
        raise LedgerError(f"Client {client!r} was not silent in round {round_number}, so it owes no report of it.")
    if state.late_reports.get(client, {}).get(round_number, 0) > state.rounds[round_number]:
        raise LedgerError(f"Client {client!r} has reported round {round_number} late already.")
    about = {"book": state.identity, "round": round_number, "client": client}
    if {name: document.get(name) for name in about} != about:
        raise LedgerError(f"The late report of {client!r} is not about round {round_number} of this ledger.")
    fault = fault_of_late_report(document, state.plays[round_number])
    if fault is not None:
        raise LedgerError(
            f"The report of {client!r} is no late report of round {round_number}: {fault}. A report that came in time "
            "belongs into the round: reverse the round and settle it with the report."
        )
    key = state.members.get(client)
    if key is None or not is_signed(canonical(document), signature, key):
        raise LedgerError(f"The late report of client {client!r} is not signed with the key it was admitted with.")
    body = {"client": client, "round": round_number, "report": dict(document), "signature": signature}
    return Draft(kind="late-report", body=body)


def charge_draft(state: LedgerState, client: str, round_number: int) -> Draft:
    """The entry that charges a client for a round whose model it had without reporting."""
    agreed = _agreed(state, round_number)
    if round_number not in state.silences.get(client, ()):
        raise LedgerError(
            f"Client {client!r} was not silent in round {round_number}, so there is nothing to charge. Silences: "
            f"{', '.join(map(str, state.silences.get(client, ()))) or 'none'}."
        )
    if agreed is None or agreed.silence_charge is None:
        raise LedgerError(
            f"The terms of this ledger state no charge for silence in round {round_number}. Amend them first; a charge "
            "then applies to later rounds."
        )
    if round_number in state.late_reports.get(client, ()):
        raise LedgerError(f"Client {client!r} has reported round {round_number} late, so it is not charged for it.")
    if state.is_charged(client, round_number):
        raise LedgerError(f"Client {client!r} was charged for round {round_number} already.")
    postings = charge_postings(state, client, round_number, agreed.silence_charge)
    if not postings:
        raise LedgerError(f"Nobody was retained in round {round_number}, so nobody can receive the charge.")
    body = {"client": client, "round": round_number, "amount": str(agreed.silence_charge)}
    return Draft(kind="charge", body=body, postings=postings)


def charge_postings(state: LedgerState, client: str, round_number: int, amount: int) -> tuple[Posting, ...]:
    """From the silent client to those who were retained in the round, equally; none if nobody was."""
    retained = state.retained.get(round_number, ())
    if not retained:
        return ()
    terms = state.terms_of(round_number).terms
    turn = round_number if terms.settlement_version >= 2 else 0
    parts = in_proportion(amount, dict.fromkeys(retained, 1), turn=turn)
    received = tuple(Posting(client_account(other), part) for other, part in parts.items() if part)
    return (Posting(client_account(client), -amount), *received)


def exclusion_draft(client: str, rounds: list[int]) -> Draft:
    """The entry that ends a membership; it names the rounds in which the client was silent."""
    return Draft(kind="exclusion", body={"client": client, "rounds": rounds})


def check_silences(state: LedgerState, round_number: int, clients: tuple[str, ...]) -> None:
    """Refuse a round with a client that takes no part for now, or while a membership has to be ended first."""
    for client, rounds in ends_by_silence(state, round_number):
        raise LedgerError(
            f"The membership of {client!r} has ended by the terms: it was silent in rounds {_listed(rounds)}. Enter "
            f"its exclusion before round {round_number} is settled."
        )
    for client in clients:
        owed = owed_reports(state, client, round_number)
        if owed:
            raise LedgerError(
                f"Client {client!r} had the model of round {owed[0]} and did not report, so it takes no part in round "
                f"{round_number} until it has reported that round late or was charged for it."
            )


def check_nothing_rests_on(number: int, state: LedgerState) -> None:
    """Refuse to reverse a round that a charge or an exclusion rests on."""
    for entry, (client, charged) in state.charges.items():
        if charged == number:
            raise LedgerError(
                f"Round {number} cannot be reversed while {client!r} is charged for it. Reverse entry {entry} first."
            )
    for entry, client in state.exclusions.items():
        if number in state.silences.get(client, ()):
            raise LedgerError(
                f"Round {number} cannot be reversed while the membership of {client!r} is ended for it. Reverse entry "
                f"{entry} first."
            )


def check_consequence_can_go(entry: int, state: LedgerState) -> None:
    """Refuse to reverse a charge by which its client got a model again, or an exclusion before later rounds."""
    after = max((number for number, settled in state.rounds.items() if settled > entry), default=None)
    if entry in state.exclusions and after is not None:
        raise LedgerError(
            f"The exclusion of {state.exclusions[entry]!r} cannot be reversed: round {after} was settled without it. "
            f"Reverse round {after} first."
        )
    client, charged = state.charges.get(entry, ("", 0))
    later = state.took_part_after(client, charged) or state.silent_after(client, charged)
    if later is not None:
        raise LedgerError(
            f"The charge of {client!r} for round {charged} cannot be reversed: because of it the client got the model "
            f"of round {later}, which is settled. Reverse round {later} first."
        )


def _silent_to_the_limit(state: LedgerState, client: str, before: int) -> list[int]:
    """The rounds before this one that a client was silent in; [] if they are fewer than the limit."""
    rounds = sorted(number for number in state.silences.get(client, ()) if number < before)
    agreed = _agreed(state, rounds[-1]) if rounds else None
    limit = None if agreed is None else agreed.silence_limit
    return rounds if limit is not None and len(rounds) >= limit else []


def _has_consequences(state: LedgerState, round_number: int) -> bool:
    agreed = _agreed(state, round_number)
    return agreed is not None and (agreed.silence_charge is not None or agreed.silence_limit is not None)


def _agreed(state: LedgerState, round_number: int) -> AgreedRules | None:
    return state.terms_of(round_number).terms.agreed


def _listed(rounds: list[int]) -> str:
    return ", ".join(map(str, rounds))
