"""`commonweal flower new --scenario`: the figures of the simulation, and for each member its own."""

from __future__ import annotations

import csv
import importlib
import stat
import sys

import numpy as np
import pytest

from commonweal.cli.init import init_command
from commonweal.errors import CommonwealError
from commonweal.flower.in_process import InProcessGrid, Node
from commonweal.flower.starting.from_scenario import make_federation_from
from commonweal.flower.starting.new_federation import make_federation
from commonweal.flower.transport import FlowerTransport
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.remote.coordinator.coordinate import coordinate
from commonweal.remote.coordinator.federation_file import read_federation
from commonweal.remote.member.member_file import read_member
from commonweal.scenario.toml_file import read_scenario
from commonweal.simulation.run import run_scenario
from commonweal.simulation.simulated_task import with_sites
from commonweal.task.file import task_in

TOLERANCE = 1e-6
# test_twin.py compares SCAFFOLD between simulation and Flower in every run.
ALGORITHMS = pytest.mark.parametrize("algorithm", ["fedavg", pytest.param("scaffold", marks=pytest.mark.soak)])


def import_app(folder, package, monkeypatch):
    """The app as Flower would import it, forgotten after the test."""
    monkeypatch.syspath_prepend(str(folder / "app"))
    importlib.invalidate_caches()
    before = set(sys.modules)
    client, server = (importlib.import_module(f"{package}.{name}_app") for name in ("client", "server"))
    task = importlib.import_module(f"{package}.task")
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in (package, "shapes", "scaling"):
            monkeypatch.setitem(sys.modules, name, sys.modules.pop(name))
    assert server.app is not None
    return task, client.app


def run_on_flower(folder, monkeypatch, tmp_path):
    federation = read_federation(folder / "federation.toml")
    task, app = import_app(folder, folder.name, monkeypatch)
    nodes = {
        number: Node(
            name=name,
            public_key=(folder / "members" / name / "node-key.pub").read_bytes(),
            node_config={"member": str(folder / "members" / name / "member.toml")},
            app=app,
        )
        for number, name in enumerate(federation.client_names, 100)
    }
    said = []
    monkeypatch.setattr("commonweal.federation.session.write_all", lambda *_: None)
    report = coordinate(
        FlowerTransport(InProcessGrid(nodes), federation.keys),
        federation,
        task_in(task),
        directory=tmp_path / "on-flower",
        keys=KeyDirectory(tmp_path / "keys"),
        say=said.append,
    )
    assert not [line for line in said if "missed" in line], said
    return report


def check_equal(on_flower, simulated):
    assert len(on_flower.rounds) == len(simulated.rounds)
    for ours, twin in zip(on_flower.rounds, simulated.rounds, strict=True):
        one, other = ours.record.decision, twin.record.decision
        assert (one.retained, one.eliminated) == (other.retained, other.eliminated)
        assert one.transfers == pytest.approx(other.transfers, abs=TOLERANCE)
        assert one.figures.contributions == pytest.approx(other.figures.contributions, abs=TOLERANCE)
        assert one.figures.profits == pytest.approx(other.figures.profits, abs=TOLERANCE)
        for accuracies, expected in zip(ours.iteration_accuracies, twin.iteration_accuracies, strict=True):
            assert accuracies == pytest.approx(expected, abs=TOLERANCE, nan_ok=True)


def edit(path, *pairs):
    text = path.read_text()
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text)


@pytest.fixture
def starter(tmp_path):
    init_command(task=tmp_path / "mine")
    edit(
        tmp_path / "mine" / "scenario.toml",
        ("rounds = 4", "rounds = 2"),
        ("iteration_limit = 5", "iteration_limit = 2"),
    )
    return tmp_path / "mine" / "scenario.toml"


@ALGORITHMS
def test_a_task_of_ones_own(starter, tmp_path, monkeypatch, algorithm):
    edit(
        starter,
        ('algorithm = "fedavg" ', f'algorithm = "{algorithm}" '),
        ('name = "east"', 'name = "east"\ncost_per_step = 0.003\nunit_value = 30.0'),
        ("unit_value = 30.0", "unit_value = 30.0\nworth_curve = [[0.5, 0.0], [0.8, 2.0]]"),
        ('name = "west"', 'name = "west"\ncost_per_round = 0.07'),
    )
    names = make_federation_from(tmp_path / "twin", read_scenario(starter))
    assert names == ("north", "south", "east", "west")
    east = read_member(tmp_path / "twin" / "members" / "east" / "member.toml")
    assert (east.unit_value, east.cost_per_step, east.cost_per_sample) == (30.0, 0.003, 0.0001)
    assert east.worth_curve == ((0.5, 0.0), (0.8, 2.0))
    assert east.settings == {"data": "east.csv"}
    assert (east.folder / "east.csv").read_text() == (starter.parent / "data" / "east.csv").read_text()
    assert stat.S_IMODE(east.folder.stat().st_mode) == 0o700
    check_equal(run_on_flower(tmp_path / "twin", monkeypatch, tmp_path), run_scenario(read_scenario(starter)))


