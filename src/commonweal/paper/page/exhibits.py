"""What the paper shows: its figures, tables and algorithms, and the claims that its text draws from each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from commonweal.paper.experiments import EXPERIMENTS

PlotKind = Literal["durations", "tsw", "tsfi"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """A figure, table, algorithm or set of formulas of the paper."""

    name: str
    caption: str  # the paper's, or what it says there
    claims: tuple[str, ...] = ()  # that its text draws from it
    experiments: tuple[str, ...] = ()
    plots: tuple[PlotKind, ...] = ()
    ours: str = ""  # what to know about ours, in Markdown


EXHIBITS = (
    Exhibit(
        name="Figure 1",
        caption='Five different "client\'s" data for classification of digits from 0 to 9. MNIST and USPS are '
        "grayscale images, while SVHN, SynthDigits, and MNIST_M are RGB images",
        experiments=("heterogeneous",),
    ),
    Exhibit(
        name="Figure 2",
        caption="The average elimination round for each client for different values of the parameter μ in the "
        "heterogeneous data setting.",
        claims=("C1",),
        experiments=("heterogeneous",),
        plots=("durations",),
    ),
    Exhibit(
        name="Figure 3",
        caption="Evolution of Total Social Welfare and Total Selection Fairness Index for different values of μ.",
        claims=("C6a", "C6b", "C7a", "C7b", "C12b", "C8"),
        experiments=("heterogeneous",),
        plots=("tsw", "tsfi"),
        ours="The paper does not say whether its largest μ is finite: C7a compares finite values, and C7b compares "
        "with never eliminating anybody.",
    ),
    Exhibit(
        name="Figure 4",
        caption="The elimination round for each client for different values of μ under a homogeneous setting for MNIST "
        "and CIFAR-10 data clients. The relative size of clients MNIST0 and CIFAR0 is 5 times that of the rest of the "
        "clients.",
        claims=("C2", "C3a", "C3b"),
        experiments=("large-mnist", "large-cifar10"),
        plots=("durations",),
    ),
    Exhibit(
        name="Figure 5",
        caption="The elimination round for each client for different values of μ under a homogeneous setting for MNIST "
        "and CIFAR-10 data clients. The relative size of clients MNIST0 and CIFAR0 is 0.5 times that of the rest of "
        "the clients.",
        claims=("C4",),
        experiments=("small-mnist", "small-cifar10"),
        plots=("durations",),
    ),
    Exhibit(
        name="Figure 6",
        caption="The elimination round for each client for different values of μ under a corrupted data setting for "
        "MNIST data clients. The labels for client MNIST0 are randomly corrupted with 30% probability.",
        claims=("C5a", "C5b", "C5c", "C11"),
        experiments=("label-noise",),
        plots=("durations",),
    ),
    Exhibit(
        name="The limit μ → ∞",
        caption="Note that the first approach can be obtained by setting μ=0 in the proposed formulation, whereas the "
        "second approach can be obtained by setting μ→∞.",
        claims=("C15",),
        experiments=EXPERIMENTS,
        ours="True where every loss-maker contributes something. One without a positive contribution leaves at every "
        "finite μ, so never eliminating anybody is a baseline of its own, not the limit.",
    ),
    Exhibit(
        name="Table 1",
        caption="Comparison of related works with proposed approach. In its own row the paper ticks all six columns.",
        claims=("C9a", "C9b", "C9c", "C10", "C13"),
        experiments=EXPERIMENTS,
        ours="C10 is its column Fairness, C9 is IR, and C13 is BB. The other three are properties of the design: the "
        "decision needs each client's profit and contribution, not its unit value or cost (ISI, "
        "[with limits](../concepts/mechanism.md#private-profits-agreed-rates)); clients are selected in every round "
        "(NS); and heterogeneous data are Figures 2 and 3 (DH). The other rows of the table, measured on the same "
        "federations, are in [all mechanisms compared](mechanisms.md).",
    ),
    Exhibit(
        name="Table 2",
        caption="Major abbreviations.",
        ours="Nothing to reproduce; our words are in the [glossary](../concepts/glossary.md).",
    ),
    Exhibit(
        name="Algorithm 1",
        caption="Federated Averging algorithm (FedAvg, FedBN).",
        ours="Implemented as printed ([learning](../concepts/learning.md)). For homogeneous data we use FedAvg and for "
        "heterogeneous data FedBN; the paper says heterogeneous twice.",
    ),
    Exhibit(
        name="Algorithm 2",
        caption="Client Selection and Money Transfer Algorithm.",
        claims=("C12a", "C14"),
        experiments=EXPERIMENTS,
        ours="The search gives the same sets as the printed enumeration, and is exact for any number of clients "
        "([solver](../decisions/003-the-solver.md)). Where two sets have the same objective, the printed algorithm "
        "takes the one it meets last, and ours the larger one ([ties](../decisions/026-ties-within-rounding.md)).",
    ),
)
