"""Flower's programs for one federation on the loopback interface: their commands, ports and environments."""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from commonweal.errors import StorageError
from commonweal.flower.rehearsal.processes import Processes
from commonweal.flower.rehearsal.rehearsed_folder import RehearsedMember
from commonweal.flower.starting.certificates import AUTHORITY, CERTIFICATE, KEY, make_certificates
from commonweal.flower.starting.proxy import CONFIGURATION, find_nginx, proxy_command, proxy_configuration

LOOPBACK = "127.0.0.1"
SUPERLINK, PROXY, COORDINATOR, RUN = "(superlink)", "(proxy)", "(coordinator)", "(run)"  # others are called as members
_CONNECTION = "rehearsal"  # the name of the SuperLink for `flwr run`
_ENVIRONMENT = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
    "OMP_NUM_THREADS": "1",  # all members share the cores of one machine
    "PYTHONUNBUFFERED": "1",
}


class FreePorts:
    """Ports of this machine, reserved until they are released.

    On Linux a bound socket reserves a port, while a server that asks to reuse the address, as Flower's do, can still
    listen there. On other systems it cannot, so a port is only known to have been free a moment ago.
    """

    def __init__(self) -> None:
        self._bound: list[socket.socket] = []

    def next(self) -> int:
        bound = socket.socket()
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((LOOPBACK, 0))
        port = int(bound.getsockname()[1])
        if sys.platform == "linux":
            self._bound.append(bound)
        else:
            bound.close()
        return port

    def release(self) -> None:
        while self._bound:
            self._bound.pop().close()


class FlowerPrograms:
    """Starts Flower's programs in `folder`, each with its own FLWR_HOME there.

    Members connect to `members_address`: that of nginx or, where it is not installed, of the SuperLink.
    """

    def __init__(self, folder: Path, processes: Processes, ports: FreePorts) -> None:
        self._folder = folder
        self._processes = processes
        self._ports = ports
        self._node_ports: dict[str, int] = {}
        self.port = self.members_port = ports.next()
        self.has_proxy = find_nginx() is not None
        files = {}
        if self.has_proxy:
            self.members_port = ports.next()
            files[CONFIGURATION] = proxy_configuration(self.members_port, self.port, address=LOOPBACK)
        self.address, self.members_address = f"{LOOPBACK}:{self.port}", f"{LOOPBACK}:{self.members_port}"
        self._certificates = certificates = folder / "certificates"
        make_certificates(certificates, [LOOPBACK], files=files)
        self.authority, self._certificate, self._key = (certificates / name for name in (AUTHORITY, CERTIFICATE, KEY))
        self._secret = folder / "superexec-secret"  # so that no other process can run the coordinator
        self._secret.touch(mode=0o600)
        self._secret.write_bytes(secrets.token_bytes(32))

    def start_superlink(self, log: Path) -> None:
        self._start(
            SUPERLINK,
            [
                "flower-superlink", "--host", LOOPBACK, "--port", str(self.port),
                "--ssl-ca-certfile", str(self.authority),
                "--ssl-certfile", str(self._certificate), "--ssl-keyfile", str(self._key),
                "--enable-supernode-auth", "--disable-runtime-dependency-installation",
                "--isolation", "process", "--superexec-auth-secret-file", str(self._secret),
            ],
            log,
        )  # fmt: skip

    def start_proxy(self, log: Path) -> None:
        self._start(PROXY, proxy_command(self._certificates), log)

    def start_coordinator(self, log: Path) -> None:
        """The program that starts the ServerApp.

        The SuperLink could start it, but in a session of its own, outside the process group that a rehearsal ends.
        """
        self._start(
            COORDINATOR,
            [
                "flower-superexec", "--runtime-api-address", self.address, "--root-certificates", str(self.authority),
                "--superexec-auth-secret-file", str(self._secret),
                "--parent-pid", str(self._processes.pid(SUPERLINK)),
            ],
            log,
        )  # fmt: skip

    def start_supernode(self, member: RehearsedMember, log: Path, *, warm: bool) -> None:
        """A member's SuperNode; it gets the same port every time."""
        port = self._node_ports.get(member.name) or self._node_ports.setdefault(member.name, self._ports.next())
        settings = _write_settings(self._home(member.name) / "node.toml", {"member": str(member.file)})
        program = [sys.executable, "-m", "commonweal.flower.rehearsal.warm_executor"] if warm else ["flower-supernode"]
        self._start(
            member.name,
            [
                *program, "--superlink", self.members_address, "--root-certificates", str(self.authority),
                "--auth-supernode-private-key", str(member.private_key),
                "--host", LOOPBACK, "--port", str(port), "--node-config", str(settings),
            ],
            log,
        )  # fmt: skip

    def start_run(self, app: Path, run_config: Mapping[str, object], log: Path) -> None:
        """`flwr run`, which ends with the app's log."""
        settings = _write_settings(self._home(RUN) / "run.toml", run_config)
        (self._home(RUN) / "config.toml").write_text(
            f'[superlink]\ndefault = "{_CONNECTION}"\n\n[superlink.{_CONNECTION}]\naddress = "{self.address}"\n'
            f"root-certificates = {json.dumps(str(self.authority), ensure_ascii=False)}\n",
            encoding="utf-8",
        )
        self._start(RUN, ["flwr", "run", str(app), _CONNECTION, "--stream", "--run-config", str(settings)], log)

    def _start(self, name: str, command: list[str], log: Path) -> None:
        programs = Path(sys.executable).parent
        program = programs / command[0]  # an absolute path stays as it is
        if not program.exists():
            raise StorageError(
                f"Cannot find {program}, which a rehearsal needs. Run pip install 'commonweal[flower]' in this "
                "environment."
            )
        environment = {
            **os.environ,
            **_ENVIRONMENT,
            "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', '')}",  # where Flower looks for its parts
            "FLWR_HOME": str(self._home(name)),
        }
        self._processes.start(name, [str(program), *command[1:]], environment=environment, folder=self._folder, log=log)

    def _home(self, name: str) -> Path:
        home = self._folder / "flower" / name
        home.mkdir(parents=True, exist_ok=True)
        return home


def _write_settings(file: Path, settings: Mapping[str, object]) -> Path:
    """Settings as a TOML file, since Flower's command line cannot take every path. JSON values are valid in TOML."""
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in settings.items()]
    file.write_text("".join(lines), encoding="utf-8")
    return file
