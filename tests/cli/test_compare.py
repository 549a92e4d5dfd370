"""`commonweal compare` as a user runs it."""

from __future__ import annotations

import json

import pytest

from commonweal.records.comparison import COLUMNS
from tests.cli.conftest import run_here
from tests.comparison.small import three_text
from tests.made_once import made_once

MECHANISMS = "paper,most-lenient,fli,power-of-choice,zhang"


def compare(folder, *arguments):
    (folder / "three.toml").write_text(three_text())
    done = run_here(["compare", "three.toml", *map(str, arguments)], folder)
    assert done.returncode == 0, done.stderr
    return done


def rows(folder, out="out"):
    return {one["name"]: one for one in json.loads((folder / out / "comparison.json").read_text())["mechanisms"]}


@pytest.fixture
def finished(tmp_path_factory):
    """The folder of a comparison over two replications, each in a process of its own; not to be changed."""
    return made_once(
        tmp_path_factory,
        "compared",
        lambda folder: (folder / "said").write_text(
            compare(folder, "--mechanisms", MECHANISMS, "--replications", 2, "--workers", 2, "--out", "out").stdout
        ),
    )


def test_each_row_has_every_column_with_an_interval_inside_its_bounds(finished):
    document = json.loads((finished / "out/comparison.json").read_text())
    assert document["seeds"] == [3, 4]
    assert [one["name"] for one in document["mechanisms"]] == MECHANISMS.split(",")
    assert document["distinct_round_count"] < document["decided_round_count"]
    for one in document["mechanisms"]:
        assert one["label"]
        assert one["fidelity"]
        for column in COLUMNS:
            figure = one["figures"][column.name]
            if figure is not None:
                mean = figure["mean"]
                assert column.lower <= mean["lower"] <= mean["value"] <= mean["upper"] <= column.upper
                assert len(figure["values"]) == 2
    assert rows(finished)["fli"]["private_reads"] == ["profit", "cost"]
    assert rows(finished)["most-lenient"]["mu"] == "inf"
    assert rows(finished)["zhang"]["ticks"]["ir"] is True
    assert rows(finished)["fli"]["ticks"] is None
    assert {lie["name"] for lie in rows(finished)["paper"]["lies"]} >= {"no-profit", "best-reply"}
    assert rows(finished)["power-of-choice"]["figures"]["selection"]["mean"]["value"] > 0


def test_figures_are_those_of_separate_runs(finished, tmp_path, numbers_only):
    separate = (("paper", "mu = 0.02", (3, 4)), ("fli", 'kind = "fli"', (3,)), ("zhang", 'kind = "zhang"', (4,)))
    for name, kind, seeds in separate:
        (tmp_path / "own.toml").write_text(three_text(mechanism=kind))
        for seed in seeds:
            place = seed - 3
            words = ["run", "own.toml", "--seed", str(seed), "--no-ledger", "--out", "own", "--overwrite"]
            assert run_here(words, tmp_path).returncode == 0
            history = json.loads((tmp_path / "own/history.json").read_text())
            figures = rows(finished)[name]["figures"]
            transfers = [
                [client["transfer"]["value"] for client in one["clients"] if client["transfer"] is not None]
                for one in history["rounds"]
            ]
            moved = sum(max(-sum(t for t in some if t < 0), sum(t for t in some if t > 0)) for some in transfers)
            assert figures["tsfi"]["values"][place] == history["totals"]["tsfi"][-1]["value"]
            assert figures["rounds"]["values"][place] == len(history["rounds"])
            assert figures["money_moved"]["values"][place] == pytest.approx(moved, abs=1e-15)


@pytest.mark.soak  # the next test has the same in two steps
def test_one_worker_finds_what_two_find(finished, tmp_path, undrawn):
    compare(tmp_path, "--mechanisms", MECHANISMS, "--replications", 2, "--workers", 1, "--out", "out")
    assert (tmp_path / "out/comparison.json").read_bytes() == (finished / "out/comparison.json").read_bytes()


def test_more_replications_and_mechanisms_are_added_by_one_worker_as_two_find_them(finished, tmp_path, undrawn):
    compare(tmp_path, "--mechanisms", "paper", "--workers", 1, "--out", "out")
    first = {file: file.read_bytes() for file in tmp_path.glob("out/rounds/*/*")}
    done = compare(tmp_path, "--mechanisms", MECHANISMS, "--replications", 2, "--workers", 1, "--out", "out")
    assert "1/2: replication 1, " in done.stderr
    assert all(file.read_bytes() == content for file, content in first.items())
    assert (tmp_path / "out/comparison.json").read_bytes() == (finished / "out/comparison.json").read_bytes()
    again = compare(tmp_path, "--mechanisms", MECHANISMS, "--replications", 2, "--workers", 1, "--out", "out")
    assert "replication 2, 0 of " in again.stderr


