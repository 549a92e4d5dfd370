"""The decision map: who is retained at which μ, for one round or for all rounds of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from commonweal.atomic_write import write_atomically
from commonweal.errors import InputError, StorageError
from commonweal.records import DecisionMap, MuRange, RoundReport, RunReport
from commonweal.records.rounds import DEFAULT_MECHANISM
from commonweal.report.drawing import NARROW, TEXT_SIZE, blank_figure, figure_class, new_figure, rendered
from commonweal.report.palette import ELIMINATED, INK, PAPER, RETAINED
from commonweal.report.text import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".pdf", ".png", ".svg")
CLIENTS_SHOWN = 60
MAPS_SHOWN = 15  # per run, before the others are collapsed
_PANELS_SHOWN = 12  # per file


def check_format(path: Path) -> None:
    """Refuse, before any work is done, a plot that could not be written."""
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"A plot's file name must end in {', '.join(FORMATS)}, got {path.name!r}. Try map.png.")
    if not path.parent.is_dir():
        raise StorageError(
            f"Cannot write {path.name}: the folder {str(path.parent)!r} does not exist. Create it first."
        )
    figure_class()


def draw(maps: Sequence[DecisionMap], path: Path) -> int:
    """Draw a panel per round into one file, at most 12 of them; returns how many were drawn."""
    check_format(path)
    shown = list(maps)[:_PANELS_SHOWN]
    content = rendered(lambda: _figure(shown), path.suffix[1:].lower(), name="decision-map")
    write_atomically(path, content, what="the plot")
    return len(shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class MuScale:
    """An axis of μ that all maps of a page or file share, so that they can be compared."""

    to_axis: Callable[[float], float]
    ticks: Sequence[float]
    end: float  # on the axis

    @classmethod
    def of(cls, maps: Sequence[DecisionMap]) -> MuScale:
        """For all breakpoints and decided μ: linear if they are close, otherwise logarithmic."""
        positive = [mu for each in maps for mu in (*each.breakpoints, each.mu or 0.0) if 0 < mu < math.inf]
        largest = max(positive, default=1.0)
        smallest = min(positive, default=largest)
        if largest <= 30 * smallest:
            step = 10 ** math.floor(math.log10(largest * 1.3)) / 2
            while largest * 1.3 / step > 6:
                step *= 2
            ticks = [k * step for k in range(int(largest * 1.3 / step) + 1)]
            return cls(to_axis=lambda mu: mu, ticks=ticks, end=largest * 1.3)
        bottom = math.floor(math.log10(smallest)) - 1
        top = math.log10(largest) + 0.3

        def logarithmic(mu: float) -> float:
            """0 at the left edge, then decades from one below the smallest breakpoint."""
            return max(math.log10(mu) - bottom, 0.0) if mu > 0 else 0.0

        decades = range(bottom + 1, math.floor(top) + 1)
        stride = max(1, math.ceil(len(decades) / 7))
        return cls(to_axis=logarithmic, ticks=[0.0, *(10.0**k for k in decades[::stride])], end=top - bottom)


def _figure(maps: Sequence[DecisionMap]) -> Figure:
    rows = [min(len(m.clients), CLIENTS_SHOWN) for m in maps]
    height = sum(0.34 * count + 1.25 for count in rows)
    figure: Figure = figure_class()(figsize=(9, max(height, 2.6)), layout="tight")
    axes = figure.subplots(len(maps), 1, squeeze=False, height_ratios=[count + 2.5 for count in rows])
    scale = MuScale.of(maps)
    for part, decision_map in zip(axes[:, 0], maps, strict=True):
        count = len(decision_map.clients)
        more = f" (first {CLIENTS_SHOWN} of {count} clients)" if count > CLIENTS_SHOWN else ""
        panel(part, decision_map, scale, title=f"{decision_map.title}{more}: dark = retained, light = eliminated")
    return figure


def panel(axes: Axes, decision_map: DecisionMap, scale: MuScale, *, title: str, text_size: float = 8) -> None:
    """One row per client; the colour shows whether it is retained at that μ."""
    to_axis, ticks, end = scale.to_axis, scale.ticks, scale.end
    clients = decision_map.clients[:CLIENTS_SHOWN]
    gap = end * 0.03
    retained_sets = [frozenset(retained) for _, retained in decision_map.pieces]
    for row, client in enumerate(clients):
        for colour, wanted in ((RETAINED, True), (ELIMINATED, False)):
            blocks: list[tuple[float, float]] = []
            for (mu_range, _), retained in zip(decision_map.pieces, retained_sets, strict=True):
                if (client in retained) == wanted:
                    blocks += _blocks(mu_range, to_axis, end, gap)
            axes.broken_barh(_merged(blocks), (row - 0.36, 0.72), facecolors=colour)
    for breakpoint_mu in decision_map.breakpoints if len(decision_map.breakpoints) <= 60 else ():
        axes.axvline(to_axis(breakpoint_mu), color=PAPER, linewidth=1.2)
    if decision_map.mu is not None:
        at = end + gap + end * 0.025 if math.isinf(decision_map.mu) else min(to_axis(decision_map.mu), end)
        axes.axvline(at, color=INK, linewidth=1.4, linestyle=(0, (4, 2)))
        axes.annotate(
            f"mu = {decision_map.mu:g}", (at, -0.62), ha="center", va="bottom", fontsize=text_size, color=INK,
            annotation_clip=False,
        )  # fmt: skip
    axes.set_yticks(range(len(clients)), [shortened(client) for client in clients], fontsize=text_size)
    axes.set_xticks(
        [to_axis(tick) for tick in ticks] + [end + gap + end * 0.025], [f"{tick:.3g}" for tick in ticks] + ["∞"]
    )
    axes.tick_params(axis="x", labelsize=text_size)
    axes.set_xlim(-end * 0.005, end * 1.085)
    axes.set_ylim(len(clients) - 0.5, -0.5)
    axes.set_xlabel("mu (leniency)", fontsize=text_size + 1)
    axes.set_title(title, fontsize=10, loc="left", pad=2 * text_size, color=INK)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _blocks(mu_range: MuRange, to_axis: Callable[[float], float], end: float, gap: float) -> list[tuple[float, float]]:
    """Where a range lies on the axis: (left, width) of its finite part, and of the block that stands for infinity."""
    blocks: list[tuple[float, float]] = []
    if math.isfinite(mu_range.lower):
        lower = to_axis(mu_range.lower)
        width = (end if math.isinf(mu_range.upper) else to_axis(mu_range.upper)) - lower
        # A set that wins at a single point, such as mu = 0, must still be visible.
        blocks.append((lower, width) if width else (lower - end * 0.002, end * 0.004))
    if math.inf in mu_range:
        blocks.append((end + gap, end * 0.05))
    return blocks


def _merged(blocks: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Join blocks that touch, because a thousand slivers of one colour are slow to draw and show seams."""
    merged: list[tuple[float, float]] = []
    for left, width in blocks:
        if merged and math.isclose(merged[-1][0] + merged[-1][1], left, rel_tol=1e-12, abs_tol=1e-300):
            merged[-1] = (merged[-1][0], left + width - merged[-1][0])
        else:
            merged.append((left, width))
    return merged


