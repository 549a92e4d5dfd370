"""A run that version 0.1.0 left after two of its four rounds is continued, from its scenario and checkpoint."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from commonweal.scenario.toml_file import read_scenario
from commonweal.simulation.run import run_scenario

LEFT = Path(__file__).parent / "made_by_0_1"


@pytest.mark.usefixtures("numbers_only")
def test_a_run_of_the_first_version_continues(tmp_path):
    shutil.copy(LEFT / "checkpoint.npz", tmp_path)
    with np.load(LEFT / "checkpoint.npz") as archive:
        written = json.loads(archive["document"].tobytes())["rounds"]
    report = run_scenario(read_scenario(LEFT / "four.toml"), directory=tmp_path, resume=True)
    assert len(written) == 2
    assert len(report.rounds) == 4
    assert report.rules.version == 1
    assert {round_.record.decision.rules.version for round_ in report.rounds} == {1}, "also of the rounds that follow"
    for before, now in zip(written, report.rounds, strict=False):
        figures = now.record.decision.figures
        assert before["figures"]["profits"] == dict(figures.profits)
        assert before["figures"]["contributions"] == dict(figures.contributions)
        for client, measured in before["measured"].items():
            assert measured["accuracy"]["value"] == now.clients[client].accuracy.value
