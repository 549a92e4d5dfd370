"""The coordinator: conducts rounds, checkpoints each, settles it in the book, and hands out statements.

Killed at any moment and started again, it goes on after the last round in its checkpoint: what came after that round
(settling it, telling its clients) is done again, and doing it twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from flwr.serverapp import Grid

from commonweal.atomic_write import held_alone, make_results_folder
from commonweal.federation.checkpoint import load_checkpoint, save_checkpoint
from commonweal.federation.chronicle import write_chronicle
from commonweal.federation.conductor import Progress, conduct
from commonweal.federation.held_round import HeldRound
from commonweal.federation.settlement import Treasury, default_ledger
from commonweal.flower.coordinator.client_set import FlowerClients
from commonweal.flower.coordinator.correspondence import Correspondence
from commonweal.flower.coordinator.federation_file import Federation
from commonweal.flower.wire.models import Model
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.records import Chronicle, RoundRecord
from commonweal.report.write import write_all

CHECKPOINT = "checkpoint.npz"

Say = Callable[[str], None]


def coordinate(
    grid: Grid,
    federation: Federation,
    initial: Model,
    *,
    directory: Path,
    keys: KeyDirectory,
    ledger: str | None = None,
    say: Say = print,
) -> Chronicle:
    """Hold the federation's rounds, those that are left; all that it leaves is in `directory`."""
    make_results_folder(directory)
    treasury = Treasury(
        str(default_ledger(directory)) if ledger is None else ledger,
        keys,
        name=federation.name,
        members=federation.keys,
    )
    with held_alone(directory, "a federation"), closing(treasury):
        checkpoint, identity = directory / CHECKPOINT, federation.digest()
        held: list[HeldRound] = []
        state = None
        if checkpoint.exists():
            held, state = load_checkpoint(checkpoint, identity=identity, rules=federation.mechanism.rules)
        letters = Correspondence(grid, federation.keys, answer_seconds=federation.answer_seconds)
        clients = FlowerClients(letters, federation, treasury.open(), initial)
        if state is not None:
            clients.restore(len(held), state)
            say(f"resuming after round {len(held)}")
            for held_round in held:
                _settle(held_round, treasury)
            _tell(held[-1].record, treasury, clients)
        for held_round in conduct(clients, federation, held=held, watch=lambda progress: say(_progress_line(progress))):
            held.append(held_round)
            save_checkpoint(checkpoint, identity=identity, held=held, state=clients.save())
            _settle(held_round, treasury)
            for line in _round_lines(held_round):
                say(line)
            _tell(held_round.record, treasury, clients)
        chronicle = write_chronicle(federation, federation.description_for_readers(), held)
        write_all(chronicle, directory)
        say(chronicle.sentence)
        return chronicle


def _settle(held: HeldRound, treasury: Treasury) -> None:
    counts = {client: measured.sample_count for client, measured in held.measured.items()}
    treasury.settle(held.record, counts, held.signatures)
    for client, notice in held.withdrawals.items():
        treasury.withdraw(client, held.record.round_number, notice)


def _tell(record: RoundRecord, treasury: Treasury, clients: FlowerClients) -> None:
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


def _round_lines(held: HeldRound) -> list[str]:
    record, decision = held.record, held.record.decision
    lines = [event.text for event in held.events]
    lines += [f"{client} is let go" for client in decision.eliminated]
    lines += [f"{client} withdraws" for client in record.withdrawn]
    moved = sum(amount for amount in decision.transfers.values() if amount > 0)
    lines.append(f"round {record.round_number} is settled: budget {decision.budget:+.4g}, {moved:.4g} changed hands")
    return lines


def _progress_line(progress: Progress) -> str:
    mean = sum(progress.accuracies.values()) / len(progress.accuracies)
    what = "opened" if progress.iteration == 0 else f"iteration {progress.iteration}"
    return f"round {progress.round_number}, {what}: {len(progress.accuracies)} clients, mean accuracy {mean:.4f}"