def has_mu(run_report: RunReport) -> bool:
    """Whether decisions depended on μ. If not, there is no map to draw and no range of μ to name."""
    mechanism = run_report.mechanism
    return run_report.rules.mechanism == DEFAULT_MECHANISM if mechanism is None else mechanism.takes_mu


def rounds_with_choice(run_report: RunReport) -> list[RoundReport]:
    """The rounds with something to show: a client would have been eliminated at some μ."""
    return [
        each
        for each in run_report.rounds
        if each.decision_map is not None
        and any(len(retained) < len(each.decision_map.clients) for _, retained in each.decision_map.pieces)
    ]


def maps_of_run(run_report: RunReport, width: float) -> Figure:
    """A panel per round with a choice; if more than fifteen, those with eliminations first, then the earliest."""
    by_weight = sorted(
        rounds_with_choice(run_report), key=lambda each: (not each.record.decision.eliminated, each.number)
    )
    shown = sorted(by_weight[:MAPS_SHOWN], key=lambda each: each.number)
    if not shown:
        return blank_figure(width, "Nobody would have been eliminated at any mu.")
    columns = min(len(shown), max(1, round(width / NARROW)))
    lines = [shown[start : start + columns] for start in range(0, len(shown), columns)]
    heights = [max(_map_height(each) for each in line) for line in lines]
    figure, scale = new_figure(NARROW * columns, sum(heights)), scale_of_run(run_report)
    grid = figure.subplots(len(lines), columns, squeeze=False, height_ratios=heights)
    for place, axes in enumerate(grid.flat):
        if place < len(shown):
            _map_panel(axes, shown[place], scale)
        else:
            axes.set_axis_off()
    return figure


def scale_of_run(run_report: RunReport) -> MuScale:
    """One axis for the maps of all rounds."""
    return MuScale.of([each.decision_map for each in rounds_with_choice(run_report) if each.decision_map is not None])


def map_of_round(round_report: RoundReport, scale: MuScale) -> Figure:
    """One round's map, as wide as a phone."""
    figure = new_figure(NARROW, _map_height(round_report))
    _map_panel(figure.subplots(), round_report, scale)
    return figure


def _map_height(round_report: RoundReport) -> float:
    return 19.0 * min(len(round_report.clients), CLIENTS_SHOWN) + 82


def _map_panel(axes: Axes, round_report: RoundReport, scale: MuScale) -> None:
    assert round_report.decision_map is not None
    eliminated = round_report.record.decision.eliminated
    who = shortened(eliminated[0], 14) if len(eliminated) == 1 else f"{len(eliminated)} clients"
    title = f"Round {round_report.number}: {f'{who} eliminated' if eliminated else 'all retained'}"
    panel(axes, round_report.decision_map, scale, title=title, text_size=TEXT_SIZE - 0.5)
