"""commonweal: the incentive layer of cross-silo federated learning.

    decide(...)     one round: who stays, and who pays whom
    mu_path(...)    the same for every leniency μ at once
    select(...)     who stays, at the level of arrays
    explain(...)    why a client stays or leaves
    replay(...)     many rounds whose figures were measured elsewhere
    valuation       what a client gained, spent and contributed
    metrics         what a history of rounds amounts to

Importing this needs numpy alone.
"""

from commonweal import metrics, valuation
from commonweal.decision.decide import decide, mu_path, select
from commonweal.decision.explain import Fate, explain
from commonweal.decision.mu_path import MuPath
from commonweal.errors import (
    CommonwealError,
    FederationError,
    IncompletePathError,
    InputError,
    LedgerError,
    ScenarioError,
    StorageError,
)
from commonweal.federation.replay import Replay, replay
from commonweal.records import Decision, Figures, History, MuRange, RoundRecord, Rules

__all__ = [
    "CommonwealError",
    "Decision",
    "Fate",
    "FederationError",
    "Figures",
    "History",
    "IncompletePathError",
    "InputError",
    "LedgerError",
    "MuPath",
    "MuRange",
    "Replay",
    "RoundRecord",
    "Rules",
    "ScenarioError",
    "StorageError",
    "decide",
    "explain",
    "metrics",
    "mu_path",
    "replay",
    "select",
    "valuation",
]
