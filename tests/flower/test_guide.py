"""The operator's guide, followed to the letter: what it tells each machine to type is typed, on the loopback."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.flower.test_rehearsal import LIMIT

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "federation.md"
BLOCK = re.compile(r"^```(sh|toml) (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVERS = ("flower-superlink", "nginx", "flower-supernode")

pytestmark = [pytest.mark.soak, pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")]


class Machines:
    """Three machines in three folders; what they type, and what they keep running."""

    def __init__(self, folder):
        self.folder = folder
        self.running = {}
        with ExitStack() as bound:
            sockets = {name: bound.enter_context(socket.socket()) for name in ("8000", "8001", "north", "south")}
            for each in sockets.values():
                each.bind(("127.0.0.1", 0))
            self.ports = {name: each.getsockname()[1] for name, each in sockets.items()}
        for name in ("operator", "north", "south"):
            (folder / name / "flwr").mkdir(parents=True)

    def here(self, text):
        """The text, with the addresses and folders of several machines replaced by those of this one."""
        ports = f"--port {self.ports['8000']} --superlink-port {self.ports['8001']}"
        text = text.replace("--host federation.example.org", f"--host federation.example.org {ports}")
        text = re.sub(r"\b800[01]\b", lambda found: str(self.ports[found[0]]), text)
        text = text.replace("federation.example.org", "127.0.0.1")
        return re.sub(r"/home/(operator|north|south)", lambda found: str(self.folder / found[1]), text)

    def type(self, machine, block):
        command = self.here(block)
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "FLWR_HOME": str(self.folder / machine / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "COMMONWEAL_KEYS": str(self.folder / "operator" / "signing"),
        }
        place = {"cwd": self.folder / machine, "env": environment, "stdin": subprocess.DEVNULL}
        if not command.startswith(SERVERS):
            done = subprocess.run(
                ["bash", "-ec", command], **place, capture_output=True, text=True, timeout=900, check=False
            )
            assert done.returncode == 0, f"{machine}: {command}\n{done.stdout}{done.stderr}"
            return done.stdout
        if command.startswith("flower-supernode"):
            command = command.rstrip() + f" --host 127.0.0.1 --port {self.ports[machine]}"
        with (self.folder / f"{machine}.log").open("ab") as log:
            self.running[f"{machine} {command.split()[0]}"] = subprocess.Popen(
                ["bash", "-ec", f"exec {command}"], **place, stdout=log, stderr=log, start_new_session=True
            )
        return ""

    def wait_for(self, port):
        trusted = ssl.create_default_context(cafile=self.folder / "operator" / "certificates" / "ca.pem")
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", self.ports[port]), 2) as raw:
                    trusted.wrap_socket(raw, server_hostname="127.0.0.1").close()
                return
            except OSError:
                time.sleep(0.2)
        pytest.fail((self.folder / "operator.log").read_text())

    def close(self):
        for name in sorted(self.running, key=lambda name: name.startswith("operator")):
            process = self.running[name]
            process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def machines(tmp_path):
    machines = Machines(tmp_path)
    yield machines
    machines.close()


def test_the_guide_leads_to_a_federation(machines):
    blocks = BLOCK.findall(GUIDE.read_text())
    assert [name for _, name, _ in blocks].count("operator") >= 6
    said = []
    for kind, name, body in blocks:
        if kind == "toml":
            (machines.folder / "operator" / "flwr" / name).write_text(machines.here(body))
            continue
        if "federation.toml <<" in body:  # by now the public keys have reached the operator
            keys = machines.folder / "operator" / "consortium" / "keys"
            keys.mkdir()
            for member in ("north", "south"):
                shutil.copyfile(machines.folder / member / member / "node-key.pub", keys / f"{member}.pub")
        if body.startswith("echo 'data ="):  # members have their own data
            source = machines.folder / "operator" / "consortium" / "members" / name / "data.csv"
            shutil.copyfile(source, machines.folder / name / "patients.csv")
        if body.startswith("flower-supernode"):  # and the authority's certificate every member
            shutil.copyfile(machines.folder / "operator" / "certificates" / "ca.pem", machines.folder / name / "ca.pem")
        said.append(machines.type(name, body))
        if body.startswith(("flower-superlink", "nginx")):
            machines.wait_for("8000" if body.startswith("nginx") else "8001")
    history = json.loads((machines.folder / "operator" / "out" / "history.json").read_text())
    assert [held["absent"] for held in history["rounds"]] == [[], []], (machines.folder / "north.log").read_text()
    assert history["clients"] == ["north", "south"]
    assert (machines.folder / "operator" / "out" / "report.html").exists()
    assert said[-1].startswith("sound: ") or "\nsound: " in said[-1]
    for member in ("north", "south"):
        statements = machines.folder / member / member / "home" / "statements"
        assert len(list(statements.iterdir())) == 2
