"""Does closing a round cost the same after 1,000 rounds as after 10?

A federation of 50 members: each round is checkpointed and settled, and then every member gets what is new on its
statement. Statements with all lines and checkpoints with all rounds would grow with the federation: after 1,000 rounds
closing took a minute of processor time and wrote 368 MB.

Measured are the ten rounds up to round 10 and the ten up to the last one, by their medians: processor time, since the
time that a disk takes is another question, and bytes of the files that changed. One member keeps its statements, as it
would on its own machine. Members sign their reports beforehand. In between, rounds are closed for this member only.
A coordinator that is started again reads the whole ledger once; that time is shown too.

    python -m benchmarks.bench_closing [ROUNDS]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing, redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
from benchmarks.bench_ledger import KEYS, ROUND_COUNT, decided, signed
from benchmarks.promises import Promise, conclude

from commonweal.federation.checkpoint import CHECKPOINT, CheckpointFile
from commonweal.federation.round_result import ClientMeasurement, RoundResult
from commonweal.federation.settlement import FederationLedger
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.node_keys import NodeKey
from commonweal.records import Estimate, Evidence, RoundRecord, Stability
from commonweal.remote.member.kept_statements import keep_statement
from commonweal.remote.member.member_file import Member, read_member
from commonweal.remote.member.store import MemberStore

EARLY = 10
WINDOW = 10  # rounds that are measured, up to the early one and up to the last one
MOST = 2.0  # times what closing the early round costs
DRAW_COUNT = 100
STATE = {"shared/w": np.zeros(10_000, np.float32)}  # of the client set: the model
PARTS = ("checkpoint", "settling", "statements", "keeping one")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of closing one round."""

    seconds: dict[str, float]  # of processor time, by part
    written: int  # bytes of the checkpoint's files

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


class Federation:
    """A coordinator's ledger and checkpoint, and the folder of one of its members."""

    def __init__(self, folder: Path) -> None:
        self.results: list[RoundResult] = []
        self._folder = folder
        (folder / "results").mkdir()
        self._checkpoint = CheckpointFile(path=folder / "results" / CHECKPOINT, identity="benchmark")
        self.ledger = self.opened()
        self.identity = self.ledger.open()
        self._line_counts = dict.fromkeys(KEYS, 0)
        self._member = one_member(folder)
        self._home = MemberStore(self._member.home)

    def opened(self) -> FederationLedger:
        return FederationLedger(
            str(self._folder / "ledger.db"),
            KeyDirectory(self._folder / "keys"),
            name="benchmark",
            members={client: key.public for client, key in KEYS.items()},
        )

    def settle(self, result: RoundResult) -> None:
        signatures = signed(result.record, self.identity).signatures
        self.ledger.settle(result.record, result.sample_counts, signatures)

    def catch_up(self, results: Sequence[RoundResult]) -> None:
        """Everything but measuring: the member keeps its statements of these rounds, too."""
        for result in results:
            self.results.append(result)
            self.settle(result)
            self._keep(result.record.round_number, self._part(self._member.name))
        self._checkpoint.save(self.results, STATE)
        for client in KEYS:
            self._part(client)

    def close(self, result: RoundResult) -> Cost:
        """Close a round as a session does."""
        signatures = signed(result.record, self.identity).signatures
        number, before, seconds, sent = result.record.round_number, self._files(), {}, dict[str, bytes]()
        self.results.append(result)
        actions: dict[str, Callable[[], object]] = {
            "checkpoint": lambda: self._checkpoint.save(self.results, STATE),
            "settling": lambda: self.ledger.settle(result.record, result.sample_counts, signatures),
            "statements": lambda: sent.update({client: self._part(client) for client in KEYS}),
            "keeping one": lambda: self._keep(number, sent[self._member.name]),
        }
        for part in PARTS:
            start = time.process_time()
            actions[part]()
            seconds[part] = time.process_time() - start
        changed = [size for path, (size, *stamp) in self._files().items() if before.get(path) != (size, *stamp)]
        return Cost(seconds=seconds, written=sum(changed))

    def _part(self, client: str) -> bytes:
        since = self._line_counts[client]
        self._line_counts[client] = 1 + len(self.results)  # it was admitted, then took part in every round
        return self.ledger.statement_part(client, since)

    def _keep(self, number: int, content: bytes) -> None:
        with self._home.locked():
            kept = keep_statement(self._home, self._member, content.decode(), ledger=self.identity, round_number=number)
        assert kept.is_kept, kept.line

    def _files(self) -> dict[Path, tuple[int, int, int]]:
        stats = {path: path.stat() for path in (self._folder / "results").rglob("*.npz")}
        return {path: (stat.st_size, stat.st_ino, stat.st_mtime_ns) for path, stat in stats.items()}


def one_member(folder: Path) -> Member:
    NodeKey.new().write(folder / "node-key")
    name = next(iter(KEYS))
    (folder / "member.toml").write_text(f'name = "{name}"\nkey_file = "node-key"\nhome = "home"\nunit_value = 1.0\n')
    return read_member(folder / "member.toml")


def results_of(records: Sequence[RoundRecord]) -> list[RoundResult]:
    """Rounds as a federation measures them, by leave-one-out; their size matters here, not their figures."""
    clients, rng = tuple(KEYS), np.random.default_rng(2)
    estimate = Estimate(value=0.8125, standard_error=0.0125)
    measured = ClientMeasurement(
        sample_count=100,
        training_count=70,
        validation_count=30,
        step_count=None,
        accuracy=estimate,
        previous_accuracy=0.75,
        utility=None,
        cost=None,
        profit_error=None,
        contribution_error=0.0125,
    )
    evidence = Evidence(
        profit_error=None, contribution_error=0.0125, stability=Stability(same_count=90, draw_count=DRAW_COUNT)
    )
    coalitions = [clients, *(tuple(client for client in clients if client != left_out) for left_out in clients)]
    first = RoundResult(
        record=records[0],
        measured=dict.fromkeys(clients, measured),
        iteration_accuracies=tuple(dict.fromkeys(clients, 0.8125) for _ in range(3)),
        coalition_values=tuple((coalition, estimate) for coalition in coalitions),
        events=(),
        signatures=dict.fromkeys(clients, "0" * 192),
        withdrawals={},
        profit_draws=rng.normal(size=(len(clients), DRAW_COUNT)),
        contribution_draws=rng.normal(size=(len(clients), DRAW_COUNT)),
    )
    explained = dict.fromkeys(clients, evidence)
    return [replace(first, record=replace(record, evidence=explained)) for record in records]


def show(name: str, costs: Sequence[Cost]) -> None:
    parts = ", ".join(f"{part} {1e3 * median(cost.seconds[part] for cost in costs):.1f}" for part in PARTS)
    total, written = 1e3 * median(cost.total for cost in costs), median(cost.written for cost in costs)
    print(f"{name}: {total:.1f} ms of processor time ({parts}); checkpoint {written / 1e6:.3f} MB written")


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else ROUND_COUNT
    rounds = results_of(decided(count))
    print(f"closing a round of {len(KEYS)} members, medians of {WINDOW} rounds")
    Path("out").mkdir(exist_ok=True)
    with TemporaryDirectory(dir="out") as folder, redirect_stdout(StringIO()) as log:
        del log
        federation = Federation(Path(folder))
        early = [federation.close(result) for result in rounds[:EARLY]][-WINDOW:]
        federation.catch_up(rounds[EARLY : count - WINDOW])
        late = [federation.close(result) for result in rounds[count - WINDOW :]]
        federation.ledger.close()
        with closing(federation.opened()) as again:
            again.open()
            start = time.process_time()
            again.statement_part(next(iter(KEYS)), count)
            rebuilt = time.process_time() - start
            start = time.process_time()
            again.statement(next(iter(KEYS)))
            whole = time.process_time() - start
    show(f"up to round {EARLY}", early)
    show(f"up to round {count}", late)
    print(f"the lines of all members read again when a coordinator is started: {rebuilt:.1f} s of processor time")
    print(f"a whole statement of one member: {1e3 * whole:.0f} ms, and {len(KEYS)} times that for all of them")
    return conclude(
        [
            Promise(
                text=f"closing round {count} over closing round {EARLY}: processor time",
                found=median(cost.total for cost in late) / median(cost.total for cost in early),
                less_than=MOST,
            ),
            Promise(
                text=f"checkpoint of round {count} over that of round {EARLY}: bytes written",
                found=median(cost.written for cost in late) / median(cost.written for cost in early),
                less_than=MOST,
            ),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
