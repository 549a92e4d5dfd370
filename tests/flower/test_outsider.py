"""An outsider who has the CA file and can reach the machine, against the printed commands, run as they are printed.

Flower's control API asks for no login: whoever reaches it lists runs, registers keys and starts apps, which run on the
coordinator and at every member. Only the ports are changed here, so that tests can run side by side.
"""

from __future__ import annotations

import http.client
import os
import re
import shlex
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import httpx
import pytest
from flwr.proto.control_pb2 import ListRunsRequest, RegisterNodeRequest, StartRunRequest, StopRunRequest
from flwr.proto.fab_pb2 import Fab
from flwr.proto.fleet_pb2 import ActivateNodeRequest, DeactivateNodeRequest, PullMessagesRequest
from flwr.proto.message_pb2 import PushObjectRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supernode import fleet_http_client

from commonweal.flower.starting import proxy
from commonweal.ledger.node_keys import NodeKey
from tests.flower.fleet import fleet_client
from tests.flower.tiny_federation import write_tiny_federation

ELSEWHERE = "127.0.0.2"  # another address of this machine, as its address in a network would be

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(proxy.find_nginx() is None, reason="nginx is not installed"),
    pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning"),  # Flower's own affair
    pytest.mark.skipif(sys.platform != "linux", reason=f"{ELSEWHERE} is not an address of this machine"),
]


class Deployment:
    """The commands that `commonweal flower certificates` prints, running in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log.txt"
        self._processes: list[subprocess.Popen[bytes]] = []
        ports = {"8000": _free_port(), "8001": _free_port()}
        program = str(Path(sys.executable).with_name("commonweal"))
        said = subprocess.run(
            [program, "flower", "certificates", "tls", "--host", ELSEWHERE],
            cwd=folder, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        commands = [shlex.split(line) for line in said.replace("\\\n", " ").splitlines() if line.startswith("  ")]
        self._commands = [[str(ports.get(word, word)) for word in command] for command in commands]
        (superlink,) = (command for command in self._commands if command[0] == "flower-superlink")
        self.superlink_port = int(superlink[superlink.index("--port") + 1])
        self.members_port = ports["8000"]
        written = folder / "tls" / "nginx.conf"
        if written.exists():
            text = re.sub(r":(8000|8001)\b", lambda found: f":{ports[found[1]]}", written.read_text())
            written.write_text(text)
        self.authority = folder / "tls" / "ca.pem"

    def start(self) -> None:
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "FLWR_HOME": str(self.folder / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
        }
        with self.log.open("wb") as log:
            for command in self._commands:
                self._processes.append(
                    subprocess.Popen(
                        command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                        start_new_session=True,
                    )
                )  # fmt: skip
        for port in {self.superlink_port, self.members_port}:
            self._wait_for(port)

    def _wait_for(self, port: int) -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and all(process.poll() is None for process in self._processes):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=2):
                return
            time.sleep(0.1)
        pytest.fail(self.log.read_text())

    def close(self) -> None:
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def control(self, address: str) -> closing[ControlHttpClient]:
        """What Flower's own command speaks with."""
        return closing(
            ControlHttpClient.from_server_address(
                address,
                insecure=False,
                root_certificates=self.authority.read_bytes(),
                interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr CLI")],
            )
        )

    def connection(self) -> http.client.HTTPSConnection:
        """To the members' port; paths are sent as they are given."""
        trusted = ssl.create_default_context(cafile=self.authority)
        return http.client.HTTPSConnection(ELSEWHERE, self.members_port, context=trusted, timeout=20)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    deployment = Deployment(tmp_path_factory.mktemp("deployment"))
    try:
        deployment.start()
        yield deployment
    finally:
        deployment.close()


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    """An app, as `flwr run` would send it, with a signature that somebody claims to have made."""
    from flwr.cli.build import build_fab_from_disk

    folder = write_tiny_federation(tmp_path_factory.mktemp("app") / "tiny")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path])  # Flower adds the app's folder
        content = build_fab_from_disk(folder / "app")
    return Fab(content=content, verifications={"valid_license": "Valid", "fpk_somebody": "{}"})


