"""A task of a user's own in the simulator, compared with a plain loop over the same functions."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import commonweal as cw
from commonweal.federation.session import run_rounds
from commonweal.scenario.toml_file import read_scenario
from commonweal.seeds import stream
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.simulated_task import task_of
from commonweal.task.records import TaskContext, TaskMember, TaskPlan
from tests.simulation import line_task

NAMES = ("north", "south", "east")
SLOPES = {"north": 0.0, "south": 0.5, "east": -0.5}
SCENARIO = """
name = "lines"
rounds = 3
seed = 3
[mechanism]
mu = "inf"
{mechanism}
[learning]
learning_rate = 0.3
iteration_limit = 2
stop_below = 0.0
{learning}
[task]
file = "task.py"
{task}
[defaults]
cost_per_step = 1e-4
cost_per_round = 1e-2
{defaults}
"""


def write(folder, *, mechanism="", learning="", task='metric = "roc-auc"', defaults=""):
    shutil.copyfile(line_task.__file__, folder / "task.py")
    clients = "".join(f'[[clients]]\nname = "{name}"\nsettings = {{ slope = {SLOPES[name]} }}\n' for name in NAMES)
    text = SCENARIO.format(mechanism=mechanism, learning=learning, task=task, defaults=defaults)
    (folder / "scenario.toml").write_text(text + clients)
    return folder / "scenario.toml"


def rounds_of(file):
    scenario = read_scenario(file)
    with InProcessClients(scenario, task_of(scenario, None)) as clients:
        return list(run_rounds(clients, scenario)), clients


class PlainLoop:
    """The same federation as a loop: no vectors, no threads, no memory of scores."""

    def __init__(self):
        self.members = {n: TaskMember(name=n, settings={"slope": SLOPES[n]}, seed=3, round_count=3) for n in NAMES}
        self.shared = line_task.initial_model(TaskPlan(seed=3))
        self.alone = dict.fromkeys(NAMES, self.shared)
        self.rows = {name: [] for name in NAMES}
        self.paths = {}  # what each client contributed along the last round
        self.steps = self.alone_steps = {}

    def joined(self, name, kind):
        return tuple(np.concatenate(part) for part in zip(*(getattr(d, kind) for d in self.rows[name]), strict=True))

    def context(self, name, purpose, number, iteration):
        rng = stream(3, purpose, name, number, iteration)
        return TaskContext(
            member=self.members[name], round_number=number, iteration=iteration, seed=3, rng=rng, learning_rate=0.3
        )

    def auc(self, model, name):
        found = line_task.evaluate(model, self.joined(name, "validation"), None)
        return roc_auc_score(found.targets, found.values[:, 1])

    def mean(self, models, names):
        sizes = [len(self.joined(name, "training")[0]) for name in names]
        return {
            key: sum(s / sum(sizes) * models[n][key] for s, n in zip(sizes, names, strict=True)) for key in self.shared
        }

    def path(self, start, updates):
        """The slope of the mean probability of the true class in the direction of each client's updates."""
        sizes = {name: len(self.joined(name, "training")[0]) for name in NAMES}
        slopes, step = {}, 1e-6
        for name in NAMES:
            after, before = (
                {key: (start[key] + self.shared[key]) / 2 + sign * step * updates[name][key] for key in start}
                for sign in (1, -1)
            )
            gain = self.probability(after) - self.probability(before)
            slopes[name] = sizes[name] / sum(sizes.values()) * gain / (2 * step)
        return slopes

    def probability(self, model):
        means = []
        for name in NAMES:
            found = line_task.evaluate(model, self.joined(name, "validation"), None)
            means.append(np.mean(found.values[np.arange(len(found.targets)), found.targets]))
        return np.mean(means)

    def run(self, number):
        """The metric of each client's federated and lone model, and what each contributes."""
        self.steps, self.alone_steps = dict.fromkeys(NAMES, 0), dict.fromkeys(NAMES, 0)
        for name in NAMES:
            self.rows[name].append(line_task.load(number, self.members[name]))
        start, updates = self.shared, {name: dict.fromkeys(self.shared, 0.0) for name in NAMES}
        for iteration in (1, 2):
            local = {}
            for name in NAMES:
                rows = self.joined(name, "training")
                trained = line_task.train(self.shared, rows, self.context(name, "work", number, iteration))
                local[name], self.steps[name] = trained.model, self.steps[name] + trained.step_count
                trained = line_task.train(self.alone[name], rows, self.context(name, "alone", number, iteration))
                self.alone[name], self.alone_steps[name] = trained.model, self.alone_steps[name] + trained.step_count
            base = dict(self.shared)
            if number == iteration == 1:  # the statistics of an untrained model are placeholders
                first = self.mean(local, NAMES)
                base |= {key: first[key] for key in base if "running" in key}
                start = base
            for name in NAMES:
                updates[name] = {key: updates[name][key] + local[name][key] - base[key] for key in base}
            self.shared = self.mean(local, NAMES)
        self.paths = self.path(start, updates)
        together = {name: self.auc(self.shared, name) for name in NAMES}
        value = np.mean(list(together.values()))
        contributions = {}
        for left_out in NAMES:
            without = self.mean(local, [name for name in NAMES if name != left_out])
            contributions[left_out] = value - np.mean([self.auc(without, name) for name in NAMES])
        return together, {name: self.auc(self.alone[name], name) for name in NAMES}, contributions


