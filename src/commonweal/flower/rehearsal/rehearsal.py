"""A federation on one machine, with everything that Flower would do between machines.

A SuperLink with TLS that knows its SuperNodes by their keys, nginx in front of it, one SuperNode per member, and the
app sent to all: real processes, on the loopback interface only. However a rehearsal ends, none of them keeps running.
"""

from __future__ import annotations

import re
import shutil
import socket
import ssl
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from commonweal.atomic_write import make_results_folder
from commonweal.errors import FederationError
from commonweal.flower.rehearsal.flower_programs import (
    COORDINATOR,
    LOOPBACK,
    PROXY,
    RUN,
    SUPERLINK,
    FlowerPrograms,
    FreePorts,
)
from commonweal.flower.rehearsal.processes import Processes
from commonweal.flower.rehearsal.rehearsed_folder import APP, FEDERATION_FILE, copy_federation
from commonweal.flower.rehearsal.superlink_api import SuperLinkApi, wait_until
from commonweal.remote.member.store import ERROR, LOG, STATEMENTS

_START_LIMIT = 90.0  # seconds; an idle machine takes 3, a busy one 20
_END_LIMIT = 20.0  # between the end of a run's log and the end of the run


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """How a run of the app ended.

    `status`: completed, failed, stopped, timed out, not started, or member failed with the member's error as `details`.
    """

    status: str
    output: str  # of the coordinator and of Flower
    details: str = ""

    @property
    def is_completed(self) -> bool:
        return self.status == "completed"