def ways_in(app):
    """What the outsider would like to do."""
    public = public_key_to_bytes(NodeKey.new().private.public_key())
    return {
        "list runs": lambda control: control.ListRuns(ListRunsRequest()),
        "register a key": lambda control: control.RegisterNode(RegisterNodeRequest(public_key=public, name="x")),
        "start an app": lambda control: control.StartRun(StartRunRequest(fab=app)),
    }


@pytest.mark.parametrize("way", ["list runs", "register a key", "start an app"])
def test_an_outsider_cannot_get_in_by_the_members_port(deployment, app, way):
    with (
        deployment.control(f"{ELSEWHERE}:{deployment.members_port}") as outsider,
        pytest.raises(httpx.HTTPStatusError) as refused,
    ):
        ways_in(app)[way](outsider)
    assert refused.value.response.status_code == 403
    assert refused.value.response.json() == {"detail": proxy.REFUSAL}


@pytest.mark.parametrize("way", ["list runs", "register a key", "start an app"])
def test_nor_by_the_superlinks_own(deployment, app, way):
    with (
        deployment.control(f"{ELSEWHERE}:{deployment.superlink_port}") as outsider,
        pytest.raises(httpx.ConnectError, match="refused"),
    ):
        ways_in(app)[way](outsider)


def test_the_operator_can_do_all_that_on_the_machine_itself(deployment, app):
    """So the refusals above refuse what would have worked. And Flower drops signatures of a folder's app."""
    with deployment.control(f"127.0.0.1:{deployment.superlink_port}") as operator:
        done = {way: act(operator) for way, act in ways_in(app).items()}
        assert done["register a key"].node_id
        run = done["start an app"].run_id
        assert run in operator.ListRuns(ListRunsRequest()).run_dict
        operator.StopRun(StopRunRequest(run_id=run))
    with closing(sqlite3.connect(deployment.folder / "superlink.db")) as database:
        assert database.execute("SELECT verifications FROM fab").fetchall() == [("{}",)]


