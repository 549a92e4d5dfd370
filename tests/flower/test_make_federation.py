"""What `make federation` does: five SuperNodes, real processes, a settled ledger, a report, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from commonweal.remote.coordinator.federation_file import read_federation
from commonweal.simulation.run import run_scenario
from tests.flower.test_twin import EXAMPLE, TOLERANCE, import_app, scenario_with_private_figures

ROOT = EXAMPLE.parents[1]
COMMONWEAL = str(Path(sys.executable).with_name("commonweal"))

pytestmark = pytest.mark.soak


def recipe():
    """The command of the Makefile's target, without the results' place.

    Members load packages once rather than for every message (--warm), which takes a third of the time; small rehearsals
    elsewhere do without.
    """
    (line,) = re.findall(r"^federation:.*\n\t\$\(BIN\)/commonweal (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return [*line.replace("--out out/federation", "").replace("--overwrite", "").split(), "--warm"]


def marked_processes(folder):
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # ended, or somebody else's
            if f"MARK={folder}".encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
    return found


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("make-federation")
    command = [COMMONWEAL, *recipe(), "--out", str(folder / "out"), "--keys", str(folder / "keys")]
    environment = {**os.environ, "MARK": str(folder)}  # which everything that it starts inherits
    seen = []
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        for line in process.stderr:
            if "round 1 is settled" in line:
                seen += marked_processes(folder)
        process.wait(1500)
        said = process.stdout.read()
    assert process.returncode == 0, said
    if Path("/proc/self/environ").exists():
        assert len(seen) > 6, "a SuperLink, five SuperNodes and a coordinator were there"
        assert not marked_processes(folder), "it cleans up after itself"
    assert f"report: {folder / 'out' / 'report.html'}" in said
    assert "ledger verified" in said
    return folder / "out"


def test_it_leaves_a_report_a_ledger_and_all_statements(out):
    assert "digits" in (out / "report.html").read_text()
    verified = subprocess.run(
        [COMMONWEAL, "ledger", "verify", str(out / "ledger.db")], capture_output=True, text=True, check=False
    )
    assert verified.returncode == 0, verified.stdout
    members = sorted(path.name for path in (out / "members").iterdir())
    assert members == sorted(("harbour", "valley", "old-town", "summit", "lakeside"))
    for name in members:
        assert (out / "members" / name / "statements" / "round-0001.json").exists()
        assert "will report a profit" in (out / "members" / name / "log.txt").read_text()
    assert not list(EXAMPLE.rglob("node-key*")), "nothing is written into the example"


def test_it_is_the_simulators_twin(out, monkeypatch):
    """Over TLS and process boundaries too: the same decisions, and to 1e-6 the same figures."""
    task, _ = import_app(EXAMPLE, monkeypatch)
    history = json.loads((out / "history.json").read_text())
    mechanism = read_federation_with_keys(out).mechanism
    simulated = run_scenario(scenario_with_private_figures(task, EXAMPLE, mechanism), data_directory=None)
    assert len(history["rounds"]) == len(simulated.rounds) == 3
    for ours, twin in zip(history["rounds"], simulated.rounds, strict=True):
        decision = twin.record.decision
        assert (tuple(ours["retained"]), tuple(ours["eliminated"])) == (decision.retained, decision.eliminated)
        rows = {row["client"]: row for row in ours["clients"]}
        for client, figures in twin.clients.items():
            assert rows[client]["accuracy"]["value"] == pytest.approx(figures.accuracy.value, abs=TOLERANCE)
            assert rows[client]["contribution"]["value"] == pytest.approx(figures.contribution.value, abs=TOLERANCE)
            assert rows[client]["profit"]["value"] == pytest.approx(figures.profit.value, abs=TOLERANCE)
            if figures.transfer is not None:
                assert rows[client]["transfer"]["value"] == pytest.approx(figures.transfer.value, abs=TOLERANCE)


def read_federation_with_keys(out):
    """The example's terms; the rehearsal made its keys elsewhere."""
    from commonweal.ledger.node_keys import NodeKey

    folder = out.parent / "terms"
    for name in ("harbour", "valley", "old-town", "summit", "lakeside"):
        (folder / "members" / name).mkdir(parents=True)
        NodeKey.new().write(folder / "members" / name / "node-key")
    (folder / "federation.toml").write_text((EXAMPLE / "federation.toml").read_text())
    return read_federation(folder / "federation.toml")
