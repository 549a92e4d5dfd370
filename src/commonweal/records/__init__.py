"""The records that packages pass to one another."""

from commonweal.records.rounds import (
    ContributionRule,
    Decision,
    DecisionMap,
    Figures,
    History,
    LossRule,
    MuRange,
    RoundRecord,
    Rules,
)
from commonweal.records.run_report import (
    ClientRound,
    Estimate,
    Event,
    MetricName,
    RoundReport,
    RunReport,
)

__all__ = [
    "ClientRound",
    "ContributionRule",
    "Decision",
    "DecisionMap",
    "Estimate",
    "Event",
    "Figures",
    "History",
    "LossRule",
    "MetricName",
    "MuRange",
    "RoundRecord",
    "RoundReport",
    "Rules",
    "RunReport",
]
