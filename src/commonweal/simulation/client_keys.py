"""Keys of simulated clients, derived from the scenario's seed: the same run gives the same signatures.

They show how a real federation signs, but protect nothing: anyone with the scenario can derive them.
"""

from __future__ import annotations

from commonweal.ledger.keys import SigningKey
from commonweal.ledger.member_documents import ClientReport
from commonweal.scenario.spec import Scenario
from commonweal.seeds import stream


class SimulatedSigners:
    """Signs for every client of a scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self._keys = {
            client: SigningKey.from_seed(stream(scenario.seed, "client key", client).bytes(32))
            for client in scenario.client_names
        }

    @property
    def public_keys(self) -> dict[str, str]:
        return {client: key.public for client, key in self._keys.items()}

    def sign(self, report: ClientReport) -> str:
        return report.signed(self._keys[report.client])