class Rehearsal:
    """Runs a copy of the federation in `folder`; the logs of all processes are in `out`/logs.

    `with Rehearsal(...)` starts everything and stops everything. With `warm`, each message is handled in a fork,
    not in a new Python process as in Flower (see `warm_executor`): the same result in less time.
    """

    def __init__(
        self,
        folder: Path,
        out: Path,
        *,
        keys: Path | None = None,
        warm: bool = False,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.out = out.absolute()
        self._keys = keys
        self._warm = warm
        self._say = say
        self._node_ids: dict[str, int] = {}
        self._is_started = False
        self._api: SuperLinkApi | None = None
        with ExitStack() as undone:
            self.work = Path(tempfile.mkdtemp(prefix="commonweal-rehearsal-"))
            undone.callback(shutil.rmtree, self.work, ignore_errors=True)
            self._members = {member.name: member for member in copy_federation(folder, self.work)}
            self.logs = self._make_logs()
            self._ports = FreePorts()
            undone.callback(self._ports.release)
            self._processes = Processes(self.work)
            undone.callback(self._processes.close)
            self._programs = FlowerPrograms(self.work, self._processes, self._ports)
            undone.pop_all()

    @property
    def members(self) -> tuple[str, ...]:
        return tuple(self._members)

    def home(self, name: str) -> Path:
        """The folder with a member's state, log and statements in this rehearsal."""
        return self._members[name].home

    def start(self) -> None:
        """Start the SuperLink and one SuperNode per member, unless they are running."""
        if self._is_started:
            return
        self._is_started = True
        self._say(f"Starting a SuperLink at {self._programs.address}, with TLS and SuperNode authentication.")
        self._programs.start_superlink(self.logs[SUPERLINK])
        self._wait("The SuperLink", SUPERLINK, lambda: self._is_listening(self._programs.port))
        self._start_proxy()
        self._programs.start_coordinator(self.logs[COORDINATOR])
        api = self._api = SuperLinkApi(self._programs.address, self._programs.authority)
        for name, member in self._members.items():
            self._node_ids[name] = api.register(name, member.private_key)
        self._say(f"Starting {len(self._members)} SuperNodes: {', '.join(self._members)}.")
        for name in self._members:
            self._start_supernode(name)
        for name in self._members:
            self._wait_for_node(name)

    def start_node(self, name: str) -> None:
        """Start a member's SuperNode again. After a kill, the SuperLink refuses it for about a minute."""
        self._start_supernode(name)
        self._wait_for_node(name)

    def kill_node(self, name: str) -> None:
        """Kill a member's SuperNode without notice, as a power cut would."""
        self._processes.kill(name)

    def stop_node(self, name: str) -> None:
        """Shut a member's SuperNode down; it signs off from the SuperLink."""
        self._processes.stop(name)

    def run_app(
        self,
        *,
        timeout: float | None = None,
        show: Callable[[str], None] = lambda line: None,
        stop_at_errors: bool = False,
        **run_config: object,
    ) -> RunOutcome:
        """Send the app to all members and wait until it ends; `show` gets the lines of its log as they arrive.

        `federation`, `out` and `keys` in the app's configuration are set to those of the rehearsal unless given. A run
        that takes longer than `timeout` seconds is stopped; with `stop_at_errors`, so is one in which a member fails.
        Between machines its error would be in its own log only, but here all logs are at hand.
        """
        api = self._started_api()
        log = self.logs[RUN]
        start = log.stat().st_size
        known = self._member_errors()
        self._programs.start_run(self.work / APP, self._run_config(run_config), log)
        try:
            output, is_late = self._follow(
                log, start, timeout, show, lambda: stop_at_errors and self._member_errors() != known
            )
        finally:
            self._processes.kill(RUN)
        found = re.search(r"Successfully started run (\d+)", output)
        if found is None:
            return RunOutcome(status="timed out" if is_late else "not started", output=output)
        run_id = int(found[1])
        errors = [error for error in self._member_errors() if error not in known] if stop_at_errors else []
        if errors:
            api.stop_run(run_id)
            return RunOutcome(status="member failed", output=output, details=errors[0])
        if is_late:
            api.stop_run(run_id)
            return RunOutcome(status="timed out", output=output, details=f"after {timeout:g} s")
        wait_until(lambda: api.run_state(run_id).status == "finished", _END_LIMIT)  # it ends shortly after its log
        state = api.run_state(run_id)
        return RunOutcome(status=state.outcome or state.status, output=output, details=state.details)

    def keep_member_files(self) -> None:
        """Copy the members' logs and signed statements to `out`/members, before the copy is removed."""
        for name, member in self._members.items():
            kept = self.out / "members" / name
            kept.mkdir(parents=True, exist_ok=True)
            if (member.home / LOG).is_file():
                shutil.copyfile(member.home / LOG, kept / LOG)
            if (member.home / STATEMENTS).is_dir():
                shutil.copytree(member.home / STATEMENTS, kept / STATEMENTS, dirs_exist_ok=True)

    def close(self) -> None:
        """Stop everything, SuperNodes first so that they can sign off, and remove the copy."""
        try:
            self._processes.stop(RUN, *self._members)
            if self._api is not None:
                self._api.close()  # a SuperLink waits for its last connection
            self._processes.stop(COORDINATOR, PROXY, SUPERLINK)
        finally:
            self._processes.close()
            self._ports.release()
            shutil.rmtree(self.work, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _make_logs(self) -> dict[str, Path]:
        """An empty log per process: members by their names, and (superlink), (proxy), (coordinator), (run)."""
        make_results_folder(self.out)
        folder = self.out / "logs"
        folder.mkdir(exist_ok=True)
        logs = {name: folder / f"member-{name}.log" for name in self._members}
        logs |= {name: folder / f"{name.strip('()')}.log" for name in (SUPERLINK, PROXY, COORDINATOR, RUN)}
        for log in logs.values():
            log.write_bytes(b"")
        return logs

    def _started_api(self) -> SuperLinkApi:
        assert self._api is not None, "call start() first"
        return self._api

    def _start_proxy(self) -> None:
        if not self._programs.has_proxy:
            self._say(
                "nginx is not installed, so members connect to the SuperLink directly, on the loopback interface only. "
                "Between machines you need it: apt-get install nginx"
            )
            return
        self._say(f"Starting nginx at {self._programs.members_address}, which lets only members' requests through.")
        self._programs.start_proxy(self.logs[PROXY])
        self._wait("nginx", PROXY, lambda: self._is_listening(self._programs.members_port))

    def _start_supernode(self, name: str) -> None:
        self._programs.start_supernode(self._members[name], self.logs[name], warm=self._warm)

    def _wait_for_node(self, name: str) -> None:
        api, node_id = self._started_api(), self._node_ids[name]
        self._wait(f"The SuperNode of {name!r}", name, lambda: node_id in api.online())

    def _wait(self, what: str, process: str, is_there: Callable[[], bool]) -> None:
        wait_until(lambda: not self._processes.is_running(process) or is_there(), _START_LIMIT)
        if not self._processes.is_running(process) or not is_there():
            code = self._processes.exit_code(process)
            happened = f"was not ready after {_START_LIMIT:g} s" if code is None else f"ended with exit code {code}"
            log = self.logs[process]
            raise FederationError(f"{what} {happened}: {_last_lines(log, 3)}. See {log}.")

    def _is_listening(self, port: int) -> bool:
        context = ssl.create_default_context(cafile=self._programs.authority)
        try:
            with (
                socket.create_connection((LOOPBACK, port), timeout=2) as plain,
                context.wrap_socket(plain, server_hostname=LOOPBACK),
            ):
                return True
        except OSError:
            return False

    def _run_config(self, given: Mapping[str, object]) -> dict[str, object]:
        app = tomllib.loads((self.work / APP / "pyproject.toml").read_text(encoding="utf-8"))
        known = app.get("tool", {}).get("flwr", {}).get("app", {}).get("config", {})
        own = {
            "federation": str(self.work / FEDERATION_FILE),
            "out": str(self.out),
            "keys": "" if self._keys is None else str(self._keys.absolute()),
        }
        return {key: value for key, value in own.items() if key in known} | dict(given)

    def _member_errors(self) -> list[str]:
        """What members have logged as errors."""
        logs = [member.home / LOG for member in self._members.values()]
        lines = [line for log in logs if log.is_file() for line in log.read_text(encoding="utf-8").splitlines()]
        parts = [line.split(" ", 2) for line in lines]  # its time, its kind if it tells of an error, and the sentence
        return [part[2] for part in parts if len(part) == 3 and part[1] == ERROR]

    def _follow(
        self,
        log: Path,
        start: int,
        timeout: float | None,
        show: Callable[[str], None],
        is_failed: Callable[[], bool],
    ) -> tuple[str, bool]:
        """The output until the run's command ends or a member fails, and whether time ran out before."""
        deadline = None if timeout is None else time.monotonic() + timeout
        shown = 0
        while True:
            is_over = is_failed() or not self._processes.is_running(RUN)
            output = log.read_bytes()[start:].decode(errors="replace")
            lines = output.split("\n")
            for line in lines[shown:-1]:
                show(line)
            shown = len(lines) - 1
            is_late = deadline is not None and time.monotonic() > deadline
            if is_over or is_late:
                return output, is_late and not is_over
            time.sleep(0.1)


def _last_lines(log: Path, count: int) -> str:
    """The last lines of a log, without colours and empty lines."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text(encoding="utf-8", errors="replace"))
    return " / ".join([line.strip() for line in text.splitlines() if line.strip()][-count:])
