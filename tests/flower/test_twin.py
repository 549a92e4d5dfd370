"""The same scenario and seed on Flower and in the simulator: the same decisions and the same figures."""

from __future__ import annotations

import importlib
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from commonweal.flower.in_process import InProcessGrid, Node
from commonweal.flower.transport import FlowerTransport
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.node_keys import NodeKey
from commonweal.remote.coordinator.coordinate import coordinate
from commonweal.remote.coordinator.federation_file import read_federation
from commonweal.remote.member.member_file import read_member
from commonweal.simulation.run import run_scenario
from commonweal.task.file import task_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits"
TOLERANCE = 1e-6


def import_app(folder, monkeypatch):
    """The example's package, as Flower would import it from the app's folder."""
    monkeypatch.syspath_prepend(str(folder / "app"))
    for name in [name for name in sys.modules if name == "digits" or name.startswith("digits.")]:
        monkeypatch.delitem(sys.modules, name)
    task, client_app = importlib.import_module("digits.task"), importlib.import_module("digits.client_app")
    for name in [name for name in sys.modules if name == "digits" or name.startswith("digits.")]:
        monkeypatch.setitem(sys.modules, name, sys.modules.pop(name))  # so that it is forgotten after the test
    return task, client_app.app


def scenario_with_private_figures(task, folder, mechanism):
    """What nobody in the federation has: everything in one place, as the simulator needs it."""
    clients = []
    for client in task.SCENARIO.clients:
        member = read_member(folder / "members" / client.name / "member.toml")
        names = ("unit_value", "cost_per_sample", "cost_per_step", "cost_per_round")
        clients.append(replace(client, **{name: getattr(member, name) for name in names}))
    return replace(task.SCENARIO, clients=tuple(clients), mechanism=mechanism)


@pytest.mark.parametrize(
    ("algorithm", "mechanism"),
    [
        pytest.param("fedavg", 'contribution = "marginal"', marks=pytest.mark.soak),
        ("fedbn", 'contribution = "shapley"'),
        pytest.param("fedprox", 'contribution = "adaptive"\nevaluation_limit = 16', marks=pytest.mark.soak),
        pytest.param("scaffold", 'contribution = "marginal"', marks=pytest.mark.soak),
        pytest.param("fedavg", 'contribution = "marginal"\nfigures = "pooled"', marks=pytest.mark.soak),
        ("fedavg", 'contribution = "marginal"\nfigures = "forecast"'),
        ("fedavg", 'contribution = "path"\nscorers = "guarded"'),
        pytest.param("fedbn", 'contribution = "path"', marks=pytest.mark.soak),
        pytest.param("scaffold", 'contribution = "path"', marks=pytest.mark.soak),
    ],
)
def test_a_federation_on_flower_is_the_simulators_twin(tmp_path, monkeypatch, algorithm, mechanism):
    folder = tmp_path / "digits"
    shutil.copytree(EXAMPLE, folder)
    _edit(folder / "app" / "digits" / "digits.toml", 'algorithm = "fedavg"', f'algorithm = "{algorithm}"')
    _edit(folder / "federation.toml", "iteration_limit = 1", f'iteration_limit = 2\nalgorithm = "{algorithm}"')
    _edit(folder / "app" / "digits" / "digits.toml", "iteration_limit = 1", "iteration_limit = 2")
    _edit(folder / "federation.toml", 'contribution = "marginal"', mechanism)
    _edit(folder / "federation.toml", 'name = "valley"', 'name = "valley"\nprofit_bounds = [-2.0, 2.0]')
    _edit(folder / "members" / "valley" / "member.toml", "unit_value = 1.0", "unit_value = 1.3\ncost_per_step = 1e-3")
    task, app = import_app(folder, monkeypatch)
    nodes = {}
    for number, name in enumerate(task.SCENARIO.client_names, 100):
        member = folder / "members" / name
        NodeKey.new().write(member / "node-key")
        public = (member / "node-key.pub").read_bytes()
        nodes[number] = Node(name=name, public_key=public, node_config={"member": str(member / "member.toml")}, app=app)
    federation = read_federation(folder / "federation.toml")
    monkeypatch.setattr("commonweal.federation.session.write_all", lambda *_: None)
    on_flower = coordinate(
        FlowerTransport(InProcessGrid(nodes), federation.keys),
        federation,
        task_of(vars(task), "task.py"),
        directory=tmp_path / "out",
        keys=KeyDirectory(tmp_path / "keys"),
        say=lambda line: None,
    )
    scenario = scenario_with_private_figures(task, folder, federation.mechanism)
    simulated = run_scenario(scenario, data_directory=None)
    assert len(on_flower.rounds) == len(simulated.rounds)
    for ours, twin in zip(on_flower.rounds, simulated.rounds, strict=True):
        one, other = ours.record.decision, twin.record.decision
        assert (one.retained, one.eliminated) == (other.retained, other.eliminated)
        assert one.transfers == pytest.approx(other.transfers, abs=TOLERANCE)
        assert one.figures.contributions == pytest.approx(other.figures.contributions, abs=TOLERANCE)
        assert one.figures.profits == pytest.approx(other.figures.profits, abs=TOLERANCE)
        assert ours.record.gains == twin.record.gains, "hits are whole numbers, so both pool the same figures"
        assert (one.figures.expected is None) == ('"forecast"' not in mechanism)
        if one.figures.expected is not None:
            assert one.figures.expected == pytest.approx(other.figures.expected, abs=TOLERANCE)
        assert len(ours.iteration_accuracies) == len(twin.iteration_accuracies)
        for accuracies, expected in zip(ours.iteration_accuracies, twin.iteration_accuracies, strict=True):
            assert accuracies == pytest.approx(expected, abs=TOLERANCE)
    assert {c: (r.utility, r.cost, r.step_count) for c, r in on_flower.rounds[0].clients.items()} == dict.fromkeys(
        scenario.client_names, (None, None, None)
    ), "what a client keeps to itself is in no record"


def _edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