def test_a_run_is_the_plain_loop(tmp_path):
    results, clients = rounds_of(write(tmp_path, mechanism='utility = "advantage"'))
    loop = PlainLoop()
    for number, result in enumerate(results, 1):
        together, alone, contributions = loop.run(number)
        figures = result.record.decision.figures
        assert figures.contributions == pytest.approx(contributions, abs=1e-12)
        for name in NAMES:
            measured = result.measured[name]
            assert measured.accuracy.value == pytest.approx(together[name], abs=1e-12)
            assert measured.alone.value == pytest.approx(alone[name], abs=1e-12)
            cost, alone_cost = 1e-4 * loop.steps[name] + 1e-2, 1e-4 * loop.alone_steps[name]
            assert (measured.cost, measured.alone_cost) == pytest.approx((cost, alone_cost), abs=1e-12)
            assert figures.profits[name] == pytest.approx(together[name] - alone[name] - cost + alone_cost, abs=1e-12)
    for name in NAMES:
        lone = clients._work.layout.unpack(clients._simulated[name].alone)
        assert all(np.array_equal(lone[key], loop.alone[name][key]) for key in lone), "to the bit"


def test_contributions_by_path_are_slopes_along_the_round(tmp_path):
    """Against differences of the mean score: batch normalisation, its statistics, and more than one iteration."""
    results, _ = rounds_of(write(tmp_path, mechanism='contribution = "path"'))
    loop = PlainLoop()
    for number, result in enumerate(results, 1):
        loop.run(number)
        assert result.record.decision.figures.contributions == pytest.approx(loop.paths, abs=1e-9)
        assert result.effects.mean(axis=0).tolist() == pytest.approx(list(loop.paths.values()), abs=1e-9)


def test_contributions_on_the_smooth_score(tmp_path):
    """Utility keeps its metric; what is lost without a client is counted in probabilities of the true class."""
    results, _ = rounds_of(write(tmp_path, mechanism='contribution_score = "smooth"'))
    loop = PlainLoop()
    for number, result in enumerate(results, 1):
        together, _, _ = loop.run(number)
        everyone = next(v for members, v in result.coalition_values if members == NAMES)
        assert everyone.value == pytest.approx(loop.probability(loop.shared), abs=1e-12)
        for members, value in result.coalition_values:
            if len(members) == 2:
                (left_out,) = set(NAMES) - set(members)
                contribution = result.record.decision.figures.contributions[left_out]
                assert contribution == pytest.approx(everyone.value - value.value, abs=1e-12)
        assert {n: m.accuracy.value for n, m in result.measured.items()} == pytest.approx(together, abs=1e-12)


