"""The report: one HTML file that needs nothing else and sends nothing anywhere."""

from __future__ import annotations

from pathlib import Path

from commonweal.atomic_write import write_atomically
from commonweal.records import RunReport
from commonweal.report import overview
from commonweal.report.client_section import client_link, client_section, fate
from commonweal.report.markup import definitions, text
from commonweal.report.number_text import counted
from commonweal.report.shell import page_from
from commonweal.report.terms import TERMS


def write_report(chronicle: RunReport, path: Path) -> None:
    """Write report.html; the same chronicle gives the same bytes."""
    write_atomically(path, to_page(chronicle).encode(), what="the report")


def to_page(chronicle: RunReport) -> str:
    """The whole page. Values put into the template are markup; what they hold of a user's has been escaped."""
    return page_from(
        "page.html",
        name=text(chronicle.name),
        description=text(chronicle.description),
        sentence=text(chronicle.sentence),
        warnings=overview.warnings_box(chronicle),
        key_numbers=overview.key_numbers(chronicle),
        durations=overview.figure(chronicle, "durations"),
        accuracy=overview.figure(chronicle, "accuracy"),
        tsw=overview.tile(chronicle, "tsw"),
        tsfi=overview.tile(chronicle, "tsfi"),
        payments=overview.payments_table(chronicle),
        transfers=overview.figure(chronicle, "transfers"),
        balances=overview.balances_table(chronicle),
        decision_maps=overview.decision_maps(chronicle),
        rounds=overview.rounds_table(chronicle),
        events=overview.events_list(chronicle),
        index="".join(
            f"<li>{client_link(chronicle, client)} <small>{fate(chronicle, client)}</small></li>"
            for client in chronicle.clients
        ),
        clients="\n".join(client_section(chronicle, client) for client in chronicle.clients),
        settings=overview.settings_list(chronicle),
        terms=definitions(TERMS, "terms"),
        client_count=counted(len(chronicle.clients), "client"),
    )