@ALGORITHMS
def test_hostile_members(starter, tmp_path, monkeypatch, algorithm):
    """Poisoners, a free rider, and a profit that is not the truth, outside of the usual bounds."""
    edit(
        starter,
        ('algorithm = "fedavg" ', f'algorithm = "{algorithm}" '),
        ('name = "south"', 'name = "south"\ndefect = { kind = "noised-update", ratio = 0.5 }'),
        ('name = "east"', 'name = "east"\ndefect = { kind = "sign-flip", factor = 0.5 }\nreported_profit = -23.5'),
        ('name = "west"', 'name = "west"\ndefect = { kind = "untrained" }\nreported_profit = 0.0'),
    )
    scenario = read_scenario(starter)
    make_federation_from(tmp_path / "twin", scenario)
    members = {
        name: read_member(tmp_path / "twin" / "members" / name / "member.toml") for name in scenario.client_names
    }
    for client in scenario.clients:
        member = members[client.name]
        assert (member.defect, member.reported_profit) == (client.defect, client.reported_profit)
    on_flower, simulated = run_on_flower(tmp_path / "twin", monkeypatch, tmp_path), run_scenario(scenario)
    check_equal(on_flower, simulated)
    first, expected = on_flower.rounds[0], simulated.rounds[0].clients["east"].actual_profit
    assert first.record.decision.figures.profits["east"] == -23.5
    assert first.clients["east"].actual_profit is None, "nobody else knows"
    log = (members["east"].home / "log.txt").read_text()
    assert f"round 1: will report a profit of -23.5 instead of {expected.value:+.6g} and" in log


def test_settings_own_metrics_and_imported_files(starter, tmp_path, monkeypatch):
    """Common settings reach the first model and all members; what task.py imports from beside it comes along."""
    task = starter.parent / "task.py"
    edit(
        task,
        ("def make_module() -> nn.Module:", "def make_module(width: int) -> nn.Module:"),
        ("nn.Linear(len(FEATURES), 8), nn.ReLU(), nn.Linear(8, 1)", "*shapes.layers(len(FEATURES), width)"),
        ("model_of(make_module())", 'model_of(make_module(plan.settings["width"]))'),
        ("module = make_module()", 'module = make_module(context.member.settings["width"])'),
        ("import torch\n", "import shapes\nimport torch\n"),
    )
    with task.open("a") as file:
        file.write(
            "\n\ndef sharpness(targets, predictions, weights):\n    return float((predictions**2 * weights).sum())\n"
        )
    (starter.parent / "shapes.py").write_text(
        "from torch import nn\n\nimport scaling.by_two\n\n\ndef layers(count, width):\n"
        "    return nn.Linear(count, scaling.by_two.twice(width)), nn.ReLU(), nn.Linear(2 * width, 1)\n"
    )
    (starter.parent / "scaling").mkdir()
    (starter.parent / "scaling" / "__init__.py").write_text("")
    (starter.parent / "scaling" / "by_two.py").write_text("def twice(width):\n    return 2 * width\n")
    edit(starter, ('metric = "roc-auc"', 'metric = "sharpness"\nlower_is_better = true\nwidth = 3'))
    make_federation_from(tmp_path / "twin", read_scenario(starter))
    federation = read_federation(tmp_path / "twin" / "federation.toml")
    assert federation.task.settings == {"width": 3}
    assert (federation.task.metric_name, federation.task.lower_is_better) == ("sharpness", True)
    on_flower = run_on_flower(tmp_path / "twin", monkeypatch, tmp_path)
    assert on_flower.rounds[0].clients["north"].accuracy.value > 1
    for name in [name for name in sys.modules if name.partition(".")[0] in ("shapes", "scaling")]:
        monkeypatch.delitem(sys.modules, name)
    check_equal(on_flower, run_scenario(read_scenario(starter)))


def write_patients(path, *, delimiter=","):
    """Three sites; categories, missing values, a decimal comma if fields end with semicolons."""
    random = np.random.default_rng(3)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(["patient", "hospital", "age", "ward", "dose", "died"])
        for number in range(150):
            site = ("B", "A", "C")[number % 3]
            age, dose = int(random.integers(20, 90)), f"{random.normal():.3f}"
            died = int(random.random() < 1 / (1 + np.exp(-(age - 55) / 10 - float(dose))))
            dose = "" if number % 11 == 0 else dose.replace(".", "," if delimiter == ";" else ".")
            ward = random.choice(["x, y", "z", "w 7"])
            writer.writerow([f"p{number}", site, age, ward, dose, ("no", "yes")[died]])