@pytest.mark.parametrize(
    ("removed", "mechanism", "message"),
    [
        (
            "def gradient(",
            'contribution = "path"',
            'task.py has no function gradient, which contribution = "path" needs. Add one, or write contribution = '
            '"marginal" and contribution_score = "smooth".',
        ),
        (
            "return Predictions(targets=validation[1], values=chances)",
            'contribution_score = "smooth"',
            'contribution_score = "smooth" needs predictions, but evaluate returned one score per sample.',
        ),
    ],
)
def test_a_task_that_lacks_what_contributions_need(tmp_path, removed, mechanism, message):
    file = write(tmp_path, mechanism=mechanism, task="")
    task = (tmp_path / "task.py").read_text()
    assert removed in task
    other = (
        "def of_no_use(" if removed.startswith("def") else "return (chances.argmax(1) == validation[1]).astype(float)"
    )
    (tmp_path / "task.py").write_text(task.replace(removed, other))
    with pytest.raises(cw.CommonwealError) as raised:
        rounds_of(file)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (
            "[]",
            "gradient must return an array for each of the model's, '0.bias', '0.weight', '1.bias', '1.running_mean'",
        ),
        ("{**found, '0.bias': found['0.bias'][:1]}", "gradient must return '0.bias' as floats with the shape (4,)"),
        ("{**found, '0.bias': found['0.bias'] * np.nan}", "finite numbers, got infinity or nan in '0.bias'"),
    ],
)
def test_a_gradient_of_the_wrong_kind_is_refused(tmp_path, returned, message):
    file = write(tmp_path, mechanism='contribution = "path"')
    with (tmp_path / "task.py").open("a") as task:
        task.write(f"\nright = gradient\ndef gradient(*given):\n    found = right(*given)\n    return {returned}\n")
    with pytest.raises(cw.CommonwealError) as raised:
        rounds_of(file)
    assert "gradient in task.py failed for client 'north' in round 1" in str(raised.value)
    assert message in str(raised.value)


def test_an_interrupted_run_continues_to_the_bit(tmp_path, monkeypatch):
    """With models trained alone, with what the task remembers, and with effects along the path."""
    mechanism = 'utility = "advantage"\ncontribution = "path"'
    file = write(tmp_path, mechanism=mechanism, learning='algorithm = "fedbn"')
    whole = cw.run(file)
    saved = []
    from commonweal.federation.checkpoint import CheckpointFile

    save = CheckpointFile.save

    def save_and_stop(self, results, state):
        save(self, results, state)
        saved.append(state)
        loaded, _ = self.load(read_scenario(file).mechanism.rules)
        assert [one.effects.tobytes() for one in loaded] == [one.effects.tobytes() for one in results]
        if len(results) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(CheckpointFile, "save", save_and_stop)
        with pytest.raises(KeyboardInterrupt):
            cw.run(file, out=tmp_path / "out")
    assert saved[-1]["0/task_memory/trained"].tolist() == [4.0]
    monkeypatch.setattr("commonweal.federation.session.write_all", lambda *_: None)
    again = cw.run(file, out=tmp_path / "out", resume=True)
    for one, other in zip(whole.rounds, again.rounds, strict=True):
        assert one.record.decision.figures == other.record.decision.figures
        assert {c: r.alone for c, r in one.clients.items()} == {c: r.alone for c, r in other.clients.items()}
        assert {c: r.contribution for c, r in one.clients.items()} == {
            c: r.contribution for c, r in other.clients.items()
        }


