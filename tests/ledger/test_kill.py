"""A ledger survives a process that is killed at any moment, and continues as if nothing had happened.

Children are forked, so that everything is imported once; they end by SIGKILL or os._exit and clean nothing up. The
default run kills at every statement of the actions that write most; `make soak` adds all actions on both databases,
hundreds of kills at random moments, and many processes at once.
"""

from __future__ import annotations

import gc
import json
import math
import mmap
import os
import select
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import pytest
from pg8000.native import Connection
from sqlalchemy import Engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.engine.default import DefaultDialect

from commonweal.decision.decide import decide_figures
from commonweal.decision.mechanisms.paper import Paper
from commonweal.errors import LedgerError
from commonweal.ledger.entries import StoredEntry
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.keys import SigningKey
from commonweal.ledger.ledger import Ledger
from commonweal.ledger.rounds import RoundToSettle
from commonweal.ledger.sql.store import SqlStore, open_store
from commonweal.ledger.store import StoredPosting
from commonweal.ledger.terms import Terms
from commonweal.ledger.verification.recompute import recompute
from commonweal.ledger.verification.verify import verify_ledger
from commonweal.records import Figures, RoundRecord, Rules
from tests.ledger.sample_ledger import others_absent

pytestmark = pytest.mark.skipif(os.name != "posix", reason="forks and kills")

PATIENCE = 60.0  # seconds for a child to end by itself

TERMS = Terms(name="killed", settlement="accruals")
CLIENTS = ("ann", "bob", "eve", "zoë")
CLIENT_KEYS = {client: SigningKey.from_seed(client.encode().ljust(32)) for client in CLIENTS[:2]}
MEMBERS = {client: CLIENT_KEYS[client].public if client in CLIENT_KEYS else None for client in CLIENTS}
OPERATOR = SigningKey.from_seed(b"the operator".ljust(32))
NEXT_OPERATOR = SigningKey.from_seed(b"the same, later".ljust(32))


OnPoint = Callable[[str], None]  # called with the name of the point that a child has reached
Watch = Callable[[OnPoint], None]


class Child:
    """A forked process. Its work is given a function that waits until the parent says `start`."""

    def __init__(self, work: Callable[[Callable[[], None]], Any]) -> None:
        go_out, self._go = os.pipe()
        self._told, told_in = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # no child needs the parent's threads
            self.process_id = os.fork()
        if self.process_id == 0:
            self._do(work, go_out, told_in)
        os.close(go_out)
        os.close(told_in)

    @staticmethod
    def _do(work: Callable[[Callable[[], None]], Any], go: int, told: int) -> None:
        status = 1
        try:

            def wait_for_start() -> None:
                os.write(told, b"\n")
                os.read(go, 1)

            os.write(told, json.dumps(work(wait_for_start)).encode())
            status = 0
        except BaseException:
            os.write(told, traceback.format_exc()[-10_000:].encode())
        finally:
            os._exit(status)

    def wait_until_ready(self) -> None:
        assert self._hear() == b"\n", "the child failed before its start"

    def start(self) -> None:
        os.write(self._go, b".")

    def kill(self) -> None:
        os.kill(self.process_id, signal.SIGKILL)

    def end(self) -> Any:
        """What the work returned; None if it was killed."""
        said = b""
        while heard := self._hear():
            said += heard
        status = os.waitstatus_to_exitcode(os.waitpid(self.process_id, 0)[1])
        os.close(self._go)
        os.close(self._told)
        if status == -signal.SIGKILL:
            return None
        assert status == 0, said.decode()
        return json.loads(said)

    def _hear(self) -> bytes:
        if not select.select([self._told], [], [], PATIENCE)[0]:
            self.kill()
            raise AssertionError(f"the child did nothing for {PATIENCE:.0f} s")
        return os.read(self._told, 10_000)


