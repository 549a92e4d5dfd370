"""`commonweal flower`: what it writes can be used, and what it refuses leaves nothing behind."""

from __future__ import annotations

import compileall
import shlex
import stat
import sys
import tomllib

import pytest

from commonweal.flower.starting.new_federation import make_federation, package_name
from commonweal.ledger.node_keys import NodeKey, read_node_public_key
from commonweal.remote.coordinator.federation_file import read_federation
from commonweal.remote.member.member_file import read_member


def lines(done):
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(("options", "names"), [
    ([], ["north", "south", "east"]),
    (["--members", "7"], ["north", "south", "east", "west", "centre", "member-6", "member-7"]),
])  # fmt: skip
def test_a_new_federation(commonweal, tmp_path, options, names):
    said = lines(commonweal("flower", "new", "My first one", *options))
    folder = tmp_path / "My first one"
    assert said[0] == f"Created My first one with an app, federation.toml, and the members {', '.join(names)}."
    assert said[-1] == "  commonweal flower rehearse 'My first one'"
    assert "commonweal flower rehearse 'My first one'" in (folder / "README.md").read_text()

    federation = read_federation(folder / "federation.toml")
    assert federation.name == "My first one"
    assert list(federation.client_names) == names
    assert (federation.round_count, federation.learning.iteration_limit) == (2, 1)
    for name in names:
        member = read_member(folder / "members" / name / "member.toml")
        assert member.name == name
        assert member.settings == {"data": "data.csv"}
        assert (member.folder / "data.csv").read_text().startswith("age,")
        assert NodeKey.read(member.key_file).public == federation.keys[name]
        assert stat.S_IMODE(member.key_file.stat().st_mode) == 0o600

    app = tomllib.loads((folder / "app" / "pyproject.toml").read_text())
    assert app["project"]["name"] == "my-first-one"
    assert app["tool"]["flwr"]["app"]["components"] == {
        "serverapp": "my_first_one.server_app:app", "clientapp": "my_first_one.client_app:app",
    }  # fmt: skip
    assert app["tool"]["flwr"]["app"]["config"] == {"federation": "", "out": "", "keys": ""}
    assert compileall.compile_dir(folder / "app" / "my_first_one", quiet=2)
    assert [path.name for path in tmp_path.iterdir()] == ["My first one"]


@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")  # Flower's own affair
def test_the_templates_fit_flower(commonweal, tmp_path, monkeypatch):
    from flwr.cli.build import build_fab_from_disk
    from flwr.cli.config_utils import load_and_validate

    monkeypatch.setattr(sys, "path", [*sys.path])  # Flower adds the app's folder
    commonweal("flower", "new", "fitting")  # and imports it, so no other test may use this name
    _, warnings = load_and_validate(tmp_path / "fitting" / "app" / "pyproject.toml")
    assert not warnings
    assert b"fitting/task.py" in build_fab_from_disk(tmp_path / "fitting" / "app")


@pytest.mark.parametrize(("title", "package"), [
    ("digits", "digits"), ("My-Fed 2", "my_fed_2"), ("2nd", "app_2nd"), ("Brücke", "brucke"), ("日本", "app"),
    ("torch", "torch_app"), ("commonweal", "commonweal_app"), ("class", "class_app"), ("json", "json_app"),
    ("__", "app"), ("x" * 80, "x" * 28),
])  # fmt: skip
def test_names_of_packages(title, package):
    assert package_name(title) == package
    assert package.isidentifier()
    assert len(package) <= 32


def test_a_member(commonweal, tmp_path):
    said = lines(
        commonweal("flower", "member", "a b", "--name", "north", "--unit-value", 2, "--cost-per-sample", "2e-4",
                   "--cost-per-step", "1e-5", "--cost-per-round", "0.5")
    )  # fmt: skip
    folder = tmp_path / "a b"
    assert sorted(path.name for path in folder.iterdir()) == ["member.toml", "node-key", "node-key.pub"]
    member = read_member(folder / "member.toml")
    assert (member.name, member.key_file, member.home) == ("north", folder / "node-key", folder / "home")
    assert (member.unit_value, member.cost_per_sample, member.cost_per_step, member.cost_per_round) == (
        2.0, 2e-4, 1e-5, 0.5,
    )  # fmt: skip
    assert read_node_public_key(folder / "node-key.pub") == NodeKey.read(folder / "node-key").public
    assert said[1] == "Send the operator a b/node-key.pub and nothing else."

    command = shlex.split("\n".join(said[3:6]).replace("\\\n", " "))
    assert command == [
        "flower-supernode", "--superlink", "HOST:PORT", "--root-certificates", "ca.pem",
        "--auth-supernode-private-key", str(folder / "node-key"),
        "--node-config", f'member="{folder}/member.toml"',
    ]  # fmt: skip
    assert "Flower runs whatever app the operator sends" in said[7]


def test_flower_reads_the_members_command_as_intended(commonweal, tmp_path):
    from flwr.common.config import parse_config_args

    said = lines(commonweal("flower", "member", "it's mine", "--name", "north"))
    settings = shlex.split("\n".join(said[3:6]).replace("\\\n", " "))[-1]
    assert parse_config_args([settings]) == {"member": str(tmp_path / "it's mine" / "member.toml")}


