"""How all tests run. COMMONWEAL_TESTS is `quick`, `test` (the default) or `soak`, as in the Makefile."""

from __future__ import annotations

import functools
import gc
import os
import signal

import pytest
import typer.main
import typer.testing
from hypothesis import settings

from tests import one_thread, quick
from tests.in_memory import folder_in_memory
from tests.undrawn import without_drawings

one_thread.limit()

# pytest makes its temporary folders here. SQLite waits for the disk in every commit: 5 ms, and 0.03 ms in memory.
if folder := folder_in_memory():
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(folder))

PACE = os.environ.get("COMMONWEAL_TESTS", "test")
EXAMPLE_COUNTS = {"quick": 20, "test": 30, "soak": 1000}

# Property tests try new examples in every run of a developer, and the same ones in every run of CI.
settings.register_profile(
    "commonweal", max_examples=EXAMPLE_COUNTS[PACE], derandomize=bool(os.environ.get("CI")), deadline=None
)
settings.load_profile("commonweal")

# A shell starts background jobs with Ctrl-C ignored, and so would every command started from here.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    if PACE == "quick":
        config.pluginmanager.register(quick.QuickWatch())


def pytest_collection_finish(session):
    """Tests live as long as their process: the collector need not search thousands of them for garbage."""
    gc.freeze()


@pytest.fixture
def numbers_only(monkeypatch):
    """Runs write history.json without a page and plots, which take longer than a small run."""
    from commonweal.federation import session
    from commonweal.report.history_json import write_history

    monkeypatch.setattr(session, "write_all", lambda report, folder: write_history(report, folder / "history.json"))


@pytest.fixture
def undrawn():
    """Pages have empty drawings: drawing takes longer than a small run and all the words."""
    with without_drawings():
        yield


@pytest.fixture(autouse=True, scope="session")
def _keys_of_nobody(tmp_path_factory):
    """Commands sign with the tests' keys, never with the user's own."""
    os.environ["COMMONWEAL_KEYS"] = str(tmp_path_factory.mktemp("keys"))


@pytest.fixture(autouse=True, scope="session")
def _commands_built_once():
    """Typer builds all commands anew whenever one is called, which takes 0.1 s: longer than most of them."""
    built_once = functools.cache(typer.main.get_command)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", built_once)
        patch.setattr(typer.testing, "_get_command", built_once)
        yield
