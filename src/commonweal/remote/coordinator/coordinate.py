"""The coordinator: conducts rounds, checkpoints each, settles it in the book, and hands out statements.

Killed at any moment and started again, it goes on after the last round in its checkpoint: what came after that round
(settling it, telling its clients) is done again, and doing it twice changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from commonweal.atomic_write import held_alone, make_results_folder
from commonweal.errors import FederationError
from commonweal.federation.checkpoint import CHECKPOINT, Continued, load_checkpoint, save_checkpoint
from commonweal.federation.conductor import Progress, conduct
from commonweal.federation.round_result import RoundResult
from commonweal.federation.run_report import make_run_report
from commonweal.federation.settlement import FederationLedger, default_ledger
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.money import LARGEST_AMOUNT
from commonweal.records import RoundRecord, RunReport
from commonweal.remote.coordinator.client_set import RemoteClients
from commonweal.remote.coordinator.federation_file import Federation
from commonweal.remote.messages.models import Model, checked_model
from commonweal.remote.transport import Transport
from commonweal.report.write import write_all

_WHAT = Continued(
    what="a federation goes on by the terms it was started with",
    way_out="bring federation.toml and the clients' keys back as they were, or start anew with another `out` and new "
    "homes",
)

Say = Callable[[str], None]


def coordinate(
    transport: Transport,
    federation: Federation,
    initial: Model,
    *,
    directory: Path,
    keys: KeyDirectory,
    ledger: str | None = None,
    say: Say = print,
) -> RunReport:
    """Hold the federation's rounds, those that are left; all that it leaves is in `directory`."""
    make_results_folder(directory)
    treasury = FederationLedger(
        str(default_ledger(directory)) if ledger is None else ledger,
        keys,
        name=federation.name,
        members=federation.keys,
    )
    with held_alone(directory, "a federation"), closing(treasury):
        checkpoint, identity = directory / CHECKPOINT, federation.digest()
        held: list[RoundResult] = []
        state = None
        if checkpoint.exists():
            held, state = load_checkpoint(checkpoint, identity=identity, rules=federation.mechanism.rules, what=_WHAT)
        book = treasury.open()
        _check_book(treasury, federation, held)
        clients = RemoteClients(transport, federation, book, checked_model(initial, "initial_model"), say)
        if state is not None:
            clients.restore(len(held), state)
            say(f"resuming after round {len(held)}")
            for held_round in held:
                _settle(held_round, treasury)
            _tell(held[-1].record, treasury, clients)
        for held_round in conduct(clients, federation, held=held, watch=lambda progress: say(_progress_line(progress))):
            treasury.check_round(held_round.record, _counts(held_round))
            held.append(held_round)
            save_checkpoint(checkpoint, identity=identity, held=held, state=clients.save())
            _settle(held_round, treasury)
            for line in _round_lines(held_round):
                say(line)
            _tell(held_round.record, treasury, clients)
        chronicle = make_run_report(federation, federation.description_for_readers(), held)
        write_all(chronicle, directory)
        say(chronicle.sentence)
        return chronicle


def _check_book(treasury: FederationLedger, federation: Federation, held: list[RoundResult]) -> None:
    """Before anybody trains: whether the book can take every round that the terms allow."""
    unknown = treasury.settled_rounds - {held_round.record.round_number for held_round in held}
    if unknown:
        raise FederationError(
            f"a book goes on from the rounds of its own checkpoint, got round {min(unknown)} settled in a book where "
            f"{len(held)} rounds are known; bring the checkpoint back into `out`, or start anew with another `out`, "
            "another book and new homes"
        )
    terms = treasury.book_terms
    if federation.mechanism.rules.contribution_rule == "raw" and terms.largest_share is None:
        raise FederationError(
            'the contribution rule "raw" can make shares of any size, which a book takes only if it was opened so, got '
            'one that was not; write "clip", or name a `ledger` that was opened with --largest-share'
        )
    most = max(1.0, terms.largest_share or 1.0) * terms.worth
    most *= math.fsum(max(map(abs, client.profit_bounds)) for client in federation.clients)
    if most > LARGEST_AMOUNT:
        raise FederationError(
            f"a book takes amounts of up to 10^15 minor units, got profit bounds that allow {most:.3g} in a round; "
            "narrow profit_bounds"
        )


def _counts(held: RoundResult) -> dict[str, int]:
    return {client: measured.sample_count for client, measured in held.measured.items()}


def _settle(held: RoundResult, treasury: FederationLedger) -> None:
    treasury.settle(held.record, _counts(held), held.signatures)
    for client, notice in held.withdrawals.items():
        treasury.withdraw(client, held.record.round_number, notice)


def _tell(record: RoundRecord, treasury: FederationLedger, clients: RemoteClients) -> None:
    there = record.decision.figures.clients
    clients.tell(
        record,
        {client: treasury.statement(client).decode() for client in there},
        {client: _outcome(record, client) for client in there},
    )


def _outcome(record: RoundRecord, client: str) -> str:
    """What became of a client, for its own log."""
    if client in record.decision.eliminated:
        return "let go, without a transfer"
    transfer = record.decision.transfers[client]
    left = ", and withdrawn after it" if client in record.withdrawn else ""
    return f"stays, transfer {transfer:+.6g} in units of utility{left}"


def _round_lines(held: RoundResult) -> list[str]:
    record, decision = held.record, held.record.decision
    lines = [f"{client} is let go" for client in decision.eliminated]
    lines += [f"{client} withdraws" for client in record.withdrawn]
    moved = sum(amount for amount in decision.transfers.values() if amount > 0)
    lines.append(f"round {record.round_number} is settled: budget {decision.budget:+.4g}, {moved:.4g} changed hands")
    return lines


def _progress_line(progress: Progress) -> str:
    mean = sum(progress.accuracies.values()) / len(progress.accuracies)
    what = "opened" if progress.iteration == 0 else f"iteration {progress.iteration}"
    return f"round {progress.round_number}, {what}: {len(progress.accuracies)} clients, mean accuracy {mean:.4f}"
