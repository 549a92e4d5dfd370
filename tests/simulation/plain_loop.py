"""A federation as one plain, slow loop: PyTorch's modules, one client after another, every model scored each time.

A session with the in-process client set is tested against it: the same scenario gives the same accuracies,
contributions and decisions. It has no absences, threads, remembered scores, uncertainties or checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from commonweal.data.federated_dataset import FederatedDataset, RoundSamples
from commonweal.decision.decide import decide_figures
from commonweal.federation.measuring import has_converged
from commonweal.learning.algorithms import LocalResult, make_algorithm
from commonweal.learning.learner import Correction
from commonweal.learning.local_training import make_epochs, pretended_model
from commonweal.learning.models import ARCHITECTURES, Layout, average, to_tensor
from commonweal.learning.plain import PlainLearner
from commonweal.records import Decision, Figures
from commonweal.scenario.spec import FreeRide, NoisedUpdate, Scenario, ScoreName, SignFlip
from commonweal.seeds import stream, stream_number
from commonweal.valuation import cost, profit, utility
from commonweal.valuation.measure import ValuationInputs
from commonweal.valuation.registry import MEASURES


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainRound:
    """What the loop found out in a round."""

    accuracies: Mapping[str, float]
    step_counts: Mapping[str, int]
    iteration_count: int
    decision: Decision


def run_plainly(
    scenario: Scenario, dataset: FederatedDataset, *, dtype: torch.dtype = torch.float32
) -> list[PlainRound]:
    """All rounds of a scenario."""
    loop = _Loop(scenario, dataset, dtype)
    rounds: list[PlainRound] = []
    for round_number in range(1, scenario.round_count + 1):
        if len(loop.active) > 1:
            rounds.append(loop.hold(round_number))
    return rounds


class _Loop:
    """The federation between rounds, and one round after another."""

    def __init__(self, scenario: Scenario, dataset: FederatedDataset, dtype: torch.dtype) -> None:
        self.scenario = scenario
        self.dataset = dataset
        self.dtype = dtype
        self.layout = Layout(ARCHITECTURES[scenario.learning.model], dataset.image_shape, dataset.class_count)
        self.learner = PlainLearner(self.layout)
        self.algorithm = make_algorithm(
            scenario.learning.algorithm,
            self.layout,
            learning_rate=scenario.learning.learning_rate,
            parameters=scenario.learning.parameters,
        )
        generator = torch.Generator().manual_seed(stream_number(scenario.seed, "initial model") % 2**63)
        self.shared = self.layout.initial(generator, dtype)
        self.specs = {spec.name: spec for spec in scenario.clients}
        self.active = list(self.specs)
        self.memories = {client: self.algorithm.first_memory(self.shared) for client in self.active}
        self.samples_by_client: dict[str, list[RoundSamples]] = {client: [] for client in self.active}
        self.previous: dict[str, float] = {}

    def hold(self, round_number: int) -> PlainRound:
        learning = self.scenario.learning
        for client in self.active:
            self.samples_by_client[client].append(self.dataset.samples_for(client, round_number))
        start, start_memories = self.shared, dict(self.memories)
        accuracies = self.accuracies(self.shared, self.memories)
        previous = self.previous or accuracies
        step_counts = dict.fromkeys(self.active, 0)
        results: dict[str, LocalResult] = {}
        bases: list[Tensor] = []
        locals_: list[dict[str, Tensor]] = []
        for iteration in range(1, learning.iteration_limit + 1):
            served = self.algorithm.serve([self.memories[c] for c in self.active], self.sizes(self.active))
            for client in self.active:
                client_steps = partial(self.descend, client, round_number, iteration, step_counts)
                local = self.algorithm.local(self.shared, served, self.memories[client], client_steps)
                results[client] = replace(local, model=self.sent(client, round_number, iteration, local.model))
            bases.append(self.shared)
            locals_.append({client: results[client].model for client in self.active})
            self.memories = {client: results[client].memory for client in self.active}
            self.shared = self.aggregate(results, self.active)
            before, accuracies = accuracies, self.accuracies(self.shared, self.memories)
            if has_converged(before, accuracies, learning.stop_below):
                break

        def coalition_value(coalition: frozenset[str]) -> float:
            inside = [client for client in self.active if client in coalition]
            if inside:
                values = self.accuracies(self.aggregate(results, inside), self.memories)
            else:
                values = self.accuracies(start, start_memories)
            return sum(values.values()) / len(values)

        if self.scenario.mechanism.measure == "path":
            contributions: Mapping[str, float] = self.path(round_number, start, bases, locals_)
        else:
            contributions = dict(self.contributions(round_number, coalition_value))
        decision = self.decide(round_number, accuracies, previous, step_counts, contributions)
        self.previous = accuracies
        self.active = list(decision.retained)
        return PlainRound(accuracies=accuracies, step_counts=step_counts, iteration_count=iteration, decision=decision)

    def descend(
        self,
        client: str,
        round_number: int,
        iteration: int,
        step_counts: dict[str, int],
        start: Tensor,
        correction: Correction | None = None,
    ) -> tuple[Tensor, int]:
        """A client's local training, or what a free rider sends instead."""
        seed, learning, defect = self.scenario.seed, self.scenario.learning, self.specs[client].defect
        if isinstance(defect, FreeRide):
            random = stream(seed, "free rider", client, round_number, iteration)
            return pretended_model(start, self.layout.weights, defect, random), 0
        images = torch.cat([to_tensor(d.training_images, self.dtype) for d in self.samples_by_client[client]])
        labels = torch.cat([torch.from_numpy(d.training_labels) for d in self.samples_by_client[client]])
        order = stream(seed, "batches", client, round_number, iteration)
        epochs = make_epochs(len(labels), learning.batch_size, learning.local_epochs, order)
        model, _ = self.learner.train(start, images, labels, epochs, learning.learning_rate, correction)
        step_count = sum(map(len, epochs))
        step_counts[client] += step_count
        return model, step_count

    def sent(self, client: str, round_number: int, iteration: int, model: Tensor) -> Tensor:
        """What a client sends of its trained model: a poisoner moves every entry that is trained."""
        defect, trained_count = self.specs[client].defect, self.layout.trainable.stop
        moved = model - self.shared
        if isinstance(defect, SignFlip):
            moved = -defect.factor * moved
        elif isinstance(defect, NoisedUpdate):
            random = stream(self.scenario.seed, "poisoner", client, round_number, iteration)
            noise = torch.from_numpy(random.standard_normal(trained_count)).to(self.dtype)
            length = moved[:trained_count].square().sum().sqrt()
            moved[:trained_count] += defect.ratio * length / trained_count**0.5 * noise
        else:
            return model
        return torch.cat([(self.shared + moved)[:trained_count], model[trained_count:]])

    def aggregate(self, results: Mapping[str, LocalResult], clients: Sequence[str]) -> Tensor:
        return average([results[client].model for client in clients], self.sizes(clients))

    def sizes(self, clients: Sequence[str]) -> list[float]:
        """How many training samples each client has."""
        return [float(sum(len(d.training_labels) for d in self.samples_by_client[client])) for client in clients]

    def path(
        self, round_number: int, start: Tensor, bases: list[Tensor], locals_: list[dict[str, Tensor]]
    ) -> dict[str, float]:
        """q_n = a_n times the slope of v, half-way along the round, in the direction of the client's updates.

        By a central difference: no gradient, and no telling which entries are shared, since v knows.
        """
        if round_number == 1:  # the statistics of an untrained model are placeholders
            first = average(list(locals_[0].values()), self.sizes(self.active))
            start = start.clone()
            start[self.layout.statistics] = first[self.layout.statistics]
            bases = [start, *bases[1:]]
        middle, total, step = (start + self.shared) / 2, sum(self.sizes(self.active)), 1e-7
        found: dict[str, float] = {}
        for client, size in zip(self.active, self.sizes(self.active), strict=True):
            update = sum(local[client] - base for local, base in zip(locals_, bases, strict=True))
            after, before = (self.mean_probability(middle + sign * step * update) for sign in (1, -1))
            found[client] = size / total * (after - before) / (2 * step)
        return found

    def mean_probability(self, model: Tensor) -> float:
        return sum(self.accuracies(model, self.memories, "probability").values()) / len(self.active)

    def accuracies(
        self, model: Tensor, memories: Mapping[str, Tensor], score: ScoreName | None = None
    ) -> dict[str, float]:
        """Of the active clients, each with its own memory."""
        score = score or self.scenario.learning.score
        found: dict[str, float] = {}
        for client in self.active:
            images = torch.cat([to_tensor(d.validation_images, self.dtype) for d in self.samples_by_client[client]])
            labels = torch.cat([torch.from_numpy(d.validation_labels) for d in self.samples_by_client[client]])
            personal = self.algorithm.personal(model, memories[client])
            found[client] = float(self.learner.score(personal, images, labels, score).mean())
        return found

    def decide(
        self,
        round_number: int,
        accuracies: Mapping[str, float],
        previous: Mapping[str, float],
        step_counts: Mapping[str, int],
        contributions: Mapping[str, float],
    ) -> Decision:
        new = {client: self.samples_by_client[client][-1] for client in self.active}
        profits, costs = {}, {}
        for client in self.active:
            spec = self.specs[client]
            costs[client] = cost(
                cost_per_sample=spec.cost_per_sample,
                cost_per_step=spec.cost_per_step,
                cost_per_round=spec.cost_per_round,
                sample_count=new[client].fresh_count,
                step_count=step_counts[client],
            )
            gained = utility(spec.unit_value, accuracies[client], previous[client])
            profits[client] = profit(gained, costs[client])
            if spec.reported_profit is not None:
                profits[client] = spec.reported_profit
        mechanism = self.scenario.mechanism
        figures = Figures(profits=profits, contributions=contributions, costs=costs)
        return decide_figures(figures, mechanism.rules, grace=round_number <= mechanism.grace_rounds)

    def contributions(
        self, round_number: int, coalition_value: Callable[[frozenset[str]], float]
    ) -> Mapping[str, float]:
        mechanism = self.scenario.mechanism
        inputs = ValuationInputs(
            clients=self.active,
            coalition_value=coalition_value,
            sample_counts={client: self.samples_by_client[client][-1].declared_count for client in self.active},
            evaluation_limit=mechanism.evaluation_limit,
            rng=stream(self.scenario.seed, "shapley", round_number),
        )
        return MEASURES[mechanism.measure].compute(inputs).values