def watch_database(on_point: OnPoint) -> None:
    """In a child: call `on_point` before and after each request to the database, with a name for it."""

    def listen(name: str) -> None:
        event.listen(Engine, name, lambda *_: on_point(name))

    def wrap(name: str) -> None:
        original = getattr(DefaultDialect, name)

        def wrapped(dialect: DefaultDialect, *given: Any) -> None:
            on_point(f"before {name}")
            original(dialect, *given)
            on_point(f"after {name}")

        setattr(DefaultDialect, name, wrapped)

    for name in ("begin", "commit", "rollback"):
        listen(name)
    for name in ("do_commit", "do_rollback"):
        wrap(name)
    event.listen(Engine, "before_cursor_execute", lambda *given: on_point(f"before {_first_words(given[2])}"))
    event.listen(Engine, "after_cursor_execute", lambda *given: on_point(f"after {_first_words(given[2])}"))


def _first_words(statement: str) -> str:
    return " ".join(statement.split()[:3])


def watch_keys(on_point: OnPoint) -> None:
    """In a child: call `on_point` before every line of the code that stores keys, and between opening and writing."""

    def trace(frame: FrameType, kind: str, _: object) -> Any:
        code = frame.f_code
        if not code.co_filename.endswith(("key_directory.py", "atomic_write.py")) and code.co_name != "write_text":
            return None
        if kind == "line":
            on_point(f"before line {frame.f_lineno}")
        return trace

    sys.settrace(trace)


def die_at(number: int) -> OnPoint:
    """Kill this process at that point, counted from 1."""
    points = count(1)

    def on_point(name: str) -> None:
        if next(points) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    return on_point


class EntryClock:
    """One minute per entry: the same work has the same times, however often it is started."""

    ledger: Ledger | None = None

    def __call__(self) -> datetime:
        number = self.ledger.state.number if self.ledger is not None else 0
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number)


def opened_ledger(store: SqlStore, keys: KeyDirectory) -> Ledger:
    """The ledger in the store, with its members; created if there is none."""
    clock = EntryClock()
    with store.reading() as reading:
        is_empty = next(reading.entries(), None) is None
    if is_empty:
        clock.ledger = Ledger.start(store, TERMS, keys, clock=clock)
    else:
        clock.ledger = Ledger(store, keys, clock=clock)
    clock.ledger.admit(MEMBERS)
    return clock.ledger


def settle_all(ledger: Ledger, rounds: list[RoundToSettle]) -> list[bool]:
    return [ledger.settle(settled).fresh for settled in rounds]


@dataclass(frozen=True)
class Content:
    """All rows of a store."""

    entries: list[StoredEntry]
    postings: list[StoredPosting]

    def up_to(self, number: int) -> Content:
        return Content(self.entries[:number], [row for row in self.postings if row.entry <= number])


def content_of(store: SqlStore) -> Content:
    with store.reading() as reading:
        return Content(list(reading.entries()), list(reading.postings()))


def check_whole(store: SqlStore, undisturbed: Content) -> int:
    """The store has the first entries of the undisturbed ledger, with all their postings; returns how many.

    So each round is there once or not at all, and the ledger verifies.
    """
    found = content_of(store)
    entry_count = len(found.entries)
    assert found == undisturbed.up_to(entry_count)
    if entry_count:
        assert verify_ledger(store, recompute, operator=OPERATOR.public).findings == ()
    return entry_count


