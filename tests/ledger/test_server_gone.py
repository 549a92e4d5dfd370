"""A PostgreSQL server that goes away at any moment is a sentence, and nothing is added."""

from __future__ import annotations

import gc
import signal

import pytest

from commonweal.errors import StorageError
from commonweal.ledger.ledger import Ledger
from tests.cli.conftest import run_here
from tests.ledger.postgres_server import PostgresServer, missing_reason
from tests.ledger.sample_ledger import FIRST_ROUND, make_sample, others_absent, signed_round

pytestmark = [
    pytest.mark.skipif(missing_reason() is not None, reason=missing_reason() or ""),
    pytest.mark.filterwarnings("ignore:.*unclosed <socket:pytest.PytestUnraisableExceptionWarning"),  # the driver's
]


@pytest.fixture
def server():
    with PostgresServer() as started:
        yield started


def stop_at_once(server):
    server.process.send_signal(signal.SIGQUIT)
    server.process.wait(timeout=30)


def before_anything(store, ledger, server):
    stop_at_once(server)
    ledger.refresh()


def while_reading(store, ledger, server):
    with store.reading() as reading:
        next(reading.entries())
        stop_at_once(server)
        list(reading.entries())


def while_settling(store, ledger, server):
    def clock():
        stop_at_once(server)
        return original()

    original, ledger._clock = ledger._clock, clock
    settled = signed_round(ledger.identity, 4, {"ann": FIRST_ROUND["ann"], "bob": FIRST_ROUND["bob"]})
    ledger.settle(others_absent(settled, ledger))


def before_the_commit(store, ledger, server):
    with store.writing():
        stop_at_once(server)


@pytest.mark.parametrize("use", [before_anything, while_reading, while_settling, before_the_commit])
def test_a_server_that_goes_away_is_a_sentence(server, tmp_path, use):
    location = server.new_database()
    sample = make_sample(location, tmp_path / "keys", "transfers")
    with pytest.raises(StorageError) as told:
        use(sample.store, Ledger(sample.store, sample.keys), server)
    assert str(told.value).startswith("Cannot reach the database postgresql://")
    sample.store.close()
    done = run_here(["ledger", "show", location], tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: Cannot reach the database postgresql://")
    gc.collect()  # the driver leaves sockets of a dead server to the garbage collector, which complains
