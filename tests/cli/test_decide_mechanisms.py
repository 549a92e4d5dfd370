"""`commonweal decide --mechanism`: any mechanism on figures from a file; what it plans is shown, not carried out."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.simulation.test_own_mechanism import LEVY

from .conftest import run_here

FIGURES = """\
round,client,utility,cost,contribution,sample_count,metric,loss
1,ann,0.4,0.1,0.5,30,0.8,0.2
1,bob,0.1,0.2,0.25,20,0.7,0.3
1,cyd,0.5,0.3,0.25,10,0.9,0.1
2,ann,0.3,0.1,0.5,30,0.8,0.2
2,bob,0.2,0.2,0.25,20,0.7,0.3
2,cyd,0.4,0.3,0.25,10,0.9,0.1
"""
# Without similarities, which no file has; it lets clients go in the second round.
FROM_FILE = (
    LEVY.replace('"loss", "similarity", ', '"loss", ')
    .replace("assert np.allclose(np.diag(view.similarities), 1) and np.isfinite(view.losses).all()", "")
    .replace("view.round_number == 3", "view.round_number == 2")
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "rounds.csv").write_text(FIGURES)
    (tmp_path / "levy.py").write_text(FROM_FILE)
    return tmp_path


def test_fli_pays_by_contribution_and_cost(folder):
    done = run_here(["decide", "rounds.csv", "--mechanism", "fli", "--parameter", "omega=0", "--json"], folder)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["mechanism"] == "FLI, Yu et al. 2020 (full), omega 0"
    costs, budget = np.array([0.1, 0.2, 0.3]), 0.4  # in the first round nothing is owed, so u = c / 2
    payoffs = [row["payoff"] for row in document["rounds"][0]["clients"]]
    assert payoffs == pytest.approx((costs / costs.sum() * budget).tolist())


def test_a_file_of_ones_own_with_charges_the_outside_and_a_plan(folder):
    words = ["decide", "rounds.csv", "--mechanism", "file:levy.py", "--parameter", "levy=0.04"]
    document = json.loads(run_here([*words, "--json"], folder).stdout)
    second = document["rounds"][1]
    assert second["eliminated"] == ["bob", "cyd"]
    assert second["external"] == pytest.approx(0.04)
    assert second["charges"] == {"bob": -0.04, "cyd": -0.04}
    assert [row["transfer"] for row in second["clients"]] == pytest.approx([0.04, -0.04, -0.04])
    assert len(document["rounds"][0]["instructions"]["participants"]) == 2
    assert {row["client"] for row in second["clients"]} == {"ann", "bob", "cyd"}, "it is not carried out"
    shown = " ".join(run_here(words, folder).stdout.split())
    assert "Round 2 by a levy on those who go (baseline), levy 0.04, model quality not carried out" in shown
    assert "the outside receives 0.04" in shown
    assert "for the next round (not carried out here): participants" in shown


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--mechanism", "fly"], "--mechanism must be one of paper, "),
        (["--mechanism", "fli", "--mu", "0.1"], "The mechanism 'fli' has no mu"),
        (["--mechanism", "fli", "--loss-rule", "equal"], "Mechanism 'fli' has no loss_rule"),
        (["--mechanism", "fli", "--parameter", "omega"], "--parameter needs a name and a value"),
        (["--mechanism", "fli", "--parameter", "alpha=1"], "has no parameter 'alpha'"),
        (["--mechanism", "fli", "--parameter", "omega=-1"], "omega must be between 0 and 1e+06"),
        (["--mechanism", "file:none.py"], "no such file"),
        (["--mechanism", "file:levy.py", "--ledger", "new.db", "--currency", "EUR"], "--ledger needs a mechanism that"),
    ],
)
def test_what_cannot_be_is_refused(folder, words, sentence):
    done = run_here(["decide", "rounds.csv", *words], folder)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert not (folder / "new.db").exists()


def test_figures_that_it_reads_and_the_file_lacks_are_named(folder):
    (folder / "few.csv").write_text("client,profit,contribution\nann,0.2,0.5\nbob,-0.1,0.1\n")
    done = run_here(["decide", "few.csv", "--mechanism", "file:levy.py"], folder)
    assert done.returncode == 2
    assert "Mechanism 'file:levy.py' needs the" in done.stderr
