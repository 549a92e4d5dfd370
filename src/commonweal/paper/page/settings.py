"""Where our setting differs from the paper's, or the paper is silent, and whether that was measured to matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from commonweal.paper.claims import Comparison
from commonweal.paper.claims.claim import FEWEST_REPLICATIONS
from commonweal.report.study.text import SYMBOLS
from commonweal.study.intervals import LEVEL
from commonweal.study.significance import holm

NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One choice; `key` is that of the scenario, and `variants` are names of alternatives to test claims under."""

    name: str
    paper: str
    here: str
    key: str = ""
    variants: tuple[str, ...] = ()


SETTINGS = (
    Setting(name="learning rate", paper="not stated (FedBN's public code: 0.01)", here="0.1", key="learning_rate"),
    Setting(
        name="widths of the network",
        paper='"a six-layered convolutional neural network with 3 convolutional and 3 fully connected layers"',
        here="compact: 16, 32, 64 channels and 128, 64, 10 units",
        key="model",
    ),
    Setting(
        name="values of μ",
        paper="not stated in the text",
        here="0, 0.01, 0.02, 0.05, 0.1, 0.2 and infinity; C15 beyond",
    ),
    Setting(
        name="local training",
        paper="batches of 32; epochs not stated",
        here="batches of 32, one epoch per iteration, at most 5 iterations, stopping below 1 % as in the paper",
    ),
    Setting(
        name="negative contributions",
        paper="not mentioned",
        here="count as zero",
        variants=("raw contributions",),
    ),
    Setting(
        name="duration of a sole survivor",
        paper="not stated",
        here="the round in which it was left alone",
        variants=("a sole survivor stays to the end",),
    ),
    Setting(
        name="TSFI",
        paper="the formula counts A(t) in each round, the worked example the final set",
        here="as printed; a client that left counts with the share it had",
        variants=("TSFI of the final set", "departed count as zero"),
    ),
    Setting(
        name="a negative budget",
        paper="divided by contribution",
        here="the same",
        variants=("losses in equal parts", "losses by cost"),
    ),
    Setting(
        name="label noise",
        paper='"the labels of 30% of the samples for client 0"',
        here="in training and validation samples",
        variants=("label noise in training only",),
    ),
    Setting(
        name="baseline of utility",
        paper="the accuracy of the round before, on the validation samples of then",
        here="the same; paired measures both models on the samples of now",
        key="figures",
    ),
    Setting(
        name="contribution", paper="marginal", here="the same; others beside it", key="contribution"
    ),
    Setting(name="algorithm", paper="FedAvg; FedBN for heterogeneous data", here="the same; others beside it",
            key="algorithm"),
)  # fmt: skip


def measured(setting: Setting, variants: Sequence[Comparison], regimes: Sequence[Comparison]) -> str:
    """What changed under each other value that was run."""
    cells = [_told(name, [one for one in variants if one.other.variant == name]) for name in setting.variants]
    values = dict.fromkeys(one.other.regime for one in regimes if _key(one.other.regime) == setting.key)
    cells += [_told(regime, [one for one in regimes if one.other.regime == regime]) for regime in values]
    told = "; ".join(cell for cell in cells if cell)
    if told:
        return told
    return NOT_MEASURED


def _key(regime: str) -> str:
    """The key that a regime varies; "" if it varies several."""
    return regime.partition("=")[0] if regime and "," not in regime else ""


def _place(one: Comparison) -> str:
    """The experiment, with the regime if both are in the same one."""
    return one.ours.experiment if one.ours.experiment == one.other.experiment else one.ours.experiment.partition("[")[0]


def _told(name: str, found: Sequence[Comparison]) -> str:
    if not found:
        return ""
    counts = sorted({one.other.replication_count for one in found})
    of = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    if counts[-1] < FEWEST_REPLICATIONS:
        return f"{name}: {of} replications, too few to compare"
    compared = [
        one for one in found if one.difference is not None and one.other.replication_count >= FEWEST_REPLICATIONS
    ]
    p_values = holm([one.difference.p_value for one in compared if one.difference is not None])
    surely = [one for one, p in zip(compared, p_values, strict=True) if p <= 1 - LEVEL]
    changed = [one for one in found if one.verdict_changes]
    which = "".join(
        f", {one.other.claim} on {_place(one)} {SYMBOLS[one.ours.verdict]} → {SYMBOLS[one.other.verdict]}"
        for one in changed
    )
    return (
        f"{name}, {of} replications: {len(surely)} of {len(compared)} effects differ surely, {len(changed)} of "
        f"{len(found)} verdicts{which}"
    )
