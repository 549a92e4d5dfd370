"""What does a ledger cost compared with plain inserts: chained and signed entries, checked reports, verification?

Rounds of 50 clients, each with a signed report. Each round is settled in a ledger; then the same rows and content,
hashed, go through the bare driver into a second database, in one transaction that is just as durable. The two take
turns, so that a busy machine slows both. Then the ledger is verified. Clients sign beforehand, as they would on their
own machines; checking their signatures is part of the measured time.

The promise is about wall-clock time, since a commit waits for the disk. So SQLite's files are in ./out: a temporary
folder may be in memory. The PostgreSQL server of the tests, if there is one, does not wait for the disk either.
Processor time is printed beside it: the faster the disk, the closer the two. If the disk is so fast that checking
signatures alone takes longer, the miss is reported but does not fail.

    python -m benchmarks.bench_ledger [ROUNDS]
"""

from __future__ import annotations

import hashlib
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pg8000.dbapi
from benchmarks.promises import Promise, conclude
from tests.ledger.postgres_server import PostgresServer, missing_reason

from commonweal.decision.decide import decide_figures
from commonweal.decision.mechanisms.paper import Paper
from commonweal.ledger.canonical import canonical, parse
from commonweal.ledger.entries import Posting, StoredEntry, postings_of
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.keys import SigningKey, is_signed
from commonweal.ledger.ledger import Ledger
from commonweal.ledger.rounds import RoundToSettle, draft_round
from commonweal.ledger.sql.store import SqlStore, open_store
from commonweal.ledger.terms import Terms
from commonweal.ledger.verification.recompute import recompute
from commonweal.ledger.verification.verify import Verification, verify_ledger
from commonweal.records import Figures, RoundRecord, Rules

CLIENT_COUNT = 50
ROUND_COUNT = 1000
MULTIPLE = 5.0
RULES = Rules(mu=1000.0)  # lenient enough to retain everybody, but finite, so that the decision has to be computed
KEYS = {f"client-{place:02d}": SigningKey.from_seed(bytes([place]) * 32) for place in range(CLIENT_COUNT)}
Add = Callable[[StoredEntry, Sequence[Posting]], None]


@dataclass(frozen=True, slots=True)
class Seconds:
    """Wall-clock time, and processor time of this process."""

    clock: float
    processor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """What was measured; the first two per round."""

    settling: list[Seconds]
    plain: list[Seconds]
    verifying: Seconds


def decided(round_count: int) -> list[RoundRecord]:
    rng = np.random.default_rng(1)
    rounds = []
    for number in range(1, round_count + 1):
        profits, contributions = rng.normal(0.05, 0.05, CLIENT_COUNT), rng.uniform(0.1, 1.0, CLIENT_COUNT)
        figures = Figures(
            profits=dict(zip(KEYS, profits.tolist(), strict=True)),
            contributions=dict(zip(KEYS, contributions.tolist(), strict=True)),
        )
        rounds.append(RoundRecord(round_number=number, decision=decide_figures(figures, RULES)))
    return rounds


def signed(record: RoundRecord, ledger: str) -> RoundToSettle:
    unsigned = RoundToSettle(record=record, rules_version=Paper.version, sample_counts=dict.fromkeys(KEYS, 100))
    return replace(
        unsigned, signatures={client: unsigned.report(ledger, client).signed(key) for client, key in KEYS.items()}
    )


def timed(action: Callable[..., object], *arguments: object) -> Seconds:
    clock, processor = time.perf_counter(), time.process_time()
    action(*arguments)
    return Seconds(time.perf_counter() - clock, time.process_time() - processor)


def measure(store: SqlStore, keys: Path, rounds: Sequence[RoundRecord], plainly: Add) -> Times:
    ledger = Ledger.start(store, Terms(name="benchmark"), KeyDirectory(keys))
    ledger.admit({client: key.public for client, key in KEYS.items()})
    to_settle = [signed(record, ledger.identity) for record in rounds]
    for number in (1, 2):
        plainly(*stored(store, number))
    settling, plain = [], []
    for each in to_settle:
        settling.append(timed(ledger.settle, each))
        plain.append(timed(plainly, *stored(store, ledger.state.number)))
    outcomes: list[Verification] = []
    verifying = timed(lambda: outcomes.append(verify_ledger(store, recompute)))
    assert not outcomes[0].findings
    assert outcomes[0].signed_reports == len(rounds) * CLIENT_COUNT
    return Times(settling=settling, plain=plain, verifying=verifying)


def stored(store: SqlStore, number: int) -> tuple[StoredEntry, tuple[Posting, ...]]:
    """An entry of the ledger with its postings."""
    with store.reading() as reading:
        entry = next(reading.entries(after=number - 1))
    document = parse(entry.content)
    assert document is not None
    return entry, postings_of(document)


def adder(execute: Callable[[str, Any], Any], execute_many: Callable[[str, Any], Any], mark: str) -> Add:
    """Insert the rows of an entry with the bare driver; `mark` is the placeholder of a value."""
    marks = ", ".join([mark] * 4)

    def add(entry: StoredEntry, postings: Sequence[Posting]) -> None:
        digest = hashlib.sha256(entry.content.encode()).hexdigest()
        execute(
            f"INSERT INTO commonweal_entries (number, content, hash, signature) VALUES ({marks})",
            (entry.number, entry.content, digest, entry.signature),
        )
        execute_many(
            f"INSERT INTO commonweal_postings (entry, position, account, amount) VALUES ({marks})",
            [(entry.number, place, each.account, each.amount) for place, each in enumerate(postings)],
        )

    return add


