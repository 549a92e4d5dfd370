"""The records that packages pass to one another."""

from commonweal.records.advice import Advice, ClientAdvice, ClientVerdict, FederationVerdict, Improvement
from commonweal.records.ending import FINISHED, Ending, EndingRule
from commonweal.records.gains import FiguresRule, PairedGain, RoundGains
from commonweal.records.harm import HarmEvidence, HarmRule
from commonweal.records.rates import AgreedRates, ProfitsRule, Rates
from commonweal.records.rounds import (
    ContributionRule,
    Decision,
    DecisionMap,
    Evidence,
    Figures,
    History,
    Instructions,
    LossRule,
    MechanismFile,
    MuRange,
    RoundRecord,
    Rules,
    Stability,
)
from commonweal.records.run_report import (
    ClientRound,
    Estimate,
    Event,
    MechanismFacts,
    MetricName,
    RoundReport,
    RunReport,
    UsedFigures,
)

__all__ = [
    "FINISHED",
    "Advice",
    "AgreedRates",
    "ClientAdvice",
    "ClientRound",
    "ClientVerdict",
    "ContributionRule",
    "Decision",
    "DecisionMap",
    "Ending",
    "EndingRule",
    "Estimate",
    "Event",
    "Evidence",
    "FederationVerdict",
    "Figures",
    "FiguresRule",
    "HarmEvidence",
    "HarmRule",
    "History",
    "Improvement",
    "Instructions",
    "LossRule",
    "MechanismFacts",
    "MechanismFile",
    "MetricName",
    "MuRange",
    "PairedGain",
    "ProfitsRule",
    "Rates",
    "RoundGains",
    "RoundRecord",
    "RoundReport",
    "Rules",
    "RunReport",
    "Stability",
    "UsedFigures",
]
