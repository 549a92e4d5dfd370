"""The summary of a run on the terminal, in words that need no glossary."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console

from commonweal.cli.run_view import show_summary
from commonweal.report.plots import in_all_rounds
from tests.report import run_reports


def summary(run_report):
    console = Console(width=120, highlight=False, emoji=False, no_color=True, force_terminal=False)
    with console.capture() as capture:
        show_summary(run_report, Path("out"), console)
    return capture.get()


def test_the_mean_is_of_the_same_clients_in_the_first_and_the_last_round():
    """Otherwise it would rise because weak clients leave."""
    hospitals = run_reports.hospitals()
    same = in_all_rounds(hospitals)
    assert len(same) < len(hospitals.clients)
    first, last = (
        np.mean([each.clients[client].accuracy.value for client in same])
        for each in (hospitals.rounds[0], hospitals.rounds[-1])
    )
    assert (
        f"mean accuracy of the {len(same)} clients of all rounds: {first:.3f} after round 1, {last:.3f} after round 8"
        in summary(hospitals)
    )
    assert "of all rounds" not in summary(run_reports.pair())  # it had only one


def test_totals_are_explained():
    hospitals = run_reports.hospitals()
    said = summary(hospitals)
    of_all = f"{hospitals.welfare_of_all:+.4f}"
    assert f": total social welfare, the profits of retained clients; of all who took part {of_all}\n" in said
    assert ": selection fairness, the part of all contributions that came from retained clients\n" in said
    assert "decided again on 100 draws of its figures\n" in said
