"""Refuse rounds, withdrawals and names that do not fit the entries before them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from commonweal.errors import InputError, LedgerError
from commonweal.ledger.keys import fault_of_key
from commonweal.ledger.member_documents import ROUND_LIMIT, WithdrawalNotice
from commonweal.ledger.order import check_nobody_is_missing, check_not_divided_without, check_round_number
from commonweal.ledger.rounds import RoundToSettle
from commonweal.ledger.silence import check_silences
from commonweal.ledger.state import LedgerState
from commonweal.ledger.taking_part import check_absent, check_joined, check_silent
from commonweal.names import look_alikes, tidy_name


def check_names(members: Iterable[str]) -> None:
    """Refuse a name that a member of a ledger cannot have."""
    for client in members:
        if not client.strip() or len(client) > 200 or not client.isprintable():
            raise InputError(
                f"A member's name must have 1 to 200 printable characters, got {client!r}. Choose another name."
            )
        if client != (tidy := tidy_name(client)):
            raise InputError(
                f"A member's name must be spelt with composed characters and without spaces around it, got "
                f"{client!a}. Write {tidy!a}, which looks the same."
            )


def check_look_alikes(members: Iterable[str]) -> None:
    """Refuse two names that people could take for one another: money would go to the wrong member."""
    if (pair := look_alikes(members)) is not None:
        one, other = map(ascii, pair)
        raise InputError(f"The members' names {one} and {other} look the same. Rename one of them.")


KEYS_OF_THEIR_OWN = "members have keys of their own"


def check_own_keys(newcomers: Mapping[str, str | None], state: LedgerState) -> None:
    """Refuse a key that somebody else signs with: one party would sign for two."""
    known = {key: client for client, key in state.members.items() if key is not None} | {state.operator: "the operator"}
    for client, key in newcomers.items():
        if key is not None and known.setdefault(key, client) != client:
            raise InputError(f"The key of client {client!r} is also that of {known[key]}. Ask it for a key of its own.")


def check_keys(members: Mapping[str, str | None]) -> None:
    """Refuse a key with which anybody could sign for its member, or nobody."""
    for client, key in members.items():
        if key is not None and (fault := fault_of_key(key)) is not None:
            raise InputError(
                f"The public key {str(key)[:80]!r} of client {client!r} {fault}. Ask the member for another key."
            )


def check_round(settled: RoundToSettle, state: LedgerState) -> None:
    """Refuse a round whose clients cannot take part in it, or did not sign their reports."""
    decision, number, absent = settled.record.decision, settled.record.round_number, settled.record.absent
    others = (*absent, *settled.record.resting)
    last = min((each for each in state.finished if each < number), default=None)
    if last is not None:
        raise LedgerError(
            f"The federation was finished after round {last}, so round {number} cannot be settled. Reverse round "
            f"{last} first, or use another ledger."
        )
    check_round_number(number, state)
    check_not_divided_without(number, state)
    for client, times in Counter((*decision.figures.clients, *others)).items():
        if client not in state.members:
            raise LedgerError(
                f"Client {client!r} of round {number} is not a member of this ledger; its members are "
                f"{listed(state.members)}."
            )
        if times > 1:
            raise LedgerError(
                f"Client {client!r} appears {times} times in round {number}. List it once, or leave it out if it was "
                "absent."
            )
    check_nobody_is_missing(number, {*decision.figures.clients, *others}, state)
    for client in settled.record.silent:
        if client not in absent:
            raise LedgerError(
                f"Client {client!r} cannot be silent in round {number}: it is not absent from it. Who was silent did "
                "not report."
            )
    check_silent(settled.record.silent, number, state)
    check_absent(absent, number, state)
    for client in decision.figures.clients:
        check_joined(client, number, state)
        _check_still_active(client, number, state)
    check_silences(state, number, decision.figures.clients)
    for client in decision.figures.clients:
        _check_report(client, settled, state)
    for client in decision.eliminated:
        later = state.took_part_after(client, number)
        if later is not None:
            raise LedgerError(
                f"Client {client!r} cannot be eliminated in round {number}: it takes part in round {later}, which is "
                f"settled. Reverse round {later} first."
            )


def _check_still_active(client: str, number: int, state: LedgerState) -> None:
    eliminated = state.eliminated.get(client)
    if eliminated is not None and eliminated < number:
        raise LedgerError(
            f"Client {client!r} was eliminated in round {eliminated} and cannot take part in round {number}. Leave it "
            f"out, or reverse round {eliminated} first."
        )
    excluded = state.excluded.get(client)
    if excluded is not None and excluded < number:
        raise LedgerError(
            f"The membership of {client!r} ended after it was silent in round {excluded}, so it cannot take part in "
            f"round {number}. Leave it out."
        )
    withdrawn = state.withdrawn.get(client)
    if withdrawn is not None and withdrawn < number:
        raise LedgerError(
            f"Client {client!r} withdrew after round {withdrawn} and cannot take part in round {number}. Leave it out."
        )


def _check_report(client: str, settled: RoundToSettle, state: LedgerState) -> None:
    key, signature = state.members[client], settled.signatures.get(client)
    if key is None:
        if signature is not None:
            raise LedgerError(
                f"Client {client!r} was admitted without a key, so its report must not be signed. Leave the signature "
                "out."
            )
        return
    if signature is None:
        raise LedgerError(
            f"The report of client {client!r} for round {settled.record.round_number} is not signed. The client must "
            "sign its report of this round for this ledger."
        )


def check_withdrawal(client: str, round_number: int, signature: str | None, state: LedgerState) -> None:
    """Refuse a notice that the member did not give itself."""
    if client not in state.members:
        raise LedgerError(
            f"Client {client!r} is not a member of this ledger and cannot withdraw; its members are "
            f"{listed(state.members)}."
        )
    if type(round_number) is not int or not 0 <= round_number <= ROUND_LIMIT:
        raise InputError(
            f"Client {client!r} cannot withdraw after round {round_number!r}. Name the last round it takes part in, or "
            "0 if there is none."
        )
    key = state.members[client]
    if key is None:
        if signature is not None:
            raise LedgerError(
                f"Client {client!r} was admitted without a key, so its withdrawal must not be signed. Leave the "
                "signature out."
            )
        return
    if signature is None or not WithdrawalNotice(state.identity, client, round_number).is_signed(signature, key):
        fault = "is not signed" if signature is None else "is not signed with the key it was admitted with"
        raise LedgerError(
            f"The withdrawal of client {client!r} after round {round_number} {fault}. The client must sign its notice "
            "for this ledger."
        )


def check_may_withdraw(client: str, round_number: int, state: LedgerState) -> None:
    """Refuse a withdrawal of a client that has left, or that takes part in later rounds."""
    if client in state.withdrawn:
        raise LedgerError(
            f"Client {client!r} already withdrew after round {state.withdrawn[client]} (entry "
            f"{state.withdrawals[client]}) and cannot withdraw again after round {round_number}."
        )
    if client in state.eliminated:
        raise LedgerError(f"Client {client!r} was eliminated in round {state.eliminated[client]} and cannot withdraw.")
    later = state.took_part_after(client, round_number)
    if later is not None:
        raise LedgerError(
            f"Client {client!r} cannot withdraw after round {round_number}: it takes part in round {later}, which is "
            "settled. Name its last round."
        )
    silent = state.silent_after(client, round_number)
    if silent is not None:
        raise LedgerError(
            f"Client {client!r} cannot withdraw after round {round_number}: round {silent} calls it silent, and a "
            f"client that has left cannot be. Reverse round {silent} and settle it without the client, or have the "
            "client sign a notice after that round."
        )


def listed(names: Iterable[str]) -> str:
    """The first ten names."""
    every = list(names)
    return ", ".join(every[:10]) + (f" and {len(every) - 10} more" if len(every) > 10 else "") or "none yet"