@pytest.mark.parametrize("delimiter", [",", ";"])
def test_a_table(tmp_path, monkeypatch, delimiter):
    write_patients(tmp_path / "patients.csv", delimiter=delimiter)
    scenario = tmp_path / "patients.toml"
    init_command(str(scenario), table=tmp_path / "patients.csv", site="hospital", target="died")
    edit(scenario, ("rounds = 4", "rounds = 2"), ("iteration_limit = 5", "iteration_limit = 2"))
    with scenario.open("a") as file:
        file.write('\n[[clients]]\nname = "C"\nunit_value = 3.0\ncost_per_sample = 0.002\n')
    names = make_federation_from(tmp_path / "twin", read_scenario(scenario))
    assert names == ("A", "B", "C")
    kept = []
    for name in names:
        folder = tmp_path / "twin" / "members" / name
        assert read_member(folder / "member.toml").settings == {"table": "data.csv"}
        with (folder / "data.csv").open(newline="") as file:
            rows = list(csv.DictReader(file, delimiter=delimiter))
        assert list(rows[0]) == ["patient", "age", "ward", "dose", "died"]
        kept += [(row["patient"], name, row["age"], row["ward"], row["dose"], row["died"]) for row in rows]
    with (tmp_path / "patients.csv").open(newline="") as file:
        assert sorted(kept) == sorted(map(tuple, list(csv.reader(file, delimiter=delimiter))[1:]))
    assert read_member(tmp_path / "twin" / "members" / "C" / "member.toml").unit_value == 3.0
    assert "patients.csv" not in (tmp_path / "twin" / "app" / "twin" / "task.py").read_text()
    simulated = run_scenario(with_sites(read_scenario(scenario)))
    check_equal(run_on_flower(tmp_path / "twin", monkeypatch, tmp_path), simulated)


def test_a_table_for_each_client(tmp_path, monkeypatch):
    write_patients(tmp_path / "patients.csv")
    with (tmp_path / "patients.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    for name in ("A", "B", "C"):
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([header, *(row for row in rows if row[1] == name)])
    clients = "".join(f'[[clients]]\nname = "{name}"\nsettings = {{ table = "{name}.csv" }}\n' for name in "ABC")
    (tmp_path / "x.toml").write_text(
        'name = "x"\nrounds = 1\n[mechanism]\nmu = 1.0\n[learning]\niteration_limit = 1\n[task]\ntarget = "died"\n'
        f'ignore = ["patient", "hospital"]\nmetric = "roc-auc"\n{clients}'
    )
    make_federation_from(tmp_path / "twin", read_scenario(tmp_path / "x.toml"))
    simulated = run_scenario(read_scenario(tmp_path / "x.toml"))
    check_equal(run_on_flower(tmp_path / "twin", monkeypatch, tmp_path), simulated)


def test_the_template(tmp_path, monkeypatch):
    make_federation(tmp_path / "template")
    report = run_on_flower(tmp_path / "template", monkeypatch, tmp_path)
    assert report.rounds[-1].clients["north"].accuracy.value > 0.5


@pytest.mark.parametrize(
    ("pairs", "parts"),
    [
        ([('algorithm = "fedavg"', 'algorithm = "fedamp"')], ["'mine' cannot run on Flower: FedAMP gives each member"]),
        ([('loss_rule = "loss"', 'loss_rule = "cost"')], ['loss_rule = "cost" needs costs, which never leave']),
        ([("mu = 0.5 ", 'kind = "fli" '), ('loss_rule = "loss"', "")], ['kind = "fli" needs costs']),
        ([('name = "east"', 'name = "e/w"')], ["usable as a folder name, got 'e/w'"]),
        ([('file = "task.py"', 'file = "tusk.py"')], ["Cannot read the task's file", "tusk.py: no such file"]),
    ],
)
def test_what_cannot_run_on_flower_is_refused(starter, tmp_path, pairs, parts):
    edit(starter, *pairs)
    with pytest.raises(CommonwealError) as caught:
        make_federation_from(tmp_path / "twin", read_scenario(starter))
    for part in parts:
        assert part in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine"]


def test_agreed_rates(starter, tmp_path, monkeypatch):
    """Rates by class go into the operator's file, which then needs no profit bounds of its own."""
    edit(
        starter,
        ("[mechanism]\n", '[mechanism]\nprofits = "rates"\n'),
        (
            "[learning]",
            "[rates.classes.large]\ngain = 30.0\nsample = 1e-3\n[rates.classes.small]\ngain = 4.0\n[learning]",
        ),
        ('name = "north"', 'name = "north"\nclass = "large"'),
        ('name = "south"', 'name = "south"\nclass = "small"'),
        ('name = "east"', 'name = "east"\nclass = "large"\nunit_value = 99.0\nreported_profit = -5.0'),
        ('name = "west"', 'name = "west"\nclass = "small"'),
    )
    scenario = read_scenario(starter)
    make_federation_from(tmp_path / "twin", scenario)
    federation = read_federation(tmp_path / "twin" / "federation.toml")
    assert federation.mechanism.rates == scenario.mechanism.rates
    assert {terms.name: terms.profit_bounds for terms in federation.clients} == {
        "north": (-1e4, 1e4), "south": (-10.0, 10.0), "east": (-1e4, 1e4), "west": (-10.0, 10.0),
    }  # fmt: skip
    on_flower = run_on_flower(tmp_path / "twin", monkeypatch, tmp_path)
    check_equal(on_flower, run_scenario(scenario))
    assert "profit" not in on_flower.declared
    assert on_flower.rounds[0].clients["east"].profit.standard_error is not None, "its uncertainty is known to all"
