"""A run on forecast figures as a user meets it: on the terminal, in its ledger, in a statement; resumed to the bit."""

from __future__ import annotations

import json
import shutil

import pytest

SCENARIO = """
name = "forecast"
rounds = 3
seed = 3
[mechanism]
mu = 0.05
contribution = "marginal"
figures = "forecast"
[learning]
iteration_limit = 1
[defaults]
source = "mnist-5k"
samples_per_round = 30
cost_per_sample = 5e-4
[[clients]]
name = "north"
[[clients]]
name = "south"
[[clients]]
name = "east"
cost_per_round = 0.3
"""


@pytest.fixture
def run(commonweal):
    def run(*arguments):
        done = commonweal(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    return run


@pytest.mark.usefixtures("undrawn")
def test_a_run_on_forecasts(run, tmp_path):
    (tmp_path / "forecast.toml").write_text(SCENARIO)
    said = run("run", "forecast.toml", "--out", "out", "--keys", "keys", "--rounds", "2")
    assert "expected at a loss: " in said
    assert "round 1/2: mean accuracy of 3 clients from " in said
    shutil.copytree(tmp_path / "out", tmp_path / "again")
    history = json.loads((tmp_path / "out" / "history.json").read_text())
    assert history["figures"] == "forecast"
    for each in history["rounds"]:
        assert sum((row["transfer"] or {"value": 0})["value"] for row in each["clients"]) == pytest.approx(0, abs=1e-9)
        for row in each["clients"]:
            assert row["candidate"] == (row["used"]["expected_profit"]["value"] < 0)
    assert "sound: " in run("ledger", "verify", "out/ledger.db")
    assert "round 1: 3 clients, mu 0.05, forecast figures" in run("ledger", "show", "out/ledger.db")
    told = " ".join(run("ledger", "statement", "out/ledger.db", "north", "--out", "north.txt").split())
    told += " ".join((tmp_path / "north.txt").read_text().split())
    written = (tmp_path / "north.txt").read_text().splitlines()
    assert any(line.startswith("entry 3: contributed ") for line in written)  # not in a column of 25 characters
    for word in ("paired gain", "as used", "expected next"):
        assert word in told
    settled = json.loads((tmp_path / "again" / "history.json").read_text())["rounds"]
    run("run", "forecast.toml", "--out", "again", "--keys", "keys", "--rounds", "2", "--resume")
    assert json.loads((tmp_path / "again" / "history.json").read_text())["rounds"] == settled
