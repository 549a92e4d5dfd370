"""A run settles what it decides: every round once, whatever happens to the process."""

from __future__ import annotations

import json
import shutil
from decimal import Decimal

import pytest

from .small_run import SMALL, settled_rounds, undisturbed


@pytest.fixture
def whole(tmp_path_factory, tmp_path):
    """A finished run of four rounds, to be changed at will."""
    (tmp_path / "small.toml").write_text(SMALL)
    return shutil.copytree(undisturbed(tmp_path_factory), tmp_path / "whole")


@pytest.fixture
def run(commonweal, whole):
    """What the command says, in the folder of `whole`."""

    def run(*arguments, code=0):
        done = commonweal(*arguments)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    return run


def test_every_round_is_settled_with_reports_that_the_clients_signed(run, whole):
    said = run("ledger", "verify", "whole/ledger.db")
    assert "sound: 6 entries" in said
    assert "4 decisions recomputed" in said
    history = json.loads((whole / "history.json").read_text())
    reports = sum(len(round_["clients"]) for round_ in history["rounds"])
    assert f"{reports} reports signed by clients" in said
    balances = json.loads(run("ledger", "balances", "whole/ledger.db", "--json"))["balances"]
    for client, total in history["totals"]["transfers"].items():
        assert abs(Decimal(balances[f"clients/{client}"]) - Decimal(total["value"]) * 1000) <= Decimal("0.05")


@pytest.mark.usefixtures("numbers_only")
def test_a_named_ledger_is_kept_and_takes_no_other_run(run, tmp_path):
    words = ["run", "small.toml", "--ledger", "named.db", "--rounds", "1"]
    run(*words, "--out", "named")
    before = (tmp_path / "named.db").read_bytes()
    run(*words, "--out", "named", "--overwrite")
    assert (tmp_path / "named.db").read_bytes() == before, "the same rounds again change nothing"
    said = run(*words, "--out", "other", "--seed", "9", code=2)
    assert "Client 'north' was admitted to the ledger 'named.db' with another key" in said
    assert not (tmp_path / "other").exists()
    assert (tmp_path / "named.db").read_bytes() == before


@pytest.mark.usefixtures("numbers_only")
def test_a_lost_ledger_is_written_again_from_the_checkpoint(run, whole):
    expected = settled_rounds(whole)
    (whole / "ledger.db").unlink()
    run("run", "small.toml", "--out", "whole", "--resume")
    assert settled_rounds(whole) == expected


def test_an_unreachable_server_is_reported_before_anything_is_computed(run, tmp_path):
    said = run("run", "small.toml", "--out", "far", "--ledger", "postgresql://a:b@127.0.0.1:1/x", code=2)
    assert "Cannot reach the database" in said
    assert "round 1" not in said
    assert not (tmp_path / "far").exists()
