"""A new contribution measure takes one file and one line of the registry: done here, on a copy of the package."""

from __future__ import annotations

import difflib
import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import commonweal
from commonweal.valuation.registry import MEASURES

PACKAGE = Path(commonweal.__file__).parent

MEAN_GAIN = '''
"""Mean gain (Banzhaf values): the mean gain from a client over all coalitions of the others, each counted alike."""

from commonweal.valuation.coalition import Game, all_coalitions
from commonweal.valuation.measure import Contributions, Measure


def mean_gain(clients, coalition_value):
    game = Game(clients, coalition_value)
    members = all_coalitions(len(game.clients))
    values = game.values(members)
    means = {
        name: float(values[members[:, i] == 1].mean() - values[members[:, i] == 0].mean())
        for i, name in enumerate(game.clients)
    }
    return Contributions(
        measure="mean-gain",
        values=means,
        standard_errors=dict.fromkeys(game.clients, 0.0),
        evaluation_count=game.evaluation_count,
    )


MEAN_GAIN = Measure(
    name="mean-gain",
    description="mean gain of the test",
    compute=lambda inputs: mean_gain(inputs.clients, inputs.coalition_value),
    client_limit=4,
)
'''
LINE = '    "mean_gain:MEAN_GAIN",\n'
END_OF_ENTRIES = ")\n\n\ndef _load"

CLIENT = '\n[[clients]]\nname = "{name}"\n'
SCENARIO = """
name = "trial"
rounds = 2
[mechanism]
mu = 0.1
contribution = "{measure}"
[learning]
iteration_limit = 1
[defaults]
source = "uci-digits"
samples_per_round = 30
cost_per_sample = 1e-3
"""
FEDERATION = 'name = "trial"\nrounds = 2\n[mechanism]\nmu = 0.1\ncontribution = "{measure}"\n'
READ_FEDERATION = """
import sys
from pathlib import Path
from commonweal.errors import ScenarioError
from commonweal.ledger.node_keys import NodeKey
from commonweal.remote.coordinator.federation_file import read_federation
folder = Path(sys.argv[1])
for name in ("ann", "bob"):
    NodeKey.new().write(folder / name)
try:
    print(read_federation(folder / "federation.toml").mechanism.measure)
except ScenarioError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The package with the new measure."""
    source = tmp_path_factory.mktemp("src")
    shutil.copytree(PACKAGE, source / "commonweal", ignore=shutil.ignore_patterns("__pycache__"))
    (source / "commonweal/valuation/mean_gain.py").write_text(MEAN_GAIN)
    registry = source / "commonweal/valuation/registry.py"
    registry.write_text(registry.read_text().replace(END_OF_ENTRIES, LINE + END_OF_ENTRIES))
    return source


@pytest.fixture(scope="module")
def outcome(copy, tmp_path_factory):
    """What `commonweal run` prints and writes for a scenario that names the measure."""
    folder = tmp_path_factory.mktemp("run")
    write_scenario(folder, "mean-gain", ("ann", "bob", "cyd"))
    done = command(copy, folder, "run", "scenario.toml", "--out", "out")
    assert done.returncode == 0, done.stderr
    return folder / "out"


def command(copy, folder, *arguments):
    """Run the copy's command."""
    return python(copy, folder, "-c", "from commonweal.cli.main import main; main()", *arguments)


def python(copy, folder, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "300"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def write_scenario(folder, measure, clients):
    text = SCENARIO.format(measure=measure) + "".join(CLIENT.format(name=name) for name in clients)
    (folder / "scenario.toml").write_text(text)


def test_one_file_and_one_line(copy):
    def files(root):
        paths = (path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}

    before, after = files(PACKAGE), files(copy / "commonweal")
    assert after.keys() - before.keys() == {"valuation/mean_gain.py"}
    assert before.keys() <= after.keys()
    assert [path for path in before if before[path] != after[path]] == ["valuation/registry.py"]
    old, new = (tree["valuation/registry.py"].decode().splitlines(keepends=True) for tree in (before, after))
    assert [line for line in difflib.ndiff(old, new) if line[0] in "+-"] == [f"+ {LINE}"]


def test_a_federation_is_valued_by_it(outcome):
    """Against the definition: q(n) is the mean over S ⊆ A∖n of v(S ∪ n) − v(S)."""
    history = json.loads((outcome / "history.json").read_text())
    assert len(history["rounds"]) == 2
    for held in history["rounds"]:
        worth = {frozenset(row["coalition"]): row["value"] for row in held["coalition_values"]}
        present = [row["client"] for row in held["clients"]]
        assert len(worth) == 2 ** len(present)
        for row in held["clients"]:
            others = [name for name in present if name != row["client"]]
            subsets = [frozenset(s) for size in range(len(present)) for s in itertools.combinations(others, size)]
            expected = sum(worth[s | {row["client"]}] - worth[s] for s in subsets) / len(subsets)
            assert row["contribution"]["value"] == pytest.approx(expected, abs=1e-12)
            assert 0 < row["contribution"]["standard_error"] < 1
    assert any(row["contribution"]["value"] != 0 for row in history["rounds"][0]["clients"])


def test_the_run_report_names_it(outcome):
    assert "mean gain of the test" in (outcome / "report.html").read_text()


def test_its_limit_is_kept(copy, tmp_path):
    write_scenario(tmp_path, "mean-gain", ("ann", "bob", "cyd", "dan", "eve"))
    refused = command(copy, tmp_path, "run", "scenario.toml", "--out", "out")
    assert refused.returncode == 2
    assert 'contribution = "mean-gain" allows at most 4 clients' in refused.stderr


def test_a_misspelt_measure_is_refused_with_all_names(copy, tmp_path):
    write_scenario(tmp_path, "mean-gian", ("ann", "bob"))
    refused = command(copy, tmp_path, "run", "scenario.toml", "--out", "out")
    assert refused.returncode == 2
    assert ", ".join([*MEASURES, "mean-gain"]) in refused.stderr
    assert "mean-gian" in refused.stderr


@pytest.mark.parametrize(
    ("measure", "answer"), [("mean-gain", "mean-gain\n"), ("mean-gian", f"{[*MEASURES][-1]}, mean-gain")]
)
def test_federations_between_machines_take_it_too(copy, tmp_path, measure, answer):
    clients = "".join(f'[[clients]]\nname = "{name}"\nkey_file = "{name}.pub"\n' for name in ("ann", "bob"))
    (tmp_path / "federation.toml").write_text(FEDERATION.format(measure=measure) + clients)
    done = python(copy, tmp_path, "-c", READ_FEDERATION, str(tmp_path))
    assert answer in done.stdout, done.stderr
