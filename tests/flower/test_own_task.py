"""One task file on a real table: in the simulator, and over real Flower processes, with the same figures."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.flower import azpro_task

COMMONWEAL = str(Path(sys.executable).with_name("commonweal"))
TOLERANCE = 1e-6
DATA = os.environ.get("COMMONWEAL_DATA")
SCENARIO = """
name = "four hospitals"
rounds = 2
seed = 1
[mechanism]
mu = 0.02
utility = "advantage"
[learning]
learning_rate = 0.2
iteration_limit = 2
algorithm = "fedprox"
[task]
file = "task.py"
metric = "roc-auc"
data = "azpro.csv"
[defaults]
cost_per_step = 1e-4
[[clients]]
name = "a"
settings = { hospital = "3.5" }
[[clients]]
name = "b"
settings = { hospital = "2.40000009536743" }
unit_value = 1.5
[[clients]]
name = "c"
settings = { hospital = "3.70000004768372" }
worth_curve = [[0.5, 0.0], [1.0, 0.8]]
[[clients]]
name = "d"
settings = { hospital = "6.80000019073486" }
cost_per_round = 0.01
"""


def commonweal(folder, *words):
    done = subprocess.run([COMMONWEAL, *words], cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.mark.soak  # test_from_scenario.py compares the figures without processes
@pytest.mark.skipif(DATA is None or not (Path(DATA) / "tables").is_dir(), reason="COMMONWEAL_DATA has no folder tables")
def test_one_task_file_gives_the_same_figures_everywhere(tmp_path):
    shutil.copyfile(azpro_task.__file__, tmp_path / "task.py")
    shutil.copyfile(Path(DATA) / "tables" / "azpro.csv", tmp_path / "azpro.csv")
    (tmp_path / "scenario.toml").write_text(SCENARIO)
    commonweal(tmp_path, "run", "scenario.toml", "--out", "simulated", "--keys", "keys")
    commonweal(tmp_path, "flower", "new", "federation", "--scenario", "scenario.toml")
    said = commonweal(tmp_path, "flower", "rehearse", "federation", "--out", "rehearsed", "--keys", "keys", "--warm")
    assert "ledger verified" in said
    simulated, rehearsed = (
        json.loads((tmp_path / name / "history.json").read_text()) for name in ("simulated", "rehearsed")
    )
    assert len(simulated["rounds"]) == 2
    for ours, twin in zip(simulated["rounds"], rehearsed["rounds"], strict=True):
        assert (ours["retained"], ours["eliminated"]) == (twin["retained"], twin["eliminated"])
        for one, other in zip(ours["clients"], twin["clients"], strict=True):
            assert one["client"] == other["client"]
            for figure in ("accuracy", "alone", "contribution", "profit", "transfer", "payoff"):
                if one[figure] is None:  # eliminated
                    assert other[figure] is None
                else:
                    assert one[figure]["value"] == pytest.approx(other[figure]["value"], abs=TOLERANCE), figure
