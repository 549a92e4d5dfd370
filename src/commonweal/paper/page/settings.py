"""Where our setting differs from the paper's, or the paper is silent, and whether that was measured to matter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from commonweal.paper.claims import Comparison
from commonweal.paper.claims.claim import FEWEST_REPLICATIONS
from commonweal.records.study import ClaimResult
from commonweal.report.study.text import SYMBOLS
from commonweal.study.intervals import LEVEL
from commonweal.study.significance import holm


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What another value of a setting changes, on the same replications."""

    setting: str
    choice: str
    replications: str
    surely: str  # effects that differ for certain
    verdicts: str
    which: str


def changes(setting: Setting, variants: Sequence[Comparison], regimes: Sequence[Comparison]) -> list[Change]:
    """One for each other value that was run."""
    found: dict[str, list[Comparison]] = {name: [] for name in setting.variants}
    for one in variants:
        if one.other.variant in found:
            found[one.other.variant].append(one)
    for one in regimes:
        if setting.key and (choice := one.choice).partition("=")[0] == setting.key:
            found.setdefault(f"{choice}, {one.ours.regime}" if one.ours.regime else choice, []).append(one)
    return [_change(setting.name, choice, compared) for choice, compared in found.items() if compared]


def _change(setting: str, choice: str, found: Sequence[Comparison]) -> Change:
    counts = sorted({one.other.replication_count for one in found})
    enough = [one for one in found if one.other.replication_count >= FEWEST_REPLICATIONS]
    compared = [one for one in enough if one.difference is not None]
    p_values = holm([one.difference.p_value for one in compared if one.difference is not None])
    surely = sum(p <= 1 - LEVEL for p in p_values)
    changed = [one for one in enough if one.verdict_changes]
    return Change(
        setting=setting,
        choice=choice,
        replications=f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}",
        surely=f"{surely} of {len(compared)}" if compared else "",
        verdicts=f"{len(changed)} of {len(enough)}" if enough else "",
        which="; ".join(_changed_verdicts(changed, enough)) if enough else _sides(found),
    )


def _changed_verdicts(changed: Sequence[Comparison], compared: Sequence[Comparison]) -> list[str]:
    """ "C1 ✓ → ? on large-mnist, small-cifar10": experiments by claim and change."""
    places: dict[tuple[str, str], list[str]] = {}
    for one in changed:
        change = f"{SYMBOLS[one.ours.verdict]} → {SYMBOLS[one.other.verdict]}"
        places.setdefault((one.other.claim, change), []).append(_place(one))
    counts = Counter(one.other.claim for one in compared)
    return [
        f"{claim} {change} on {f'all {len(where)}' if counts[claim] == len(where) > 2 else ', '.join(where)}"
        for (claim, change), where in places.items()
    ]


def _place(one: Comparison) -> str:
    """The experiment, with the regime that both are in."""
    name = one.ours.experiment.partition("[")[0]
    return f"{name} at {one.ours.regime}" if one.ours.regime else name


def _sides(found: Sequence[Comparison]) -> str:
    """For replications too few to test: how many effects lie on the same side of their thresholds in both."""
    same = sum(_is_above(one.ours) == _is_above(one.other) for one in found)
    return f"too few to test; on the same side of the threshold: {same} of {len(found)} effects"


def _is_above(result: ClaimResult) -> bool:
    return result.interval.value > result.threshold