def test_a_metric_of_ones_own_of_which_less_is_better(tmp_path):
    results, _ = rounds_of(write(tmp_path, task='metric = "brier"\nlower_is_better = true'))
    last = results[-1]
    assert all(0 < measured.accuracy.value < 0.5 for measured in last.measured.values())
    for name in NAMES:
        measured = last.measured[name]
        gained = measured.previous_accuracy - measured.accuracy.value
        assert measured.utility.value == pytest.approx(gained, abs=1e-12), "falling is a gain"
    everybody = next(value for coalition, value in last.coalition_values if set(coalition) == set(NAMES))
    mean = np.mean([measured.accuracy.value for measured in last.measured.values()])
    assert everybody.value == pytest.approx(-mean, abs=1e-12)


def test_a_curve_from_metric_to_worth(tmp_path):
    results, _ = rounds_of(write(tmp_path, defaults="worth_curve = [[0.7, 0.0], [0.9, 1.0]]\nunit_value = 5.0"))
    for result in results:
        for measured in result.measured.values():
            now, before = (
                np.clip((x - 0.7) / 0.2, 0, 1) for x in (measured.accuracy.value, measured.previous_accuracy)
            )
            assert measured.utility.value == pytest.approx(5 * (now - before), abs=1e-12)


@pytest.mark.parametrize("algorithm", ["fedprox", "scaffold", "fedamp", "fedbn"])
def test_algorithms_work_with_any_task(tmp_path, algorithm):
    plain, _ = rounds_of(write(tmp_path))
    strongly = "\nproximal_weight = 3.0" if algorithm == "fedprox" else ""
    results, _ = rounds_of(write(tmp_path, learning=f'algorithm = "{algorithm}"{strongly}'))
    assert [r.iteration_accuracies for r in results] != [r.iteration_accuracies for r in plain]


def test_fedprox_adds_its_pull_to_the_gradient(tmp_path):
    """One client's first iteration, by the formula: g + ρ (w − w_shared)."""
    import torch
    from torch import nn

    file = write(tmp_path, learning='algorithm = "fedprox"\nproximal_weight = 2.0')
    scenario = read_scenario(file)
    with InProcessClients(scenario, task_of(scenario, None), worker_count=1) as clients:
        clients.open_round(1, NAMES, {})
        clients.train(1, 1, NAMES)
        trained = clients._work.layout.unpack(clients._local["south"].result.model)
    loop = PlainLoop()
    points, sides = (torch.from_numpy(a) for a in line_task.load(1, loop.members["south"]).training)
    module = line_task.make_module()
    line_task.load_model(module, loop.shared)
    start = {name: parameter.detach().clone() for name, parameter in module.named_parameters()}
    order = stream(3, "work", "south", 1, 1).permutation(len(sides))
    for batch in np.array_split(order, max(1, len(sides) // 10)):
        module.zero_grad()
        nn.functional.cross_entropy(module(points[batch]), sides[batch]).backward()
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                parameter -= 0.3 * (parameter.grad + 2.0 * (parameter - start[name]))
    for name, array in line_task.model_of(module).items():
        np.testing.assert_allclose(trained[name], array, atol=1e-12)


def test_a_task_that_ignores_corrections_is_refused(tmp_path):
    file = write(tmp_path, learning='algorithm = "scaffold"')
    task = tmp_path / "task.py"
    task.write_text(task.read_text().replace("        context.correct_gradients(module.named_parameters())\n", ""))
    with pytest.raises(cw.FederationError, match=r"train in task\.py must call context\.correct_gradients"):
        cw.run(file)


def test_results_do_not_depend_on_the_number_of_threads(tmp_path):
    file = write(tmp_path, mechanism='utility = "advantage"')
    one, two = (cw.run(file, worker_count=count) for count in (1, 2))
    assert [r.record.decision.figures for r in one.rounds] == [r.record.decision.figures for r in two.rounds]


def test_another_task_file_is_another_run(tmp_path):
    scenario = read_scenario(write(tmp_path))
    before = task_of(scenario, None).fingerprint
    (tmp_path / "task.py").write_text((tmp_path / "task.py").read_text() + "\n# changed\n")
    assert task_of(scenario, Path()).fingerprint != before
