"""What `make quick` leaves out: a test that starts a process or trains a network is skipped when it tries to.

Nobody has to mark such tests, so no list can go stale. Only a test that takes long without doing either is marked
`slow`, and fails here until it is.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

STARTS_A_PROCESS = {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen"}
SECONDS_LIMIT = 3.0  # of CPU time, so that other work on the machine does not count

_is_testing = False


class QuickWatch:
    """A pytest plugin."""

    def __init__(self) -> None:
        self._start = 0.0
        watch()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self):
        self._start = time.process_time()
        during_a_test(True)
        try:
            return (yield)
        finally:
            during_a_test(False)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self):
        result = yield
        seconds = time.process_time() - self._start
        if seconds > SECONDS_LIMIT:
            pytest.fail(f"takes {seconds:.1f} s of CPU time; mark it with pytest.mark.slow", pytrace=False)
        return result


def watch() -> None:
    """From now on, tests cannot start processes or train. Call once, before tests are collected."""
    sys.addaudithook(_skip_processes)
    import _posixsubprocess  # multiprocessing calls it without an audit event

    import torch

    from commonweal.learning.fast import FastLearner
    from commonweal.learning.plain import PlainLearner

    patch: list[tuple[Any, str, Callable[[], None]]] = [
        (_posixsubprocess, "fork_exec", _skip_process),
        (torch.autograd, "backward", _skip_training),
        (torch.autograd, "grad", _skip_training),
        (FastLearner, "train", _skip_training),
        (PlainLearner, "train", _skip_training),
    ]
    for owner, name, skip in patch:
        setattr(owner, name, _skipping(getattr(owner, name), skip))


def during_a_test(is_testing: bool) -> None:
    """Only tests are watched: pytest-xdist starts its workers."""
    global _is_testing
    _is_testing = is_testing


def _skip_processes(event: str, _: tuple[object, ...]) -> None:
    if _is_testing and event in STARTS_A_PROCESS:
        _skip_process()


def _skip_process() -> None:
    if not _is_importing():
        pytest.skip("starts a process")


def _skip_training() -> None:
    pytest.skip("trains a network")


def _is_importing() -> bool:
    """Libraries may look for a compiler while they are imported; a half-imported module is worse than a process."""
    frame = sys._getframe()
    while frame is not None and "importlib._bootstrap" not in frame.f_code.co_filename:
        frame = frame.f_back
    return frame is not None


def _skipping(original: Callable[..., object], skip: Callable[[], None]) -> Callable[..., object]:
    def guarded(*arguments: object, **options: object) -> object:
        if _is_testing:
            skip()
        return original(*arguments, **options)

    return guarded
