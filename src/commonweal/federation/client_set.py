"""The protocol between a session and its clients; each call addresses the whole set at once.

Each call names the clients it asks, and fewer may answer; a client that does not answer is absent for the round.
Models never pass through here: the set keeps them, and the session names them by the clients they are made of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from commonweal.records import AgreedRates, Estimate, Event, RoundGains, RoundRecord
from commonweal.task.measured import Measured
from commonweal.valuation.bootstrap import DRAW_COUNT, Draws

if TYPE_CHECKING:  # it needs the packages of the ledger
    from commonweal.ledger.reports import ReportBasis, SignedReport

Coalition = frozenset[str]
State = Mapping[str, NDArray[Any]]
StatementOf = Callable[[str, int], bytes]
"""A client's signed statement without its first lines; how many of them it has already is the second argument."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A client's answer to a new round: its data so far, and the metric of the model it received."""

    sample_count: int  # declared as new
    training_count: int
    validation_count: int
    measured: Measured  # not a number if the metric cannot be measured on the client's samples
    withdrawal: str | None = None  # its signed notice: it leaves after this round
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A client's answer to one iteration."""

    step_count: int | None = None  # mini-batches; this and the loss may be private
    loss: float | None = None  # mean over the iteration's samples


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldGain:
    """The gain that a client's profit is computed from, if not from what the client measured."""

    pooled: float
    pooled_draws: Draws | None = None  # in each bootstrap draw; None: not told
    expected: float | None = None  # of the next round; None: selection goes by the profit
    expected_draws: Draws | None = None  # in each draw of the forecast; None: not told


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldGains:
    """What clients are told before they report a round."""

    gains: RoundGains
    pooled_draws: Mapping[str, Draws]
    expected_draws: Mapping[str, Draws] | None = None

    def of(self, client: str) -> ToldGain:
        """Where the metric cannot be measured, nothing is known to have been gained."""
        return ToldGain(
            pooled=self.gains.pooled.get(client, 0.0),
            pooled_draws=self.pooled_draws.get(client, np.zeros(DRAW_COUNT)),
            expected=None if self.gains.expected is None else self.gains.expected.get(client, 0.0),
            expected_draws=None
            if self.expected_draws is None
            else self.expected_draws.get(client, np.zeros(DRAW_COUNT)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfitReport:
    """A client's report of the round, computed by the client. Utility and cost may be private.

    By agreed rates, profit, utility and cost are those of the rates.
    """

    profit: float
    profit_draws: NDArray[np.float64] | None = None  # the profit in each bootstrap draw
    gain: float | None = None  # that a profit by agreed rates follows from; None: it was told, or there are no rates
    actual_profit: Estimate | None = None  # what the client made, where it is known and the profit is another one
    expected_profit: float | None = None  # of the next round; None: selection goes by the profit
    expected_draws: NDArray[np.float64] | None = None  # the expected profit in each draw of the forecast
    measured_profit: float | None = None  # by the client's own measurement, if `profit` is by the gain that it was told
    measured_profit_draws: NDArray[np.float64] | None = None
    previous_accuracy: float
    utility: float | None = None
    cost: float | None = None
    alone: Measured | None = None  # of the model that the client trains alone, where utility is the advantage over it
    alone_cost: float | None = None  # what the client would have spent alone; may be private
    signature: str | None = None  # of the report, if the client signs for itself
    basis: ReportBasis | None = None  # what the signed report rests on, if the client signs that
    signed: SignedReport | None = None  # the report itself, if the client signs what it rests on
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerEffects:
    """What the validation samples of one client say of the round's path (see `learning.path`)."""

    effects: NDArray[np.float64]  # of each client that was asked for, in that order
    gradient_norm: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LateReport:
    """A report of a round that is settled already, by a client that was silent in it."""

    client: str
    round_number: int
    document: Mapping[str, Any]  # what the client signed
    signature: str


class ClientSet(Protocol):
    """Clients in this process, in others, or on other machines."""

    def open_round(
        self, round_number: int, clients: Sequence[str], data_shares: Mapping[str, float]
    ) -> Mapping[str, Opening]:
        """Let new data arrive, and measure the model that starts the round.

        Clients in `data_shares` use only this share of their new samples.
        """
        ...

    def train(self, round_number: int, iteration: int, clients: Sequence[str]) -> Mapping[str, Training]:
        """Train local models from the adopted one; they replace those of the iteration before."""
        ...

    def evaluate(
        self, round_number: int, coalitions: Sequence[Coalition], clients: Sequence[str]
    ) -> Mapping[str, Mapping[Coalition, Measured]]:
        """Measure the merged model of each coalition; that of nobody is the model that started the round."""
        ...

    def path_effects(self, round_number: int, clients: Sequence[str]) -> Mapping[str, ScorerEffects]:
        """Ask each client for the gradient of its score half-way along the round, and apply it to everybody's updates.

        Only asked for where contributions are measured by path; the adopted model must be that of these clients.
        """
        ...

    def similarities(self, clients: Sequence[str]) -> Mapping[str, Mapping[str, float]]:
        """The cosines between the updates of these clients in this round; asked for if the mechanism reads them."""
        ...

    def adopt(self, coalition: Coalition) -> None:
        """Make the merged model of these clients the federation's model."""
        ...

    def report(
        self, round_number: int, clients: Sequence[str], told: ToldGains | None, rates: AgreedRates | None
    ) -> Mapping[str, ProfitReport]:
        """Ask for profits: by the gains told, or, if none are, as measured with the adopted model.

        With `rates`, profits follow from these; otherwise from what each client alone knows.
        """
        ...

    def close_round(self, record: RoundRecord) -> tuple[Event, ...]:
        """Announce the decision; clients that left get no further model.

        Returns why anybody was absent, where that is known.
        """
        ...

    def late_reports(self, owing: Mapping[str, list[int]], statement_of: StatementOf) -> Sequence[LateReport]:
        """Ask clients for the reports that they owe of settled rounds; returns those that came."""
        ...

    def tell(self, record: RoundRecord, statement_of: StatementOf) -> None:
        """Tell the clients that took part that the round is settled, with what is new on their statements."""
        ...

    def save(self) -> State:
        """Everything that the next round depends on."""
        ...

    def restore(self, round_number: int, state: State) -> None:
        """Continue after this round as if never interrupted."""
        ...