@contextmanager
def plain_sqlite(path: str) -> Iterator[Add]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")
        add = adder(connection.execute, connection.executemany, "?")

        def in_a_transaction(entry: StoredEntry, postings: Sequence[Posting]) -> None:
            connection.execute("BEGIN IMMEDIATE")
            add(entry, postings)
            connection.execute("COMMIT")

        yield in_a_transaction


@contextmanager
def plain_postgresql(url: str) -> Iterator[Add]:
    parts = urlsplit(url)
    with closing(
        pg8000.dbapi.connect(
            parts.username or "",
            host=parts.hostname or "",
            port=parts.port or 0,
            password=parts.password,
            database=parts.path.removeprefix("/"),
        )
    ) as connection:
        cursor = connection.cursor()
        add = adder(cursor.execute, cursor.executemany, "%s")

        def in_a_transaction(entry: StoredEntry, postings: Sequence[Posting]) -> None:
            add(entry, postings)
            connection.commit()

        yield in_a_transaction


def in_sqlite(rounds: Sequence[RoundRecord]) -> Times:
    Path("out").mkdir(exist_ok=True)
    with TemporaryDirectory(dir="out") as folder:
        ledger, plain = str(Path(folder) / "ledger.db"), str(Path(folder) / "plain.db")
        open_store(plain, create=True).close()
        with closing(open_store(ledger, create=True)) as store, plain_sqlite(plain) as add:
            return measure(store, Path(folder) / "keys", rounds, add)


def in_postgresql(rounds: Sequence[RoundRecord]) -> Times:
    with PostgresServer() as server, TemporaryDirectory() as folder:
        ledger, plain = server.new_database(), server.new_database()
        open_store(plain, create=True).close()
        with closing(open_store(ledger, create=True)) as store, plain_postgresql(plain) as add:
            return measure(store, Path(folder), rounds, add)


def total(seconds: Sequence[Seconds]) -> Seconds:
    return Seconds(sum(each.clock for each in seconds), sum(each.processor for each in seconds))


def show(name: str, times: Times) -> None:
    count, plain = len(times.plain), total(times.plain)
    heading = f"{name}, milliseconds per round"
    print(f"{heading:38s} {'clock':>7s} {'processor':>9s} {'multiples of both':>17s}")
    for what, spent in (
        ("plain inserts and hashes", plain),
        ("settling", total(times.settling)),
        ("verification", times.verifying),
    ):
        multiples = f"{spent.clock / plain.clock:8.2f} {spent.processor / plain.processor:8.1f}"
        print(f"  {what:36s} {1e3 * spent.clock / count:7.1f} {1e3 * spent.processor / count:9.2f} {multiples}")
    tenths = [total(times.settling[tenth::10]).clock / total(times.plain[tenth::10]).clock for tenth in range(10)]
    print(f"  settling over plain inserts, wall clock, per tenth of the rounds: {min(tenths):.2f} to {max(tenths):.2f}")


def show_parts(record: RoundRecord) -> None:
    """Processor time of a round, without the database."""
    settled = signed(record, "0" * 64)
    reports = [settled.report("0" * 64, client) for client in KEYS]
    messages = [(report.message(), settled.signatures[report.client], KEYS[report.client].public) for report in reports]
    content = draft_round(settled, "0" * 64, Terms(name="benchmark")).body
    parts: dict[str, Callable[[], object]] = {
        f"checking {CLIENT_COUNT} signatures": lambda: [is_signed(*message) for message in messages],
        f"{CLIENT_COUNT} reports in canonical form": lambda: [report.message() for report in reports],
        "the entry in canonical form": lambda: canonical(content),
        "deciding": lambda: decide_figures(record.decision.figures, RULES),
    }
    print("processor time per round, milliseconds:")
    for name, action in parts.items():
        print(f"  {name:36s} {1e3 * min(timed(action).processor for _ in range(9)):17.2f}")


def main() -> int:
    rounds = decided(int(sys.argv[1]) if len(sys.argv) > 1 else ROUND_COUNT)
    print(f"{len(rounds)} rounds of {CLIENT_COUNT} clients")
    found = {"SQLite": in_sqlite(rounds)}
    reason = missing_reason()
    if reason is None:
        found["PostgreSQL"] = in_postgresql(rounds)
    else:
        print(f"without PostgreSQL: {reason}")
    promises = []
    for name, times in found.items():
        show(name, times)
        for what, spent in (("settling", total(times.settling)), ("verification", times.verifying)):
            plain = total(times.plain).clock
            promises.append(
                Promise(
                    text=f"{name}: {what} over plain inserts and hashes",
                    found=spent.clock / plain,
                    less_than=MULTIPLE,
                    known_miss="the disk is faster than checking signatures"
                    if spent.processor > MULTIPLE * plain
                    else None,
                )
            )
    show_parts(rounds[0])
    return conclude(promises)


if __name__ == "__main__":
    sys.exit(main())
