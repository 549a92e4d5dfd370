"""A run settles what it decides: every round once, whatever happens to the process."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from decimal import Decimal

import pytest

from .conftest import COMMAND
from .test_run import SMALL


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finished run of four rounds, in `whole`."""
    path = tmp_path_factory.mktemp("ledger-runs")
    (path / "small.toml").write_text(SMALL)
    run(path, "run", "small.toml", "--out", "whole")
    return path


def run(folder, *arguments, code=0):
    done = subprocess.run([COMMAND, *arguments], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def contents(folder, ledger):
    """The entries less their times, and less what depends on them."""
    lines = run(folder, "ledger", "show", ledger, "--json").splitlines()
    return [
        (entry["content"]["kind"], entry["content"]["body"], entry["content"]["postings"])
        for entry in map(json.loads, lines)
    ]


def figures(folder, ledger):
    """Rounds without the clients' signatures, which name the book."""
    stripped = []
    for kind, body, postings in contents(folder, ledger):
        if kind == "round":
            inputs = [{name: value for name, value in row.items() if name != "signature"} for row in body["inputs"]]
            stripped.append((body | {"inputs": inputs}, postings))
    return stripped


def test_every_round_is_settled_with_reports_that_the_clients_signed(folder):
    said = run(folder, "ledger", "verify", "whole/ledger.db")
    assert "sound: 6 entries" in said
    assert "4 decisions made again" in said
    history = json.loads((folder / "whole/history.json").read_text())
    reports = sum(len(held["clients"]) for held in history["rounds"])
    assert f"{reports} reports signed by clients" in said
    balances = json.loads(run(folder, "ledger", "balances", "whole/ledger.db", "--json"))["balances"]
    for client, total in history["totals"]["transfers"].items():
        assert abs(Decimal(balances[f"clients/{client}"]) - Decimal(total["value"]) * 1000) <= Decimal("0.05")


def test_a_run_that_is_killed_settles_each_round_once(folder):
    chance = random.Random(5)
    attempts = 0
    start = ["run", "small.toml", "--out", "killed"]
    while True:
        attempts += 1
        process = subprocess.Popen(
            [COMMAND, *start], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            process.wait(timeout=chance.uniform(3, 9) if attempts < 4 else None)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        else:
            assert process.returncode == 0
            break
        if (folder / "killed/checkpoint.npz").exists():
            start = ["run", "small.toml", "--out", "killed", "--resume"]
    assert "sound" in run(folder, "ledger", "verify", "killed/ledger.db")
    assert figures(folder, "killed/ledger.db") == figures(folder, "whole/ledger.db")


def test_a_named_book_is_kept_and_takes_no_other_run(folder):
    run(folder, "run", "small.toml", "--out", "named", "--ledger", "named.db", "--rounds", "1")
    before = (folder / "named.db").read_bytes()
    run(folder, "run", "small.toml", "--out", "named", "--ledger", "named.db", "--rounds", "1", "--overwrite")
    assert (folder / "named.db").read_bytes() == before, "the same rounds again change nothing"
    said = run(folder, "run", "small.toml", "--out", "other", "--ledger", "named.db", "--seed", "9", code=2)
    assert "admitted with" in said
    assert not (folder / "other").exists()
    assert (folder / "named.db").read_bytes() == before


def test_a_lost_book_is_written_again_from_the_checkpoint(folder):
    expected = figures(folder, "whole/ledger.db")
    (folder / "whole/ledger.db").rename(folder / "whole/kept.db")
    run(folder, "run", "small.toml", "--out", "whole", "--resume")
    assert figures(folder, "whole/ledger.db") == expected


def test_a_server_that_cannot_be_reached_is_told_before_anything_is_computed(folder):
    said = run(folder, "run", "small.toml", "--out", "far", "--ledger", "postgresql://a:b@127.0.0.1:1/x", code=2)
    assert "must be reachable" in said
    assert "round 1" not in said
    assert not (folder / "far").exists()