def test_which_mechanisms_may_reward_a_lie_without_money_is_said(finished):
    notes = json.loads((finished / "out/comparison.json").read_text())["notes"]
    assert any(note.endswith("decide something about it: power-of-choice, zhang.") for note in notes)
    assert "none in money" in (finished / "said").read_text()


def test_the_terminal_names_label_and_what_stands_out(finished):
    said = (finished / "said").read_text()
    assert "zhang (reconstruction)" in said
    assert "Welfare is counted in true figures" in said
    assert "These read no private figure: power-of-choice." in said


def test_who_chooses_the_iterations_keeps_to_the_limit_of_the_scenario(tmp_path, undrawn):
    compare(tmp_path, "--mechanisms", "tang-wong,equal", "--rounds", 2, "--workers", 1, "--out", "out")
    found = rows(tmp_path)
    assert "iteration_limit 2" in found["tang-wong"]["label"]
    most = 2 * 3 * 2 * 2  # down and up, clients, rounds, iterations
    assert [found[name]["figures"]["models_sent"]["mean"]["value"] <= most for name in found] == [True, True]


def test_a_mechanism_without_mu_in_the_scenario_is_skipped(tmp_path, undrawn):
    (tmp_path / "equal.toml").write_text(three_text(mechanism='kind = "equal"', rounds=1))
    done = run_here(["compare", "equal.toml", "--out", "out", "--json"], tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {one["name"] for one in found["skipped"]} == {"paper", "clarke", "clarke-ir"}
    assert all("needs mu" in one["reason"] for one in found["skipped"])
    assert {"least-lenient", "most-lenient", "cgsv"} <= {one["name"] for one in found["mechanisms"]}


def test_by_agreed_rates_no_private_figure_is_read(tmp_path, undrawn):
    text = three_text(rounds=1, mechanism='mu = 0.02\nprofits = "rates"', tables="[rates]\ngain = 2.0\nsample = 1e-3")
    (tmp_path / "rates.toml").write_text(text)
    done = run_here(["compare", "rates.toml", "--mechanisms", "equal", "--out", "out", "--json"], tmp_path)
    assert done.returncode == 0, done.stderr
    (equal,) = json.loads(done.stdout)["mechanisms"]
    assert equal["private_reads"] == []
    gains = {lie["name"]: lie["gain"]["value"] for lie in equal["lies"]}
    assert gains["half"] == gains["no-profit"] == gains["cost"] == 0
    assert gains["own-scores"] == pytest.approx(0.01 * 2.0 * 2 / 3), "a point less, of which a third is lost"


@pytest.fixture
def scenario(tmp_path):
    (tmp_path / "three.toml").write_text(three_text())
    (tmp_path / "equal.toml").write_text(three_text(mechanism='kind = "equal"'))
    (tmp_path / "file").write_text("")
    return "three.toml"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--mechanisms", "paper,nobody"], "There is no mechanism 'nobody'. Choose among all, paper, least-lenient,"),
        (["--mechanisms", "file:none.py"], "none.py"),
        (["--mechanisms", ""], "--mechanisms must be all, or names separated by commas such as paper,equal, got ''"),
        (["--mechanisms", "paper,,equal"], "got 'paper,,equal'"),
        (["--replications", "0"], "--replications must be from 1 to 9999, got 0"),
        (["--replications", "10000"], "--replications must be from 1 to 9999, got 10000"),
        (["--workers", "0"], "--workers must be at least 1, got 0"),
        (["--mu", "much"], "mu must be a number, got 'much'"),
        (["--mu", "inf", "--mechanisms", "clarke-ir"], "needs a finite mu"),
        (["--mu", "3", "--mechanisms", "equal,least-lenient"], "--mu changes nothing for equal, least-lenient."),
        (["--rounds", "0"], "rounds must be"),
        (["--out", "file/inside"], "Cannot write results into 'file/inside'"),
    ],
)
def test_refusals(refused, scenario, arguments, says):
    assert says in refused("compare", scenario, *arguments)


def test_a_mechanism_asked_for_by_name_must_be_able_to_run(refused, scenario):
    assert "The mechanism 'paper' needs mu, and the scenario has none" in refused(
        "compare", "equal.toml", "--mechanisms", "paper"
    )
    assert "There is no scenario" in refused("compare", "nothing")


def test_a_damaged_round_is_named(finished, tmp_path, undrawn):
    import shutil

    shutil.copytree(finished / "out", tmp_path / "out")
    (tmp_path / "three.toml").write_text(three_text())
    file = sorted((tmp_path / "out/rounds/replication-0001").glob("*.round.npz"))[0]
    file.write_bytes(file.read_bytes()[:-100])
    words = ["compare", "three.toml", "--mechanisms", "paper", "--out", "out"]
    done = run_here(words, tmp_path)
    assert done.returncode == 2
    assert f"{file.name}" in done.stderr
    assert "Remove that file and run the same command again" in done.stderr
    file.unlink()
    assert run_here(words, tmp_path).returncode == 0
