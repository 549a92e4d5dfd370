"""A federation on one machine, with everything that Flower would do between machines.

A SuperLink with TLS that knows its SuperNodes by their keys, a SuperNode for each member, the app sent to all: real
processes, on the loopback alone. Whatever happens, none of them is left behind.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import ssl
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from commonweal.atomic_write import make_results_folder
from commonweal.errors import InputError
from commonweal.flower.certificates import AUTHORITY, CERTIFICATE, KEY, make_certificates
from commonweal.flower.processes import Processes
from commonweal.flower.rehearsed_folder import APP, FEDERATION_FILE, RehearsedMember, copy_federation
from commonweal.flower.superlink_api import RunState, SuperLinkApi, wait_until

_HOST = "127.0.0.1"
_CONNECTION = "rehearsal"  # the SuperLink's name for `flwr run`
LOG, STATEMENTS = "log.txt", "statements"  # in a member's home
_START_LIMIT = 90.0  # seconds; a busy machine takes 20 for what an idle one does in 3
_SUPERLINK, _COORDINATOR, _RUN = "(SuperLink)", "(coordinator)", "(flwr run)"  # no member is called so


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """How a run of the app ended. `status`: completed, failed, stopped; timed out; not started."""

    status: str
    output: str  # what the coordinator said, and Flower about it
    details: str = ""

    @property
    def is_completed(self) -> bool:
        return self.status == "completed"


class Rehearsal:
    """The federation in `folder`, in a copy of it; logs of all processes are in `out`/logs.

    `with Rehearsal(...)` starts all of it and ends all of it. `warm` trades Flower's new Python for each message for
    forks (see `warm_executor`): the same result in less time.
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
        self._killed: set[str] = set()
        self._is_started = False
        self._api: SuperLinkApi | None = None
        self._reserved: list[socket.socket] = []
        self.work = Path(tempfile.mkdtemp(prefix="commonweal-rehearsal-"))
        try:
            self._members = {member.name: member for member in copy_federation(folder, self.work)}
            self._certificates = self.work / "certificates"
            make_certificates(self._certificates, ["localhost", _HOST])
            make_results_folder(self.out)
            (self.out / "logs").mkdir(exist_ok=True)
            self._processes = Processes(self.work)
        except BaseException:
            shutil.rmtree(self.work, ignore_errors=True)
            raise
        self._port = self._free_port()
        self._node_ports = {name: self._free_port() for name in self._members}
        self._superlink_log, self._coordinator_log, self._run_log = (
            self.out / "logs" / f"{what}.log" for what in ("superlink", "coordinator", "run")
        )
        self._member_logs = {name: self.out / "logs" / f"member-{name}.log" for name in self._members}
        self.logs = {
            "superlink": self._superlink_log,
            "coordinator": self._coordinator_log,
            "run": self._run_log,
            **self._member_logs,
        }
        for log in (self._superlink_log, self._coordinator_log, self._run_log, *self._member_logs.values()):
            log.unlink(missing_ok=True)

    @property
    def members(self) -> tuple[str, ...]:
        return tuple(self._members)

    def home(self, name: str) -> Path:
        """Where a member keeps its state, its log and its statements in this rehearsal."""
        return self._members[name].home

    def start(self) -> None:
        """Start the SuperLink and a SuperNode for each member, unless that was done."""
        if self._is_started:
            return
        self._is_started = True
        self._say(f"starting a SuperLink at {_HOST}:{self._port}, with TLS and SuperNode authentication")
        self._start_superlink()
        api = self._api = SuperLinkApi(f"{_HOST}:{self._port}", self._certificates / AUTHORITY)
        for name, member in self._members.items():
            self._node_ids[name] = api.register(name, member.private_key)
        self._say(f"starting {len(self._members)} SuperNodes: {', '.join(self._members)}")
        for name in self._members:
            self._start_supernode(name)
        for name in self._members:
            self._wait_for_node(name)

    def start_node(self, name: str) -> None:
        """Start a member's SuperNode again, after it was stopped or killed."""
        assert self._api is not None, "start() comes first"
        if name in self._killed:
            self._api.deactivate(self._node_ids[name], self._members[name].private_key)
            self._killed.discard(name)
        self._start_supernode(name)
        self._wait_for_node(name)

    def kill_node(self, name: str) -> None:
        """A power cut at a member's: its SuperNode is gone in the middle of its work, and tells nobody."""
        self._processes.kill(name)
        self._killed.add(name)

    def stop_node(self, name: str) -> None:
        """A member shuts its SuperNode down, which takes its leave of the SuperLink."""
        self._processes.stop(name)

    def run_app(
        self, *, timeout: float | None = None, show: Callable[[str], None] = lambda line: None, **run_config: object
    ) -> RunOutcome:
        """Send the app to all and wait for its end; `show` gets the lines of its log as they come.

        Keys of the app's configuration called federation, out and keys are set to those of the rehearsal unless
        given. A run that takes longer than `timeout` seconds is stopped.
        """
        assert self._api is not None, "start() comes first"
        log = self._run_log
        start = log.stat().st_size if log.exists() else 0
        settings = self._write_run_config(run_config)
        self._start_process(
            _RUN, ["flwr", "run", str(self.work / APP), _CONNECTION, "--stream", "--run-config", str(settings)], log
        )
        deadline = None if timeout is None else time.monotonic() + timeout
        is_late = False
        shown = 0
        while True:
            is_over = not self._processes.is_running(_RUN)
            output = log.read_bytes()[start:].decode(errors="replace")
            lines = output.split("\n")[:-1]
            for line in lines[shown:]:
                show(line)
            shown = len(lines)
            is_late = deadline is not None and time.monotonic() > deadline
            if is_over or is_late:
                break
            time.sleep(0.1)
        self._processes.kill(_RUN)
        found = re.search(r"Successfully started run (\d+)", output)
        if found is None:
            return RunOutcome(status="timed out" if is_late else "not started", output=output)
        run_id = int(found[1])
        if is_late:
            self._api.stop_run(run_id)
            return RunOutcome(status="timed out", output=output, details=f"after {timeout:g} s")
        state = self._final_state(self._api, run_id)
        return RunOutcome(status=state.outcome or state.status, output=output, details=state.details)

    def keep_papers(self) -> None:
        """Copy what members would keep, their logs and signed statements, to `out`/members before it all goes."""
        for name, member in self._members.items():
            kept = self.out / "members" / name
            kept.mkdir(parents=True, exist_ok=True)
            if (member.home / LOG).is_file():
                shutil.copyfile(member.home / LOG, kept / LOG)
            if (member.home / STATEMENTS).is_dir():
                shutil.copytree(member.home / STATEMENTS, kept / STATEMENTS, dirs_exist_ok=True)

    def close(self) -> None:
        """End everything, SuperNodes first so that they can take their leave, and remove the copy."""
        try:
            self._processes.stop(_RUN, *self._members)
            if self._api is not None:
                self._api.close()
                self._api = None
            self._processes.stop(_COORDINATOR, _SUPERLINK)
        finally:
            self._processes.close()
            for reserved in self._reserved:
                reserved.close()
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

    def _start_superlink(self) -> None:
        secret = self.work / "superexec-secret"  # so that only our own process is given the coordinator's work
        secret.touch(mode=0o600)
        secret.write_bytes(secrets.token_bytes(32))
        authority = self._certificates / AUTHORITY
        self._start_process(
            _SUPERLINK,
            [
                "flower-superlink", "--host", _HOST, "--port", str(self._port),
                "--ssl-ca-certfile", str(authority),
                "--ssl-certfile", str(self._certificates / CERTIFICATE),
                "--ssl-keyfile", str(self._certificates / KEY),
                "--enable-supernode-auth", "--disable-runtime-dependency-installation",
                "--isolation", "process", "--superexec-auth-secret-file", str(secret),
            ],
            self._superlink_log,
        )  # fmt: skip
        self._wait("the SuperLink", _SUPERLINK, self._superlink_log, self._is_listening)
        # Flower's SuperLink would start this one in a session of its own, out of reach should the SuperLink be killed.
        self._start_process(
            _COORDINATOR,
            [
                "flower-superexec", "--runtime-api-address", f"{_HOST}:{self._port}",
                "--root-certificates", str(authority), "--superexec-auth-secret-file", str(secret),
                "--parent-pid", str(self._processes.pid(_SUPERLINK)),
            ],
            self._coordinator_log,
        )  # fmt: skip
        connection = self._flower_home(_RUN) / "config.toml"
        connection.write_text(
            f'[superlink]\ndefault = "{_CONNECTION}"\n\n[superlink.{_CONNECTION}]\n'
            f'address = "{_HOST}:{self._port}"\nroot-certificates = {json.dumps(str(authority), ensure_ascii=False)}\n',
            encoding="utf-8",
        )

    def _start_supernode(self, name: str) -> None:
        member = self._members[name]
        program = [sys.executable, "-m", "commonweal.flower.warm_executor"] if self._warm else ["flower-supernode"]
        self._start_process(
            name,
            [
                *program, "--superlink", f"{_HOST}:{self._port}",
                "--root-certificates", str(self._certificates / AUTHORITY),
                "--auth-supernode-private-key", str(member.private_key),
                "--host", _HOST, "--port", str(self._node_ports[name]),
                "--node-config", str(self._write_node_config(member)),
            ],
            self._member_logs[name],
        )  # fmt: skip

    def _wait_for_node(self, name: str) -> None:
        api, node_id = self._api, self._node_ids[name]
        assert api is not None, "start() comes first"
        self._wait(f"the SuperNode of {name!r}", name, self._member_logs[name], lambda: node_id in api.online())

    def _wait(self, what: str, process: str, log: Path, is_there: Callable[[], bool]) -> None:
        wait_until(lambda: not self._processes.is_running(process) or is_there(), _START_LIMIT)
        if not self._processes.is_running(process) or not is_there():
            code = self._processes.exit_code(process)
            happened = f"none after {_START_LIMIT:g} s" if code is None else f"its exit code {code}"
            raise InputError(f"{what} must start, got {happened}; {log} says why: {last_lines(log, 3)}")

    def _is_listening(self) -> bool:
        context = ssl.create_default_context(cafile=self._certificates / AUTHORITY)
        try:
            with (
                socket.create_connection((_HOST, self._port), timeout=2) as plain,
                context.wrap_socket(plain, server_hostname=_HOST),
            ):
                return True
        except OSError:
            return False

    def _start_process(self, name: str, command: list[str], log: Path) -> None:
        programs = Path(sys.executable).parent
        program = programs / command[0]
        if not Path(command[0]).is_absolute() and not program.exists():
            raise InputError(
                f"a rehearsal needs Flower beside Python, got no {str(program)!r}; pip install 'commonweal[flower]'"
            )
        environment = {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', '')}",  # where Flower looks for its parts
            "FLWR_HOME": str(self._flower_home(name)),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
            "OMP_NUM_THREADS": "1",  # all members share the cores of one machine
            "PYTHONUNBUFFERED": "1",
        }
        self._processes.start(
            name, [str(programs / command[0]), *command[1:]], environment=environment, folder=self.work, log=log
        )

    def _flower_home(self, name: str) -> Path:
        home = self.work / "flower" / name
        home.mkdir(parents=True, exist_ok=True)
        return home

    def _write_node_config(self, member: RehearsedMember) -> Path:
        return _write_settings(self._flower_home(member.name) / "node.toml", {"member": str(member.file)})

    def _write_run_config(self, given: Mapping[str, object]) -> Path:
        app = tomllib.loads((self.work / APP / "pyproject.toml").read_text(encoding="utf-8"))
        known = app.get("tool", {}).get("flwr", {}).get("app", {}).get("config", {})
        own = {
            "federation": str(self.work / FEDERATION_FILE),
            "out": str(self.out),
            "keys": "" if self._keys is None else str(self._keys.absolute()),
        }
        return _write_settings(
            self._flower_home(_RUN) / "run.toml", {key: own[key] for key in own if key in known} | dict(given)
        )

    def _final_state(self, api: SuperLinkApi, run_id: int) -> RunState:
        """The log ends a moment before the run does."""
        wait_until(lambda: api.run_state(run_id).status == "finished", 20.0)
        return api.run_state(run_id)

    def _free_port(self) -> int:
        """A port for a process that is yet to start: on Linux nobody else is given it, since we are bound to it."""
        reserved = socket.socket()
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind((_HOST, 0))
        port = int(reserved.getsockname()[1])
        if sys.platform == "linux":
            self._reserved.append(reserved)
        else:
            reserved.close()
        return port


def last_lines(log: Path, count: int) -> str:
    """The end of a log without its colours and empty lines."""
    if not log.exists():
        return ""
    text = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text(encoding="utf-8", errors="replace"))
    return "\n".join([line for line in text.splitlines() if line.strip()][-count:])


def _write_settings(file: Path, settings: Mapping[str, object]) -> Path:
    """As a file rather than on the command line, where Flower cannot take every path. JSON's values are TOML's too."""
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in settings.items()]
    file.write_text("".join(lines), encoding="utf-8")
    return file
