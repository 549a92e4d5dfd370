"""`commonweal flower rehearse` on what `commonweal flower new` writes: from nothing to a verified ledger."""

from __future__ import annotations

import json
import re

import pytest

from commonweal.flower.rehearsal import flower_programs
from commonweal.flower.rehearsal.rehearsal import Rehearsal
from commonweal.flower.starting.new_federation import make_federation
from commonweal.flower.starting.proxy import find_nginx


def test_from_nothing_to_a_verified_ledger(commonweal, refused, tmp_path):
    names = make_federation(tmp_path / "mine", 2)
    terms = tmp_path / "mine" / "federation.toml"
    terms.write_text(terms.read_text().replace("rounds = 2", "rounds = 1"))
    before = sorted((tmp_path / "mine").rglob("*"))
    done = commonweal("flower", "rehearse", "mine", "--warm", "--keys", "keys")
    assert done.returncode == 0, done.stderr
    if find_nginx() is not None:
        assert "Starting nginx at 127.0.0.1:" in done.stderr
        asked = (tmp_path / "out" / "mine-rehearsal" / "logs" / "superlink.log").read_text()
        assert '127.0.0.1:0 - "POST /v1/fleet/activate-node' in asked, "a port of 0 means: through nginx"
        assert not re.search(r':[1-9]\d* - "POST /v1/fleet/', asked), "no member took another way"
    said = done.stdout.splitlines()
    history = json.loads((tmp_path / "out" / "mine-rehearsal" / "history.json").read_text())
    assert said[:2] == [history["sentence"], "rounds completed: 1 of 1"]
    assert said[2].split() == ["north", "stayed"]
    assert said[-4].startswith("ledger verified: ")
    assert said[-4].endswith("1 decision recomputed, 2 client reports signed by members")
    assert said[-3:] == [
        "report: out/mine-rehearsal/report.html",
        "ledger: out/mine-rehearsal/ledger.db",
        "members: out/mine-rehearsal/members",
    ]
    out = tmp_path / "out" / "mine-rehearsal"
    assert (out / "report.html").exists()
    for name in names:
        assert (out / "members" / name / "log.txt").read_text()
        assert len(list((out / "members" / name / "statements").iterdir())) == 1
    assert commonweal("ledger", "verify", "out/mine-rehearsal/ledger.db").returncode == 0
    assert sorted((tmp_path / "mine").rglob("*")) == before, "the federation's own folder is not touched"

    error = refused("flower", "rehearse", "mine")
    assert "'out/mine-rehearsal' has results of an earlier run or rehearsal (checkpoint.npz). Choose another" in error


def test_without_nginx(tmp_path, monkeypatch):
    """It says so in one line, and members connect to the SuperLink, which listens on the loopback interface."""
    monkeypatch.setattr(flower_programs, "find_nginx", lambda: None)
    make_federation(tmp_path / "mine", 2)
    said = []
    rehearsal = Rehearsal(tmp_path / "mine", tmp_path / "out", say=said.append)
    try:
        rehearsal._start_proxy()
        programs = rehearsal._programs
        assert programs.members_address == programs.address
        assert programs.address.startswith("127.0.0.1:")
        assert not list(rehearsal.work.rglob("nginx.conf"))
    finally:
        rehearsal.close()
    (line,) = said
    assert line.startswith("nginx is not installed, so members connect to the SuperLink directly, on the loopback")


def test_a_run_that_does_not_complete_is_an_error(commonweal, tmp_path, monkeypatch):
    """Without Flower: what the command makes of a rehearsal whose run failed."""
    from commonweal.flower.rehearsal import rehearsal

    class Failing:
        def __init__(self, folder, out, **options):
            out.mkdir(exist_ok=True)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def run_app(self, **options):
            return rehearsal.RunOutcome(status="failed", output="", details="no disk")

        def keep_member_files(self):
            pass

    monkeypatch.setattr(rehearsal, "Rehearsal", Failing)
    make_federation(tmp_path / "mine", 2)
    done = commonweal("flower", "rehearse", "mine", "--out", "out")
    assert done.returncode == 1
    assert not done.stdout
    last = done.stderr.splitlines()[-1]
    assert last == "error: The run did not complete: failed (no disk). Its logs are in out/logs."


@pytest.mark.soak
def test_an_error_of_a_member_is_told_at_once(commonweal, tmp_path):
    """Over real processes: the sentence with function, client, round and the user's own line."""
    make_federation(tmp_path / "mine", 2)
    spoil(tmp_path, "    optimiser = torch", '    if context.member.name == "south":\n        raise KeyError("age")\n')
    done = commonweal("flower", "rehearse", "mine", "--out", "out", "--warm", "--keys", "keys")
    assert done.returncode == 2, done.stderr
    assert not done.stdout
    assert done.stderr.splitlines()[-1] == (
        "error: train in task.py failed for client 'south' in round 1 (line "
        f"{line_of(tmp_path, 'raise KeyError')}: raise KeyError(\"age\")): KeyError: 'age'"
    )
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize(
    ("before", "inserted", "parts"),
    [
        ("import torch\n", "import torsch\n", ["Cannot run mine/app/mine/task.py", "(import torsch)", "'torsch'"]),
        ("def train(", "def train(\n", ["Cannot run mine/app/mine/task.py, line", "SyntaxError"]),
        ("def evaluate(", "def renamed(*given): ...\n\n\nif False:\n  ", ["evaluate is missing"]),
    ],
)
def test_a_file_that_cannot_be_run_is_told_before_anything_starts(refused, tmp_path, before, inserted, parts):
    make_federation(tmp_path / "mine", 2)
    spoil(tmp_path, before, inserted)
    error = refused("flower", "rehearse", "mine")
    assert error.count("\n") == 1
    for part in parts:
        assert part in error


def spoil(tmp_path, before, inserted):
    task = tmp_path / "mine" / "app" / "mine" / "task.py"
    text = task.read_text()
    assert before in text
    task.write_text(text.replace(before, inserted + before, 1))


def line_of(tmp_path, part):
    lines = (tmp_path / "mine" / "app" / "mine" / "task.py").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if part in line)


@pytest.mark.soak
def test_an_error_at_the_coordinator(commonweal, tmp_path):
    make_federation(tmp_path / "mine", 2)
    spoil(tmp_path, "    torch.manual_seed(plan.seed)\n", '    raise OSError("no disk")\n')
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.html").write_text("of an earlier one")
    done = commonweal("flower", "rehearse", "mine", "--out", "out", "--overwrite", "--keys", "keys")
    assert done.returncode == 2
    assert not done.stdout
    assert done.stderr.splitlines()[-1] == (
        f'error: initial_model in task.py failed (line {line_of(tmp_path, "no disk")}: raise OSError("no disk")): '
        "OSError: no disk"
    )
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out" / "report.html").exists()
