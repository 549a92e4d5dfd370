"""A comparison as one page, and its files."""

from __future__ import annotations

from pathlib import Path

from commonweal.atomic_write import write_atomically
from commonweal.records.comparison import COLUMNS, ComparedMechanism, Comparison
from commonweal.report.audit_text import percent
from commonweal.report.comparison_json import to_json
from commonweal.report.comparison_plots import comparison_plots
from commonweal.report.comparison_text import (
    balance_text,
    basis,
    best_lie,
    cell,
    cell_interval,
    heterogeneity_text,
    none_pays,
    private_text,
    sentences,
    tick,
    truth_text,
)
from commonweal.report.inline_svg import in_both_widths
from commonweal.report.templating import render
from commonweal.report.text import MISSING, number
from commonweal.report.write import rendered_plots, write_images

_MEASURED = {  # in the tables below the paper's own, by heading
    "Welfare": ("welfare", "stayed_welfare", "tsw", "tsfi"),
    "Fairness": ("fairness", "deviation", "round_fairness", "round_deviation"),
    "Individual rationality": ("rational_rounds", "rational_clients", "truly_rational_clients"),
    "Budget balance": ("balanced_rounds", "funded_rounds", "external"),
    "Selection, course and traffic": ("selection", "duration", "rounds", "money_moved", "models_sent"),
}


def to_page(comparison: Comparison) -> str:
    """The whole page; the same comparison gives the same text."""
    by_name = {column.name: column for column in COLUMNS}
    return render(
        "comparison.html",
        comparison=comparison,
        basis=basis(comparison),
        truth=truth_text(comparison),
        sentences=sentences(comparison),
        plots=[in_both_widths(plot) for plot in comparison_plots(comparison)],
        paper_rows=[(one, _paper_cells(comparison, one)) for one in comparison.mechanisms],
        groups=[
            (
                heading,
                [by_name[name] for name in names],
                [
                    (one, [(cell(one, name), cell_interval(one, name)) for name in names])
                    for one in comparison.mechanisms
                ],
            )
            for heading, names in _MEASURED.items()
        ],
        durations=[
            (one, [number(round(one.durations[client].value, 2)) for client in comparison.clients])
            for one in comparison.mechanisms
        ],
        lies=[(one, *_lie_cells(one)) for one in comparison.mechanisms],
    )


def write_comparison(comparison: Comparison, directory: Path) -> list[Path]:
    """Write comparison.html, comparison.json and figures/*.png, *.svg into an existing folder; returns all."""
    page, document = directory / "comparison.html", directory / "comparison.json"
    images = rendered_plots(comparison_plots(comparison))
    content = to_page(comparison)
    write_atomically(document, to_json(comparison).encode(), what="the comparison")
    write_atomically(page, content.encode(), what="the page")
    return [page, document, *write_images(images, directory / "figures")]


def _paper_cells(comparison: Comparison, one: ComparedMechanism) -> list[tuple[str, str]]:
    """A cell for each column of the paper's table: what was measured, and what the paper ticks."""
    ticks = one.ticks
    return [
        (private_text(one), tick(None if ticks is None else ticks.isi)),
        (cell(one, "selection"), tick(None if ticks is None else ticks.ns)),
        (f"{cell(one, 'fairness')}; {cell(one, 'deviation')}", tick(None if ticks is None else ticks.fairness)),
        (
            f"{cell(one, 'rational_rounds')}; {cell(one, 'rational_clients')}",
            tick(None if ticks is None else ticks.ir),
        ),
        (balance_text(one), tick(None if ticks is None else ticks.bb)),
        (heterogeneity_text(comparison, one), tick(None if ticks is None else ticks.dh)),
    ]


def _lie_cells(one: ComparedMechanism) -> tuple[str, str, str, str]:
    """The best lie, its gain, its share of the payoff, and how often it pays."""
    if not one.lies:
        return MISSING, MISSING, MISSING, MISSING
    best = best_lie(one)
    if best is None:
        return f"{none_pays(one)}, of those tried", "0", MISSING, MISSING
    relative = MISSING if best.relative_gain is None else percent(best.relative_gain.value, signed=True)
    return best.title, number(best.gain.value, signed=True), relative, percent(best.pays_share)