class SqliteShelf:
    """A place for one ledger, in a file."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "ledger.db"
        self.location = str(self._file)

    def clear(self) -> None:
        for file in self._file.parent.glob("ledger.db*"):
            file.unlink()

    def copy(self) -> bytes:
        return self._file.read_bytes()

    def put_back(self, copy: bytes) -> None:
        self.clear()
        self._file.write_bytes(copy)


class PostgresShelf:
    """A place for one ledger, in a database. Children inherit the connection but do not use it, nor close it."""

    def __init__(self, url: str) -> None:
        self.location = url
        address = make_url(url)
        self._connection = Connection(
            address.username or "",
            host=address.host,
            port=address.port,
            password=address.password,
            database=address.database,
            ssl_context=False,
        )
        self._copies = count(1)

    def clear(self) -> None:
        self._wait_for_the_killed()
        self._connection.run("DROP TABLE IF EXISTS commonweal_postings, commonweal_entries, commonweal_schema")

    def copy(self) -> int:
        number = next(self._copies)
        for table in ("entries", "postings"):
            self._connection.run(f"CREATE TABLE copy_{number}_{table} AS TABLE commonweal_{table}")
        return number

    def put_back(self, copy: int) -> None:
        self._wait_for_the_killed()
        self._connection.run("TRUNCATE commonweal_postings, commonweal_entries")
        for table in ("entries", "postings"):
            self._connection.run(f"INSERT INTO commonweal_{table} TABLE copy_{copy}_{table}")

    def _wait_for_the_killed(self) -> None:
        """The server may still be busy with what a killed child asked for."""
        others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        while self._connection.run(others) != [[0]]:
            time.sleep(0.001)

    def close(self) -> None:
        self._connection.close()


Shelf = SqliteShelf | PostgresShelf


@pytest.fixture(scope="module", autouse=True)
def quick_forks() -> Iterator[None]:
    """Garbage collection would touch, and so copy, all memory that parent and child share: 60 ms each time."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(params=["sqlite", "postgresql"])
def shelf(request, tmp_path) -> Iterator[Shelf]:
    if request.param == "sqlite":
        yield SqliteShelf(tmp_path)
        return
    server = request.getfixturevalue("postgres_server")
    url = server.new_database()
    with closing(PostgresShelf(url)) as made:
        yield made
    server.drop_database(url)


@pytest.fixture
def keys(tmp_path) -> KeyDirectory:
    """A key directory with the same key in every run."""
    directory = KeyDirectory(tmp_path / "keys")
    directory.add(OPERATOR)
    directory.make_current(OPERATOR.public)
    return directory


@pytest.fixture
def opening(shelf, keys):
    """A copy of a ledger with its members and no round, and its identity."""
    shelf.clear()
    with closing(open_store(shelf.location, create=True)) as store:
        identity = opened_ledger(store, keys).identity
    return shelf.copy(), identity


def rounds_for(identity: str, round_count: int) -> list[RoundToSettle]:
    """Decided rounds: losses, negative budgets, absent clients; in the last one all loss-makers are eliminated."""
    random = Random(1)
    rounds = []
    for number in range(1, round_count + 1):
        present = [client for place, client in enumerate(CLIENTS) if place != number % 5]
        figures = Figures(
            profits={client: random.uniform(-1.0, 1.2) for client in present},
            contributions={client: random.random() for client in present},
        )
        decision = decide_figures(figures, Rules(mu=math.inf if number < round_count else 0.0))
        absent = tuple(client for client in CLIENTS if client not in present)
        record = RoundRecord(round_number=number, decision=decision, absent=absent)
        counts = {client: random.randrange(100) for client in present}
        rounds.append(signed(RoundToSettle(record=record, rules_version=Paper.version, sample_counts=counts), identity))
    return rounds


def signed(settled: RoundToSettle, identity: str) -> RoundToSettle:
    present = settled.record.decision.figures.clients
    signing = [client for client in present if client in CLIENT_KEYS]
    signatures = {client: settled.report(identity, client).signed(CLIENT_KEYS[client]) for client in signing}
    return replace(settled, signatures=signatures)


