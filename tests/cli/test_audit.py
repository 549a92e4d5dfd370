"""`commonweal audit` as a user runs it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.study.small_federation import small_federation_text

CSV = """\
round,client,profit,cost,contribution
1,north,0.040,0.02,0.030
1,south,0.025,0.02,0.025
1,east,-0.012,0.02,0.020
2,north,0.020,0.02,0.020
2,south,-0.010,0.02,0.024
2,east,0.006,0.02,0.015
"""


@pytest.fixture
def rounds(tmp_path):
    (tmp_path / "rounds.csv").write_text(CSV)
    return "rounds.csv"


def test_json_has_what_the_reference_describes(commonweal, rounds):
    found = json.loads(commonweal("audit", rounds, "--mu", "0.05", "--bounds=-0.5:0.5", "--json").stdout)
    reference = (Path(__file__).parents[2] / "docs/reference/audit-json.md").read_text()
    tables = reference.split("\n\n")
    described = [
        set(re.findall(r"`([a-z_]+)(?:\[\])?`", " ".join(re.findall(r"^\| (.+?) \|", part, re.M)))) for part in tables
    ]
    top, lie, unravelling = [names for names in described if names]
    assert set(found) == top
    assert all(set(one) == lie for one in found["lies"])
    assert set(found["unravelling"]) == unravelling
    names = {one["name"] for one in found["lies"]}
    assert names == {"half", "double", "less", "more", "no-profit", "silence", "best-reply", "exit"}


def test_gains_are_those_of_decisions(commonweal, rounds):
    """min(p, 0), decided by `commonweal decide` on a changed file."""
    found = json.loads(commonweal("audit", rounds, "--mu", "0.05", "--json").stdout)
    no_profit = next(one for one in found["lies"] if one["name"] == "no-profit" and one["liar_count"] == 1)
    true = json.loads(commonweal("decide", rounds, "--mu", "0.05", "--json").stdout)
    first = {one["client"]: one["transfer"] for one in true["rounds"][0]["clients"]}
    lied = CSV.replace("1,north,0.040", "1,north,0.0")
    told = json.loads(commonweal("decide", "-", "--mu", "0.05", "--json", stdin=lied).stdout)
    second = {one["client"]: one["transfer"] for one in told["rounds"][0]["clients"]}
    in_round_1 = second["north"] - first["north"]
    in_round_2 = 0.020 * (1 - 0.020 / 0.059)  # nobody is eliminated, with the lie or without it
    assert no_profit["client_gains"]["north"] == pytest.approx((in_round_1 + in_round_2) / 2, abs=1e-12)
    assert no_profit["loses_place_share"] == 0


def test_page_in_a_currency(commonweal, rounds, tmp_path):
    done = commonweal("audit", rounds, "--mu", "0.05", "--currency", "EUR", "--worth", "1000", "--out", "out/audit")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "out/audit/audit.html").read_text()
    assert "What a member could gain by lying, per round, in EUR" in page
    assert "EUR per round on average" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert (tmp_path / "out/audit/figures/gains.png").stat().st_size > 1000
    assert json.loads((tmp_path / "out/audit/audit.json").read_text())["money"]["worth"] == 1000


def test_a_mechanism_that_remembers(commonweal, rounds):
    done = commonweal("audit", rounds, "--mechanism", "fli", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["mu"] is None
    assert {one["name"] for one in found["not_tried"]} == {"count", "metric", "exit"}
    assert any("remembers" in note for note in found["notes"])


OWN = """\
from commonweal.decision.mechanism import Mechanism
from commonweal.decision.transfers import Division
import numpy as np


class Nothing(Mechanism):
    \"\"\"Nobody pays anybody.\"\"\"

    name = "nothing"
    version = "nothing/1"
    label = "Nothing"
    reads = frozenset({"contribution"})

    def divide(self, view, state, retained):
        profits = view.profits[retained]
        zeros = np.zeros(len(profits))
        return Division(budget=float(profits.sum()), shares=zeros, payoffs=profits, transfers=zeros)
"""


def test_a_mechanism_of_the_users_own(commonweal, rounds, tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    done = commonweal("audit", rounds, "--mechanism", "file:own.py", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {one["name"] for one in found["lies"]} == {"silence"}
    assert found["lies"][0]["gain"]["value"] == 0
    assert {one["name"] for one in found["not_tried"]} >= {"half", "no-profit", "best-reply", "exit"}
    assert found["unravelling"] is None
    assert found["sentences"] == ["No lie that was tried gains anything on average."]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rounds.csv"], "needs --mu"),
        (["rounds.csv", "--mu", "-1"], "mu"),
        (["rounds.csv", "--mu", "0.05", "--mechanism", "fair"], "--mechanism must be one of paper"),
        (["rounds.csv", "--mu", "0.05", "--mechanism", "fli"], "has no mu"),
        (["missing.csv", "--mu", "0.05"], "Cannot read missing.csv: no such file"),
        (["one.csv", "--mu", "0.05"], "at least two clients"),
        (["broken.csv", "--mu", "0.05"], "'profit' in broken.csv"),
        (["rounds.csv", "--mu", "0.05", "--bounds", "1:0"], "--bounds must be two numbers"),
        (["rounds.csv", "--mu", "0.05", "--bounds", "x"], "--bounds must be two numbers"),
        (["rounds.csv", "--mu", "0.05", "--worth", "1"], "--worth needs --currency"),
        (["rounds.csv", "--mu", "0.05", "--currency", "EUR"], "needs --worth"),
        (["rounds.csv", "--mu", "0.05", "--rounds", "3"], "--rounds is for scenarios"),
        (["rounds.csv", "--mu", "0.05", "--identities", "1"], "--identities must be from 2"),
        (["rounds.csv", "--mu", "0.05", "--loss-rule", "cost", "--liability-cap", "-1"], "--liability-cap must be"),
        (["quickstrat"], "Did you mean 'quickstart'"),
        (["small.toml", "--liar", "nobody"], "There is no client 'nobody'"),
        (["nocost.csv", "--mechanism", "fli"], "needs the cost"),
    ],
    ids=str,
)
def test_bad_input(commonweal, rounds, tmp_path, arguments, said):
    (tmp_path / "one.csv").write_text("client,profit,contribution\nnorth,0.1,0.2\n")
    (tmp_path / "broken.csv").write_text("client,contribution\nnorth,0.2\n")
    (tmp_path / "nocost.csv").write_text("client,profit,contribution\nnorth,0.1,0.2\nsouth,0.1,0.2\n")
    (tmp_path / "small.toml").write_text(small_federation_text(rounds=2))
    done = commonweal("audit", *arguments, "--out", "out")
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
