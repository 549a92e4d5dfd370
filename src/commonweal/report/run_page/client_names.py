"""How the page names a client and refers to what it says of it."""

from __future__ import annotations

from dataclasses import dataclass

from commonweal.records import RunReport
from commonweal.report.palette import client_styles


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientName:
    name: str
    anchor: str
    colour: str


def client_name(run_report: RunReport, client: str) -> ClientName:
    """The anchor is a number, because a name may contain any character."""
    place, styles = run_report.clients.index(client) + 1, client_styles(run_report.clients)
    return ClientName(name=client, anchor=f"client-{place}", colour=styles[client].colour)