def test_flowers_own_command_says_why(deployment, tmp_path):
    (tmp_path / "config.toml").write_text(
        f'[superlink]\ndefault = "x"\n\n[superlink.x]\naddress = "{ELSEWHERE}:{deployment.members_port}"\n'
        f'root-certificates = "{deployment.authority}"\n'
    )
    environment = {**os.environ, "FLWR_HOME": str(tmp_path), "FLWR_TELEMETRY_ENABLED": "0"}
    done = subprocess.run(
        [str(Path(sys.executable).with_name("flwr")), "list", "x"],
        env={**environment, "FLWR_DISABLE_UPDATE_CHECK": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert proxy.REFUSAL in " ".join(re.sub(r"[│╭╮╰╯─]", " ", done.stdout + done.stderr).split())


@pytest.mark.parametrize(
    "path",
    ["/", "/docs", "/openapi.json", "/health", "/v1/control/list-runs", "/v1/runtime/acquire-task",
     "/v1/fleet/../control/list-runs", "/v1/fleet/%2e%2e/control/list-runs", "/v1/fleet/..%2fcontrol/list-runs",
     "/v1/fleet/get-run/../../control/list-runs", "//v1/control/list-runs", "/v1/control/list-runs/v1/fleet/get-run",
     "/v1/control/list-runs?/v1/fleet/get-run", "/v1/control/list-runs%3f/../../fleet/get-run/", "/v1/fleet/",
     "/v1/fleet/get-run/", "/v1/fleet/get-run%0a", "/v1/fleet/get-run%20HTTP/1.1%0d%0ax:", "/v1/fleet/unregister-node",
     "/V1/FLEET/get-run", "https://localhost/v1/control/list-runs", "/v1/fleet/get-run\\..\\..\\control/list-runs"],
)  # fmt: skip
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_other_paths_end_at_the_proxy(deployment, method, path):
    with closing(deployment.connection()) as outsider:
        outsider.request(method, path, body=b"" if method == "POST" else None)
        answer = outsider.getresponse()
        text = answer.read().decode()
    assert (answer.status, text) == (403, f'{{"detail": "{proxy.REFUSAL}"}}')


def test_a_request_hidden_in_another_is_not_passed_on(deployment):
    """Two lengths that contradict each other, as in request smuggling."""
    hidden = b"POST /v1/control/list-runs HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
    with closing(deployment.connection()) as outsider:
        outsider.connect()
        outsider.sock.sendall(
            b"POST /v1/fleet/get-run HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
            b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n%s" % (len(hidden) + 5, hidden)
        )
        assert outsider.sock.recv(100).startswith(b"HTTP/1.1 400 ")


def test_nothing_of_that_reaches_the_superlink(deployment):
    """By its own log of requests, which tells those that came through the proxy from the operator's."""
    for path in ("/v1/control/list-runs", "/v1/fleet/../control/list-runs", "/v1/fleet/get-run?control"):
        with closing(deployment.connection()) as outsider:
            outsider.request("POST", path, body=b"")
            outsider.getresponse().read()
    deadline = time.monotonic() + 20
    while not (reached := re.findall(r' \S+:0 - "[A-Z]+ (\S+) HTTP', deployment.log.read_text())):
        assert time.monotonic() < deadline, "the last one is passed on"
        time.sleep(0.1)
    assert set(reached) <= {f"/v1/fleet/{method}" for method in proxy.FLEET_METHODS}


@pytest.fixture
def registered(deployment):
    key = NodeKey.new()
    public = public_key_to_bytes(key.private.public_key())
    with deployment.control(f"127.0.0.1:{deployment.superlink_port}") as operator:
        node_id = operator.RegisterNode(RegisterNodeRequest(public_key=public, name="north")).node_id
    with closing(fleet_client(f"{ELSEWHERE}:{deployment.members_port}", deployment.authority, key)) as member:
        yield member, node_id, public


def test_a_member_gets_through(registered):
    member, node_id, public = registered
    assert member.ActivateNode(ActivateNodeRequest(public_key=public, heartbeat_interval=30)).node_id == node_id
    assert not member.PullMessages(PullMessagesRequest(node=Node(node_id=node_id))).messages_list
    member.DeactivateNode(DeactivateNodeRequest(node_id=node_id))


def test_a_part_of_a_model_gets_through_and_more_does_not(registered):
    member, node_id, _ = registered
    for mebibytes, status in ((5, 500), (9, 413)):  # Flower itself fails at the first, because there is no such run
        request = PushObjectRequest(
            node=Node(node_id=node_id), run_id=1, object_id="x", object_content=bytes(mebibytes << 20), session_id="x"
        )
        with pytest.raises(httpx.HTTPStatusError) as refused:
            member.PushObject(request)
        assert refused.value.response.status_code == status
        assert proxy.REFUSAL not in refused.value.response.text


def test_a_key_that_nobody_registered_does_not_get_through(deployment):
    key = NodeKey.new()
    public = public_key_to_bytes(key.private.public_key())
    with (
        closing(fleet_client(f"{ELSEWHERE}:{deployment.members_port}", deployment.authority, key)) as stranger,
        pytest.raises(httpx.HTTPStatusError, match="412 Precondition Failed"),
    ):
        stranger.ActivateNode(ActivateNodeRequest(public_key=public, heartbeat_interval=30))


def test_one_address_cannot_take_all_connections(deployment):
    """Requests whose content does not come: those above the limit are refused, and afterwards there is room again."""
    with ExitStack() as held:
        waiting = []
        for _ in range(proxy.CONNECTIONS_OF_ADDRESS):
            waiting.append(held.enter_context(closing(deployment.connection())))
            begin_request(waiting[-1])
        last = held.enter_context(closing(deployment.connection()))
        begin_request(last)
        assert last.getresponse().status == 503  # which SuperNodes try again
    with closing(deployment.connection()) as later:
        later.request("POST", "/v1/fleet/get-run", body=b"")
        assert later.getresponse().status != 503


def begin_request(connection):
    connection.putrequest("POST", "/v1/fleet/get-run")
    connection.putheader("Content-Length", "5")
    connection.endheaders()


def test_the_proxy_passes_on_what_a_registered_supernode_asks_for():
    """By the source of Flower's own client: all of it except registering oneself, which is the operator's to do."""
    asked = re.findall(r'path="/v1/fleet/([a-z-]+)"', Path(fleet_http_client.__file__).read_text())
    assert sorted(asked) == sorted([*proxy.FLEET_METHODS, "register-node", "unregister-node"])
