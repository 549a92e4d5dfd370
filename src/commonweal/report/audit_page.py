"""An audit as one page for the members of a consortium, and its files."""

from __future__ import annotations

from pathlib import Path

from commonweal.atomic_write import write_atomically
from commonweal.records.audit import AuditReport, LieResult
from commonweal.report.audit_json import to_json
from commonweal.report.audit_plots import audit_plots
from commonweal.report.audit_text import (
    amount_text,
    basis,
    interval_text,
    pays,
    percent,
    relative_text,
    sentences,
    unit_text,
)
from commonweal.report.inline_svg import in_both_widths
from commonweal.report.templating import render
from commonweal.report.text import MISSING, number
from commonweal.report.write import rendered_plots, write_images


def to_page(report: AuditReport) -> str:
    """The whole page; the same audit gives the same text."""
    return render(
        "audit.html",
        report=report,
        sentences=sentences(report),
        basis=basis(report),
        unit=unit_text(report),
        plots=[in_both_widths(plot) for plot in audit_plots(report)],
        groups=_groups(report),
        end=_end(report),
        stays=_stays(report),
    )


def write_audit(report: AuditReport, directory: Path) -> list[Path]:
    """Write audit.html, audit.json and figures/*.png, *.svg into an existing folder; returns what was written."""
    page, document = directory / "audit.html", directory / "audit.json"
    images = rendered_plots(audit_plots(report))
    content = to_page(report)
    write_atomically(document, to_json(report).encode(), what="the audit")
    write_atomically(page, content.encode(), what="the page")
    return [page, document, *write_images(images, directory / "figures")]


def _groups(report: AuditReport) -> list[tuple[str, list[tuple[str, ...]]]]:
    """Headings with the rows of their tables."""
    kinds = (
        ("One member lies in its reports", 1, "report"),
        ("Two members lie together in their reports", 2, "report"),
        ("One member lies in training or scoring", 1, "training"),
    )
    return [
        (heading, rows)
        for heading, count, kind in kinds
        if (rows := [_row(report, lie) for lie in report.lies if (lie.liar_count, lie.kind) == (count, kind)])
    ]


def _row(report: AuditReport, lie: LieResult) -> tuple[str, ...]:
    return (
        lie.title,
        amount_text(report, lie.gain.value),
        interval_text(report, lie.gain),
        relative_text(lie),
        percent(lie.pays_share),
        percent(lie.loses_place_share),
        percent(lie.wins_place_share),
        "pays" if pays(lie) else "",
    )


def _end(report: AuditReport) -> list[tuple[str, str, str]]:
    """What changes when everybody replies best: a label, with the truth, at the end."""
    found = report.unravelling
    if found is None:
        return []
    truth, end = found.truth, found.end
    return [
        (
            "money moved per round",
            amount_text(report, truth.money_moved, signed=False),
            amount_text(report, end.money_moved, signed=False),
        ),
        (
            "clients eliminated per round",
            number(round(truth.eliminated_count, 3)),
            number(round(end.eliminated_count, 3)),
        ),
        ("welfare of those who stay, per round", amount_text(report, truth.welfare), amount_text(report, end.welfare)),
        ("welfare if nobody were eliminated", amount_text(report, found.everybody_welfare), MISSING),
        ("rounds in which replies came to an end", MISSING, percent(found.settled_share)),
    ]


def _stays(report: AuditReport) -> list[tuple[str, str, str]]:
    found = report.unravelling
    if found is None:
        return []
    return [(client, percent(truth), percent(end)) for client, (truth, end) in found.stays_share.items()]