def test_certificates(commonweal, tmp_path):
    said = lines(commonweal("flower", "certificates", "tls", "--host", "example.org", "--host", "192.0.2.7"))
    assert said[0] == "Created tls for example.org, 192.0.2.7, valid for 365 days."
    files = ["ca.pem", "nginx.conf", "server.key", "server.pem"]
    assert sorted(path.name for path in (tmp_path / "tls").iterdir()) == files
    superlink, nginx = (shlex.split(line) for line in "\n".join(said[3:7]).replace("\\\n", " ").splitlines())
    assert superlink[:5] == ["flower-superlink", "--host", "127.0.0.1", "--port", "8001"]
    assert nginx[1:] == ["-p", "tls", "-c", "nginx.conf"]
    assert "Flower has no login" in said[7]
    assert str(tmp_path) not in (tmp_path / "tls" / "nginx.conf").read_text()


def test_certificates_for_other_ports(commonweal, tmp_path):
    said = "\n".join(
        lines(commonweal("flower", "certificates", "tls", "--host", "h", "--port", 443, "--superlink-port", 9000))
    )
    written = (tmp_path / "tls" / "nginx.conf").read_text()
    assert "--host 127.0.0.1 --port 9000" in said
    assert "Members connect to port 443." in said
    assert "listen 0.0.0.0:443 ssl;" in written
    assert "server 127.0.0.1:9000;" in written


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["new", "there"], ["The federation's folder must be new, but 'there' already exists"]),
        (["new", "."], ["must be new"]),
        (["new", ".."], ["must be new"]),
        (["new", "x", "--members", "1"], ["A new federation must have 2 to 12 members, got 1"]),
        (["new", "x", "--members", "13"], ["2 to 12 members, got 13"]),
        (["new", "a\tb"], ["name must be 1 to 60 printable characters"]),
        (["new", "there/file/x"], ["Cannot create 'there/file/x': not a directory"]),
        (["member", "there", "--name", "n"], ["The member's folder must be new, but 'there' already exists"]),
        (["member", "x", "--name", ""], ["the member's name must be 1 to 60 printable characters"]),
        (["member", "x", "--name", "a/b"], ["A member's name must be usable as a folder name, got 'a/b'"]),
        (["member", "x", "--name", ".."], ["must be usable as a folder name, got '..'"]),
        (["member", "x", "--name", "n", "--cost-per-sample", "-1"], ["cost_per_sample must be", "got -1.0"]),
        (["member", "x", "--name", "n", "--unit-value", "nan"], ["unit_value must be", "got nan"]),
        (["member", "deep/er/x", "--name", "n", "--unit-value", "inf"], ["unit_value must be"]),
        (["certificates", "there", "--host", "h"], ["The certificates folder must be new"]),
        (["certificates", "x", "--host", "h:80"], ["A host must be a name or an IP address, got 'h:80'"]),
        (["certificates", "x", "--host", "h", "--days", "0"], ["1 to 3650 days, got 0"]),
        (["certificates", "x", "--host", "h", "--port", "0"], ["The members' port must be 1 to 65535, got 0"]),
        (["certificates", "x", "--host", "h", "--superlink-port", "65536"], ["SuperLink's port must be 1 to 65535"]),
        (["certificates", "x", "--host", "h", "--superlink-port", "8000"], ["must differ, got 8000 for both"]),
        (["rehearse", "nowhere"], ["Cannot read nowhere/federation.toml: no such file"]),
        (["rehearse", "there"], ["Cannot read there/federation.toml: no such file", "commonweal flower new"]),
        (["rehearse", "fed", "--out", "fed"], ["--out must be outside the federation's own files, got 'fed'"]),
        (["rehearse", "fed", "--out", "fed/members/x"], ["--out must be outside the federation's own files"]),
        (["rehearse", "fed", "--out", "earlier"], ["'earlier' has results", "(ledger.db)", "--overwrite"]),
        (["rehearse", "fed", "--out", "there/file"], ["Cannot write results into", "there/file': file exists"]),
        (["rehearse", "broken"], ["rounds must be a whole number", "got 0", "broken/federation.toml, line 4: "]),
        (["rehearse", "broken", "--out", "earlier", "--overwrite"], ["rounds must be a whole number"]),
    ],
)  # fmt: skip
def test_refusals(refused, tmp_path, arguments, parts):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_text("mine")
    (tmp_path / "earlier").mkdir()
    (tmp_path / "earlier" / "ledger.db").write_text("money")
    if arguments[0] == "rehearse":
        for name in ("fed", "broken"):
            make_federation(tmp_path / name, 2)
        terms = tmp_path / "broken" / "federation.toml"
        terms.write_text(terms.read_text().replace("rounds = 2", "rounds = 0"))
    error = refused("flower", *arguments)
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    for part in parts:
        assert part in error
    assert (tmp_path / "earlier" / "ledger.db").read_text() == "money"


def test_a_federation_from_a_scenario(commonweal, refused, tmp_path):
    assert commonweal("init", "--task", "mine").returncode == 0
    said = lines(commonweal("flower", "new", "twin", "--scenario", "mine/scenario.toml"))
    assert said[0] == "Created twin with an app, federation.toml, and the members north, south, east, west."
    assert (tmp_path / "twin" / "app" / "twin" / "task.py").read_text() == (tmp_path / "mine" / "task.py").read_text()
    assert "cannot be combined" in refused("flower", "new", "x", "--members", "3", "--scenario", "mine/scenario.toml")
    commonweal("init", "images.toml")
    error = refused("flower", "new", "x", "--scenario", "images.toml")
    assert "needs a task of your own or a table, but 'images' learns from built-in images" in error
