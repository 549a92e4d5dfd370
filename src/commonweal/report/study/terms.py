"""The words of a study for a reader who has never heard of any of this."""

from __future__ import annotations

from commonweal.report.terms import TERMS

_SHARED = ("client", "round", "duration", "mu, leniency", "TSW", "TSFI", "contribution", "individual rationality")

STUDY_TERMS = {
    "claim": "Something the paper says of an experiment; parts of a claim have letters.",
    "effect": "The number by which a claim is tested. It is made so that more of it speaks for the claim.",
    "threshold": "What the effect must exceed for the claim to hold.",
    "held, not held, undecided": "The interval of the effect lies above the threshold; at or below it; or "
    "it cannot be told, since the interval lies on both sides of it or is of too few replications.",
    "driver": "Why a claim came out as it did.",
    "replication": "One run of an experiment with its own seed. All figures are means over replications.",
    "interval": "Where the mean would come to lie with other seeds: a bootstrap over replications, at the level that "
    "the facts state. Where all replications agree it has no width.",
    "least lenient, most lenient": "The baselines. At mu = 0 every loss-maker leaves at once; at mu = inf nobody is "
    "ever let go.",
    "whole axis of mu": "All mu from 0 to infinity: outcomes change only at finitely many values, so that all of them "
    "can be followed. Infinity is a point of its own.",
    "fairness target": "The least TSFI at the end that one would accept. Recommended is the mu with the most welfare "
    "among those that reach it.",
    "contribution rule": "clip: a negative contribution counts as 0, as settled here. raw: as it comes, by the letter "
    "of the paper.",
    **{word: TERMS[word] for word in _SHARED},
}
