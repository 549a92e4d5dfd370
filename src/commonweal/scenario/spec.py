"""The records of a scenario, all frozen. `scenario.toml_file` reads and validates them.

Amounts are in units of utility; a step is one mini-batch of local training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from commonweal.decision.mechanisms import make_mechanism
from commonweal.records import AgreedRates, EndingRule, FiguresRule, HarmRule, Rules
from commonweal.scenario.algorithms import complete_parameters
from commonweal.task.choice import declared_metric
from commonweal.task.metrics import Metric
from commonweal.valuation.registry import MEASURES
from commonweal.valuation.scorers import ScorersRule

ModelName = Literal["compact", "fedbn-digits"]
ScoreName = Literal["hit", "probability"]
UtilityRule = Literal["gain", "advantage"]
ContributionScore = Literal["metric", "smooth"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelNoise:
    """Each label is replaced, with this probability, by one drawn uniformly from the other classes."""

    probability: float
    training_only: bool = False  # validation labels stay true


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelFlip:
    """Of C classes, class c becomes C − 1 − c in this fraction of the labels (Fang et al. 2020)."""

    fraction: float = 1.0
    training_only: bool = False  # validation labels stay true


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicates:
    """This fraction of the samples that a client declares each round are copies of its own; copies cost nothing."""

    fraction: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Untrained:
    """A free rider that returns the model as it received it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noised:
    """A free rider that returns the received model with light noise, to look trained."""

    deviation: float  # of the noise, as a multiple of the weights' own standard deviation


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """A free rider that returns the received model, its weights times a factor."""

    factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SignFlip:
    """A poisoner that trains and sends w̄ − k (w − w̄), from the received model w̄ and the trained one w."""

    factor: float = 1.0  # k


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisedUpdate:
    """A poisoner that trains and adds noise to its update."""

    ratio: float  # of the noise's length to that of the update


DataDefect = LabelNoise | LabelFlip | Duplicates
FreeRide = Untrained | Noised | Scaled
Poisoning = SignFlip | NoisedUpdate
ModelDefect = FreeRide | Poisoning
Defect = DataDefect | ModelDefect


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSpec:
    """One client: its data, what a gain in the metric is worth to it, and its costs."""

    name: str
    source: str = ""  # of its images, e.g. "mnist"
    samples_per_round: float = 0.0  # λ of the Poisson arrivals of images
    unit_value: float = 1.0  # what a gain of 1 is worth
    cost_per_sample: float = 0.0
    cost_per_step: float = 0.0
    cost_per_round: float = 0.0
    defect: Defect | None = None
    reported_profit: float | None = None  # what it reports in every round; None: the truth
    worth_curve: tuple[tuple[float, float], ...] | None = None  # (metric, worth); None: the metric itself
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)  # its own settings of the task


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSpec:
    """How samples reach the clients."""

    validation_share: float = 0.3
    label_skew: float | None = None  # concentration of the Dirichlet distribution over labels; None: no skew


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningSpec:
    """How a round learns."""

    model: ModelName = "compact"
    algorithm: str = "fedavg"  # a name of `scenario.algorithms`
    learning_rate: float = 0.1
    batch_size: int = 32
    local_epochs: int = 1  # per iteration
    iteration_limit: int = 5  # per round
    stop_below: float = 0.01  # a round ends when no client's accuracy changed by this much in an iteration
    # The algorithm's own, e.g. FedProx's proximal_weight; defaults are filled in.
    parameters: Mapping[str, Any] = field(default_factory=dict, hash=False)
    score: ScoreName = "hit"  # of a validation sample: right or wrong, or the probability of the true class

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", complete_parameters(self.algorithm, self.parameters))


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismSpec:
    """How a round is valued and decided."""

    rules: Rules
    grace_rounds: int = 0
    measure: str = "marginal"  # a name in valuation/registry.py
    evaluation_limit: int | None = None  # coalition models per round; only for sampled measures
    utility: UtilityRule = "gain"  # over the last round, or advantage over the model that the client trains alone
    figures: FiguresRule = "measured"  # which gains profits follow from
    harm: HarmRule = "none"  # what becomes of clients that are harmful beyond doubt; only for path contributions
    ending: EndingRule = "none"  # what happens when no further round is expected to pay; only for forecasts
    contribution_score: ContributionScore = "metric"  # what contributions are measured on; "path" is always smooth
    scorers: ScorersRule = "all"  # whose validation samples measure contributions, and how they count
    rates: AgreedRates | None = None  # that profits follow from; None: from what each client alone knows

    def seeded(self, seed: int) -> MechanismSpec:
        """With the seed of the federation among the rules, if the mechanism draws lots."""
        draws_lots = "seed" in make_mechanism(self.rules).reads
        return replace(self, rules=replace(self.rules, seed=seed)) if draws_lots else self

    @property
    def uses_gradients(self) -> bool:
        """Whether contributions are measured by gradients of the smooth score, and not by coalition models."""
        return MEASURES[self.measure].uses_gradients

    @property
    def scores_coalitions_smoothly(self) -> bool:
        """Whether clients measure coalition models by the smooth score as well as by the metric."""
        return self.contribution_score == "smooth" and not self.uses_gradients


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """What is learned: images of the built-in kind, a table, or the user's own file; and its metric."""

    kind: Literal["images", "table", "file"] = "images"
    metric_name: str = "accuracy"
    lower_is_better: bool = False  # of a metric of the user's own
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)  # for the task's functions
    folder: Path = field(default_factory=Path, compare=False)  # of the scenario; relative paths start here

    @property
    def metric(self) -> Metric:
        """Without the function of a metric of the user's own."""
        return declared_metric(self.metric_name, lower_is_better=self.lower_is_better)


class Stopping(Protocol):
    """When a round stops training."""

    @property
    def iteration_limit(self) -> int: ...
    @property
    def stop_below(self) -> float: ...


class FederationPlan(Protocol):
    """What must be known about a federation to run its rounds, apart from how its clients learn, and from what data."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def round_count(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def client_names(self) -> tuple[str, ...]: ...
    @property
    def mechanism(self) -> MechanismSpec: ...
    @property
    def learning(self) -> Stopping: ...
    @property
    def task(self) -> TaskSpec: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A complete description of a federation and, with its seed, of one replication."""

    name: str
    description: str
    round_count: int
    seed: int
    clients: tuple[ClientSpec, ...]
    mechanism: MechanismSpec
    data: DataSpec = field(default_factory=DataSpec)
    learning: LearningSpec = field(default_factory=LearningSpec)
    task: TaskSpec = field(default_factory=TaskSpec)
    site_defaults: Mapping[str, Any] | None = field(default=None, hash=False)  # of a table's sites that are not listed

    def __post_init__(self) -> None:
        object.__setattr__(self, "mechanism", self.mechanism.seeded(self.seed))

    @property
    def client_names(self) -> tuple[str, ...]:
        return tuple(client.name for client in self.clients)
