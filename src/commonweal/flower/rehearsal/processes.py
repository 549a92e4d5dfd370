"""Processes that never outlive their owner, even if it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from commonweal.errors import FederationError
from commonweal.flower.rehearsal import watchdog

_PATIENCE = 10.0  # seconds between the request to end and the kill


class Processes:
    """Named processes, each the leader of its own process group.

    Their children stay in these groups, so ending the groups ends all of them. If this process is killed, a watchdog
    ends the groups and removes `folder`.
    """

    def __init__(self, folder: Path) -> None:
        if os.name != "posix":
            raise FederationError(
                "A rehearsal needs process groups, which this system does not have. Run it on Linux, macOS or WSL."
            )
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._watchdog = subprocess.Popen(
            [sys.executable, "-I", "-S", watchdog.__file__, str(folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,  # so that Ctrl-C at the terminal does not end it
        )

    def start(
        self, name: str, command: Sequence[str], *, environment: Mapping[str, str], folder: Path, log: Path
    ) -> None:
        """Start a process; its output is added to the log."""
        assert not self.is_running(name), f"{name} is running"
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                env=environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._tell(f"+{process.pid}")
        self._started[name] = process

    def is_running(self, name: str) -> bool:
        return name in self._started and self._started[name].poll() is None

    def exit_code(self, name: str) -> int | None:
        """None while it is running."""
        return self._started[name].poll()

    def pid(self, name: str) -> int:
        return self._started[name].pid

    def kill(self, name: str) -> None:
        """End a process and its children at once, as a power cut would."""
        self._end_group(name)

    def stop(self, *names: str, patience: float = _PATIENCE) -> None:
        """Ask processes to end, all at the same time, and kill those that do not."""
        known = [name for name in names if name in self._started]
        for name in known:
            if self.is_running(name):
                self._started[name].terminate()
        deadline = time.monotonic() + patience
        for name in known:
            with suppress(subprocess.TimeoutExpired):
                self._started[name].wait(max(0.0, deadline - time.monotonic()))
            self._end_group(name)

    def close(self) -> None:
        """End the remaining processes, and finally the watchdog, which removes the folder."""
        for name in list(self._started):
            self._end_group(name)
        assert self._watchdog.stdin is not None
        with suppress(BrokenPipeError):
            self._watchdog.stdin.close()
        self._watchdog.wait()

    def _end_group(self, name: str) -> None:
        process = self._started.pop(name, None)
        if process is None:
            return
        with suppress(ProcessLookupError, PermissionError):  # macOS raises the second where Linux raises the first
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self._tell(f"-{process.pid}")

    def _tell(self, line: str) -> None:
        assert self._watchdog.stdin is not None
        with suppress(BrokenPipeError):  # somebody ended the watchdog; this process cleans up
            self._watchdog.stdin.write(f"{line}\n".encode())
            self._watchdog.stdin.flush()