class Trace:
    """The last point that a child reached, in memory that parent and child share, so that it outlives the child."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 100)

    def write(self, name: str) -> None:
        self._memory[:] = name.encode()[:100].ljust(100)

    def read(self) -> str:
        return self._memory[:].decode().strip("\0 ")


def kill_at_random_moments(
    work: Callable[[Callable[[], None]], Any], restore: Callable[[], None], check: Callable[[], int], *, times: int
) -> tuple[Counter[str], Counter[int]]:
    """Kill a child at moments spread over all of its work; returns at which points, and after which entries."""
    trace = Trace()

    def traced(wait_for_start: Callable[[], None]) -> None:
        watch_database(trace.write)
        work(wait_for_start)

    def run(seconds: float | None = None) -> float:
        restore()
        trace.write("")
        child = Child(traced)
        child.wait_until_ready()
        begun = time.perf_counter()
        child.start()
        if seconds is not None:
            time.sleep(seconds)
            child.kill()
        child.end()
        return time.perf_counter() - begun

    duration = sorted(run() for _ in range(3))[1]
    random = Random(7)
    points, entry_counts = Counter[str](), Counter[int]()
    for _ in range(times):
        run(random.uniform(0.0, 1.1 * duration))
        points[trace.read()] += 1
        entry_counts[check()] += 1
    return points, entry_counts


@pytest.mark.soak
def test_killed_at_random_moments_while_settling(shelf, keys, opening):
    copy, identity = opening
    rounds = rounds_for(identity, 4)
    undisturbed = undisturbed_content(shelf, keys, rounds)

    def settle(wait_for_start):
        ledger = opened_ledger(open_store(shelf.location), keys)
        wait_for_start()
        settle_all(ledger, rounds)

    points, entry_counts = kill_at_random_moments(
        settle, lambda: shelf.put_back(copy), lambda: check_and_go_on(shelf, keys, rounds, undisturbed), times=220
    )
    assert min(entry_counts) >= 2, "what was there before is there after"
    assert len(entry_counts) >= 4, entry_counts
    in_transactions = [name for name in points if "INSERT" in name or "commit" in name]
    # Most of the time goes into reading and checking before the transaction: about one kill in fourteen is inside it.
    assert sum(points[name] for name in in_transactions) >= 6, points
    assert len(points) >= 5, points


@pytest.mark.soak
def test_killed_at_random_moments_while_opening_a_ledger(shelf, keys, opening):
    _, identity = opening
    rounds = rounds_for(identity, 1)
    undisturbed = undisturbed_content(shelf, keys, rounds)

    def open_and_settle(wait_for_start):
        wait_for_start()
        settle_all(opened_ledger(open_store(shelf.location, create=True), keys), rounds)

    points, entry_counts = kill_at_random_moments(
        open_and_settle, shelf.clear, lambda: check_and_go_on(shelf, keys, rounds, undisturbed), times=60
    )
    assert {0} < set(entry_counts), entry_counts
    assert len(points) >= 5, points


def undisturbed_content(shelf: Shelf, keys: KeyDirectory, rounds: list[RoundToSettle]) -> Content:
    shelf.clear()
    with closing(open_store(shelf.location, create=True)) as store:
        assert settle_all(opened_ledger(store, keys), rounds) == [True] * len(rounds)
        return content_of(store)


def check_and_go_on(shelf: Shelf, keys: KeyDirectory, rounds: list[RoundToSettle], undisturbed: Content) -> int:
    with closing(open_store(shelf.location, create=True)) as store:
        entry_count = check_whole(store, undisturbed)
        ledger = opened_ledger(store, keys)
        settle_all(ledger, rounds)
        assert ledger.state.head == undisturbed.entries[-1].hash
    return entry_count


def check_every_point(
    watch: Watch,
    *,
    restore: Callable[[], Any],
    prepare: Callable[[], Any] = lambda: None,
    act: Callable[[Any], Any],
    check: Callable[[], Any],
    step: int = 1,
) -> int:
    """Kill a child at its first point, others `step` points later each, until one survives; returns its number."""
    for number in count(1, step):
        restore()
        child = Child(partial(_act_until_killed, number, watch, prepare, act))
        child.wait_until_ready()
        child.start()
        survived = child.end()
        check()
        if survived:
            return number
    raise AssertionError("no end")


def _act_until_killed(
    number: int,
    watch: Watch,
    prepare: Callable[[], Any],
    act: Callable[[Any], Any],
    wait_for_start: Callable[[], None],
) -> bool:
    prepared = prepare()
    wait_for_start()
    watch(die_at(number))
    act(prepared)
    return True


ACTIONS: dict[str, Callable[[Ledger, list[RoundToSettle]], Any]] = {
    "settle": lambda ledger, rounds: ledger.settle(rounds[2]),
    "realise": lambda ledger, rounds: ledger.realise(100_001, "invoice 1"),
    "reverse": lambda ledger, rounds: ledger.reverse(4, "an error"),
    "admit": lambda ledger, rounds: ledger.admit({"new": None, "newer": None}),
    "withdraw": lambda ledger, rounds: ledger.withdraw("zoë", 4, None),
    "rotate": lambda ledger, rounds: None if ledger.state.operator == NEXT_OPERATOR.public else ledger.rotate_key(),
}
EVERY_TIME = {("settle", "sqlite")}  # the others are soak tests


@pytest.fixture
def next_operator(monkeypatch) -> None:
    """A new key is the same in every run."""
    monkeypatch.setattr(SigningKey, "new", lambda: NEXT_OPERATOR)


@pytest.mark.parametrize(
    ("action", "shelf"),
    [
        pytest.param(action, shelf, marks=() if (action, shelf) in EVERY_TIME else pytest.mark.soak)
        for action in ACTIONS
        for shelf in ("sqlite", "postgresql")
    ],
    indirect=["shelf"],
)
def test_killed_at_every_point_of(action, shelf, keys, opening, next_operator):
    """Points are before and after every statement, and the end of every transaction."""
    check_action(action, watch_database, shelf, keys, opening)


# Every seventh point by default, each one in `make soak`.
by_steps = pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.soak)])


@by_steps
@pytest.mark.parametrize("shelf", ["sqlite"], indirect=True)  # the database makes no difference to a key directory
def test_killed_at_lines_of_storing_a_new_key(shelf, keys, opening, next_operator, step):
    check_action("rotate", watch_keys, shelf, keys, opening, step=step)


def check_action(
    action: str, watch: Watch, shelf: Shelf, keys: KeyDirectory, opening: tuple[Any, str], *, step: int = 1
) -> None:
    copy, identity = opening
    rounds = rounds_for(identity, 4)
    shelf.put_back(copy)
    with closing(open_store(shelf.location)) as store:
        settle_all(opened_ledger(store, keys), rounds[:2])
    copy = shelf.copy()

    def act(ledger: Ledger) -> None:
        ACTIONS[action](ledger, rounds)

    def restore() -> None:
        shelf.put_back(copy)
        keys.make_current(OPERATOR.public)
        for file in keys.path.glob(f"{NEXT_OPERATOR.public[:16]}*"):
            file.unlink()

    def go_on(store: SqlStore) -> Content:
        ledger = opened_ledger(store, keys)
        act(ledger)
        assert ledger.state.number == 5
        ledger.settle(others_absent(rounds[3], ledger))  # with the new key, if there is one
        return content_of(store)

    with closing(open_store(shelf.location)) as store:
        undisturbed = go_on(store)
    entry_counts: Counter[int] = Counter()

    def check() -> None:
        with closing(open_store(shelf.location)) as store:
            entry_counts[check_whole(store, undisturbed)] += 1
            assert go_on(store) == undisturbed

    prepare = partial(_open_ledger, shelf.location, keys)
    point_count = check_every_point(watch, restore=restore, prepare=prepare, act=act, check=check, step=step)
    assert set(entry_counts) == {4, 5}
    assert point_count >= 8


def _open_ledger(location: str, keys: KeyDirectory) -> Ledger:
    return opened_ledger(open_store(location, create=True), keys)


@by_steps
@pytest.mark.parametrize("shelf", ["sqlite", pytest.param("postgresql", marks=pytest.mark.soak)], indirect=True)
def test_killed_at_points_of_opening_a_ledger(shelf, keys, opening, step):
    """Starting with the tables."""
    _, identity = opening
    rounds = rounds_for(identity, 1)
    undisturbed = undisturbed_content(shelf, keys, rounds)
    entry_counts: Counter[int] = Counter()

    def check() -> None:
        entry_counts[check_and_go_on(shelf, keys, rounds, undisturbed)] += 1

    point_count = check_every_point(
        watch_database, restore=shelf.clear, act=lambda _: _open_ledger(shelf.location, keys), check=check, step=step
    )
    assert set(entry_counts) == {0, 1, 2}
    assert point_count >= 40


@by_steps
def test_killed_at_lines_of_creating_a_key(tmp_path, step):
    made: set[str] = set()
    folders = (tmp_path / str(number) for number in count())
    keys = KeyDirectory(next(folders))

    def restore() -> None:
        nonlocal keys
        keys = KeyDirectory(next(folders))

    def check() -> None:
        key = KeyDirectory(keys.path).current()
        assert KeyDirectory(keys.path).current().public == key.public, "once a key is there, it stays"
        assert keys.public_file(key.public).exists()
        made.add(key.public)

    point_count = check_every_point(
        watch_keys, restore=restore, act=lambda _: keys.current() and None, check=check, step=step
    )
    assert point_count >= 8
    assert len(made) == len(range(1, point_count + 1, step))


def at_once(shelf: Shelf, keys: KeyDirectory, tasks: list[Callable[[Ledger], Any]]) -> list[Any]:
    """The results of tasks that run in one process each, all started together."""

    def work(task: Callable[[Ledger], Any], wait_for_start: Callable[[], None]) -> Any:
        ledger = _open_ledger(shelf.location, keys)
        wait_for_start()
        return time.monotonic(), task(ledger), time.monotonic()

    children = [Child(partial(work, task)) for task in tasks]
    for child in children:
        child.wait_until_ready()
    for child in children:
        child.start()
    begun, done, ended = zip(*(child.end() for child in children), strict=True)
    assert max(begun) < min(ended), "they did not run at the same time"
    return list(done)


@pytest.mark.parametrize(("process_count", "round_count"), [(2, 12), pytest.param(8, 100, marks=pytest.mark.soak)])
def test_processes_that_settle_the_same_rounds_at_once(shelf, keys, opening, process_count, round_count):
    """One more process settles one round with another sample count, and gets an error that names the field."""
    copy, identity = opening
    rounds = rounds_for(identity, round_count)
    undisturbed = undisturbed_content(shelf, keys, rounds)
    shelf.put_back(copy)
    place = round_count // 2
    honest = rounds[place]
    altered = signed(replace(honest, sample_counts={**honest.sample_counts, "ann": 1000}), identity)

    def settle_otherwise(ledger: Ledger) -> list[bool | str]:
        while place + 1 not in ledger.state.rounds:
            ledger.refresh()
        told: list[bool | str] = []
        for settled in [*rounds[:place], altered, *rounds[place + 1 :]]:
            try:
                told.append(ledger.settle(settled).fresh)
            except LedgerError as error:
                told.append(str(error))
        return told

    settling = [partial(settle_all, rounds=rounds)] * process_count
    other, *fresh = at_once(shelf, keys, [settle_otherwise, *settling])
    assert other[place] == (
        f"Round {place + 1} is already settled as entry {place + 3} with different content: inputs[ann].sample_count "
        f"is {honest.sample_counts['ann']} there and 1000 here. If these are the figures of another round, give them "
        "its number. If the entry is wrong, reverse the round first."
    )
    other[place] = False
    # Each round is settled by exactly one of them.
    assert [sum(by_process) for by_process in zip(other, *fresh, strict=True)] == [1] * round_count
    with closing(open_store(shelf.location)) as store:
        assert check_whole(store, undisturbed) == round_count + 2
