"""What settled rounds leave of each client: what its next gain is measured from, and which report counted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from commonweal.federation.client_set import State
from commonweal.ledger.reports import SignedReport
from commonweal.task.measured import Measured
from commonweal.valuation.bootstrap import DRAW_COUNT

_MEMORY, _DRAWS = "memory/", "baseline_draws/"  # prefixes among the arrays of a checkpoint


class SettledClients:
    """Each client's last settled round, as the coordinator's checkpoint keeps it."""

    def __init__(self, *, keeps_draws: bool) -> None:
        self._keeps_draws = keeps_draws  # where profits follow from agreed rates
        self.baselines: dict[str, float] = {}  # ε of the last settled round, or of the client's first model
        self.memories: dict[str, NDArray[Any]] = {}  # of algorithms whose server reads them
        self.rounds: dict[str, tuple[int, str]] = {}  # the last settled round, and its attempt
        self.reports: dict[str, Any] = {}  # that of the last settled round, in case the client loses its folder
        self._models: dict[str, str] = {}  # the hash of the model that was adopted then
        self._draws: dict[str, NDArray[np.float64]] = {}  # of the baselines

    def settle(self, client: str, round_number: int, attempt: str, model: str, report: SignedReport) -> None:
        """Note that a round was settled with a client, by this report on the model with this hash."""
        self.rounds[client] = (round_number, attempt)
        self._models[client] = model
        self.reports[client] = report.to_document()

    def set_baseline(self, client: str, measured: Measured) -> None:
        self.baselines[client] = measured.value
        if self._keeps_draws:
            self._draws[client] = measured.draws

    def baseline(self, client: str) -> Measured:
        """What a gain is measured from; without the draws where only the client knows them, it counts as certain."""
        value = self.baselines[client]
        return Measured(value=value, draws=self._draws.get(client, np.full(DRAW_COUNT, value)))

    def fields(self, client: str, alone_in: Sequence[int]) -> dict[str, Any]:
        """What a client is told of its last settled round, so that it adopts what that round changed.

        A folder that was restored trains on alone in the rounds `alone_in`, and in none that its member missed.
        """
        number, attempt = self.rounds.get(client, (0, ""))
        settled = {
            "has_baseline": client in self.baselines,
            "settled_round": number,
            "settled_attempt": attempt,
            "settled_model": self._models.get(client, ""),
            "settled_report": json.dumps(self.reports.get(client)),
        }
        return settled | ({"settled_rounds": json.dumps(_ranges_of(alone_in))} if alone_in else {})

    def facts(self) -> dict[str, Any]:
        return {
            "baselines": self.baselines,
            "settled": self.rounds,
            "settled_model": self._models,
            "settled_report": self.reports,
        }

    def arrays(self) -> dict[str, Any]:
        memories = {f"{_MEMORY}{client}": memory for client, memory in self.memories.items()}
        return memories | {f"{_DRAWS}{client}": draws for client, draws in self._draws.items()}

    def restore(self, facts: Mapping[str, Any], state: State) -> None:
        self.memories, self._draws = arrays_named(_MEMORY, state), arrays_named(_DRAWS, state)
        self.baselines, self._models = facts["baselines"], facts["settled_model"]
        self.reports = facts.get("settled_report", {})
        self.rounds = {client: (number, attempt) for client, (number, attempt) in facts["settled"].items()}


def arrays_named(prefix: str, state: State) -> dict[str, NDArray[Any]]:
    """The arrays of a checkpoint whose names start with a prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}


def _ranges_of(rounds: Sequence[int]) -> list[list[int]]:
    """[1, 2, 3, 5] as [[1, 3], [5, 5]]: after a thousand rounds a member should not be told each of them."""
    ranges: list[list[int]] = []
    for number in rounds:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges
