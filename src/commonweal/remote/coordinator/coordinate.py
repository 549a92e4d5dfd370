"""The coordinator: a session over members on other machines.

If it is killed and started again, it continues after the last round in its checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NoReturn

from commonweal.atomic_write import locked_directory, make_results_folder
from commonweal.client.work import no_gradient
from commonweal.errors import FederationError, LedgerError
from commonweal.federation.checkpoint import CHECKPOINT, CheckpointFile, remove_unfinished
from commonweal.federation.measuring import Progress
from commonweal.federation.round_result import RoundResult
from commonweal.federation.session import Session
from commonweal.federation.settlement import FederationLedger, default_ledger
from commonweal.learning.vectors import ArrayLayout
from commonweal.ledger.currencies import money_in_words
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.money import LARGEST_AMOUNT
from commonweal.records import RunReport
from commonweal.remote.coordinator.client_set import RemoteClients
from commonweal.remote.coordinator.confirmed_heads import CONFIRMED_HEADS
from commonweal.remote.coordinator.federation_file import Federation
from commonweal.remote.transport import Transport
from commonweal.task.records import InitialModel, Model, Task, TaskPlan

_MISMATCH = (
    "was written under different terms. Restore federation.toml and the members' keys as they were, or start again "
    "with another results folder and new member folders."
)

Say = Callable[[str], None]


def coordinate(
    transport: Transport,
    federation: Federation,
    initial: Task | InitialModel | Model,
    *,
    directory: Path,
    keys: KeyDirectory,
    ledger: str | None = None,
    say: Say = print,
) -> RunReport:
    """Run the federation's rounds, or the remaining ones; all results are in `directory`.

    `initial` is the task, or, if that is all that the operator needs of it, the first model or the function that makes
    it.
    """
    task = initial if isinstance(initial, Task) else _only_first_model(initial)
    if task.initial_model is None:
        raise FederationError("The task must have a function initial_model, which makes the first model.")
    if federation.mechanism.uses_gradients and isinstance(initial, Task) and task.gradient is None:
        raise FederationError(no_gradient(task))
    make_results_folder(directory)
    settled_in = FederationLedger(
        str(default_ledger(directory)) if ledger is None else ledger,
        keys,
        name=federation.name,
        members=federation.keys,
        agreed=federation.agreed,
    )
    with locked_directory(directory, "a federation"), closing(settled_in):
        remove_unfinished(directory)
        checkpoint = CheckpointFile(path=directory / CHECKPOINT, identity=federation.digest(), mismatch=_MISMATCH)
        if checkpoint.path.exists() and not settled_in.exists:
            raise FederationError(
                f"The ledger {settled_in.shown_location!r} is missing, but {checkpoint.path} has rounds that were "
                "settled in it. Put the ledger back. If it is lost, the members' statements are the evidence of what "
                "was settled: agree on the balances by them, and start again with a new ledger, another results folder "
                "and new member folders."
            )
        settled_in.check_rules()
        identity = settled_in.open()
        if settled_in.has_opened:
            say(f"new ledger {money_in_words(settled_in.terms)}")
        _check_amounts(settled_in, federation)
        clients = RemoteClients(
            transport,
            federation,
            identity,
            say,
            task.layout or ArrayLayout,
            settled_in,
            confirmed_heads=directory / CONFIRMED_HEADS,
        )
        if not checkpoint.path.exists():
            clients.start(task.initial_model, task.agree, task.name)
        session = Session(
            clients=clients,
            plan=federation,
            description=federation.description_for_readers(),
            checkpoint=checkpoint,
            ledger=settled_in,
            owns_ledger=True,
            watch=lambda progress: say(_progress_line(progress, federation.task.metric.label)),
            on_resume=lambda results: say(f"resuming after round {len(results)}"),
            on_round=lambda result: _say_round(result, say),
        )
        try:
            run_report = session.run(resume=checkpoint.path.exists(), directory=directory)
        except LedgerError:
            clients.confirmed.check()  # a ledger that lacks an amendment may refuse the rounds after it
            raise
        say(run_report.sentence)
        return run_report


def _only_first_model(initial: InitialModel | Model) -> Task:
    """A task of which only the first model is known here; its other functions run at the members."""

    def elsewhere(*arguments: object) -> NoReturn:
        raise AssertionError("this function runs at the members")

    def given(plan: TaskPlan) -> Model:
        return initial(plan) if callable(initial) else initial

    return Task(load=elsewhere, train=elsewhere, evaluate=elsewhere, initial_model=given)


def _check_amounts(ledger: FederationLedger, federation: Federation) -> None:
    """Before anybody trains, refuse profit bounds that allow larger amounts than the ledger takes."""
    terms = ledger.terms_in_force
    most = max(1.0, terms.largest_share or 1.0) * terms.worth
    most *= math.fsum(max(map(abs, client.profit_bounds)) for client in federation.clients)
    if most > LARGEST_AMOUNT:
        raise FederationError(
            f"profit_bounds allow transfers of {most:.3g} minor units per round; a ledger takes at most 10^15. Narrow "
            "profit_bounds."
        )


def _say_round(result: RoundResult, say: Say) -> None:
    record, decision = result.record, result.record.decision
    for client in decision.eliminated:
        say(f"{client} is eliminated{' as harmful' if client in decision.harmful else ''}")
    for client in record.withdrawn:
        say(f"{client} withdraws")
    for client in record.silent:
        say(f"{client} was silent: it had the model of round {record.round_number} and did not report")
    for client in record.excluded:
        say(f"the membership of {client} has ended: it was silent in round {record.round_number}")
    for event in result.events:
        if event.kind in ("harmful", "finished"):
            say(event.text)
    moved = sum(amount for amount in decision.transfers.values() if amount > 0)
    say(f"round {record.round_number} is settled: budget {decision.budget:+.4g}, transfers {moved:.4g}")


def _progress_line(progress: Progress, metric: str) -> str:
    known = [value for value in progress.accuracies.values() if not math.isnan(value)]
    mean = sum(known) / len(known) if known else math.nan
    what = "opened" if progress.iteration == 0 else f"iteration {progress.iteration}"
    return f"round {progress.round_number}, {what}: {len(progress.accuracies)} clients, mean {metric} {mean:.4f}"
