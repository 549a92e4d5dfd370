"""`commonweal claims`: test the paper's claims on a result set."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from commonweal.data.optional_packages import needed_for
from commonweal.errors import InputError
from commonweal.records.study import ClaimResult, Verdict

if TYPE_CHECKING:
    from commonweal.paper.claims import Comparison

FORMAT = "commonweal.claims/1"
_STYLES: dict[Verdict, str] = {"held": "green", "not held": "red", "undecided": "yellow", "not testable": "dim"}


def claims_command(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of the result set, as written by `commonweal reproduce`.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print all results as JSON.")] = False,
) -> None:
    """Test the paper's claims on the results of a reproduction: effects, intervals over replications, verdicts.

    Example: commonweal claims out/reproduction
    """
    with needed_for("testing claims"):
        from commonweal.paper.claims import comparisons, findings
        from commonweal.study.intervals import LEVEL
        from commonweal.study.outcomes import gather
        from commonweal.study.result_set import read_results

    outcomes = gather(*read_results(directory))
    found = findings(outcomes)
    if not found:
        raise InputError(
            f"No claim can be tested on {str(directory)!r}: claims need an experiment of the paper with clipped "
            "contributions at mu = 0, inf and a value in between. Add them with `commonweal reproduce EXPERIMENT --mu "
            f"0,0.05,inf --out {directory}`; existing results are kept."
        )
    compared = comparisons(outcomes)
    if as_json:
        print(json.dumps(_document(found, compared, LEVEL), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        _show(found, compared, LEVEL, Console(highlight=False, emoji=False))


def _document(found: Sequence[ClaimResult], compared: Sequence[Comparison], level: float) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "interval_level": level,
        "findings": [asdict(finding) for finding in found],
        "comparisons": [
            {"settled": asdict(one.ours), "other": asdict(one.other), "verdict_changes": one.verdict_changes}
            for one in compared
        ],
    }


def _show(found: Sequence[ClaimResult], compared: Sequence[Comparison], level: float, console: Console) -> None:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("claim", no_wrap=True)
    table.add_column("experiment", no_wrap=True)
    table.add_column("effect", justify="right", no_wrap=True)
    table.add_column(f"{100 * level:g} % interval", justify="right", no_wrap=True)
    table.add_column("claimed", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("of", justify="right", no_wrap=True)
    for finding in found:
        table.add_row(
            finding.claim,
            finding.experiment,
            _number(finding.interval.value),
            _interval(finding),
            _claimed(finding),
            _verdict(finding),
            str(finding.replication_count),
        )
    console.print(table)
    console.print()
    _show_words(found, console)
    _show_changes(compared, console)


def _show_words(found: Sequence[ClaimResult], console: Console) -> None:
    """What each claim says, what its number means, and what explains the result in each experiment."""
    for name in dict.fromkeys(finding.claim for finding in found):
        some = [finding for finding in found if finding.claim == name]
        console.print(Text.assemble((name, "bold"), f" {some[0].statement}"), soft_wrap=True)
        console.print(Text(f"   effect: {some[0].effect}", style="dim"), soft_wrap=True)
        for finding in some:
            if finding.driver:
                line = Text.assemble("   ", finding.experiment, ", ", _verdict(finding), f": {finding.driver}")
                console.print(line, soft_wrap=True)


def _show_changes(compared: Sequence[Comparison], console: Console) -> None:
    changes = [one for one in compared if one.verdict_changes]
    variants = list(dict.fromkeys(one.other.variant for one in compared))
    console.print()
    if not changes:
        console.print(f"No verdict changes with: {', '.join(variants)}.", soft_wrap=True)
        return
    console.print(Text("Where another choice changes a verdict", style="bold"))
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("claim", "experiment", "choice", "ours", "changed"):
        table.add_column(name, no_wrap=name != "choice")
    table.add_column("of", justify="right", no_wrap=True)
    for one in changes:
        table.add_row(
            one.ours.claim,
            one.ours.experiment,
            one.other.variant,
            Text.assemble(f"{_number(one.ours.interval.value)} ", _verdict(one.ours)),
            Text.assemble(f"{_number(one.other.interval.value)} ", _verdict(one.other)),
            str(one.ours.replication_count),
        )
    console.print(table)
    changing = {one.other.variant for one in changes}
    if unchanging := [variant for variant in variants if variant not in changing]:
        console.print(f"No verdict changes with: {', '.join(unchanging)}.", soft_wrap=True)


def _verdict(finding: ClaimResult) -> Text:
    return Text(finding.verdict, style=_STYLES[finding.verdict])


def _interval(finding: ClaimResult) -> str:
    lower, upper = finding.interval.lower, finding.interval.upper
    return "" if lower == upper else f"{_number(lower)} to {_number(upper)}"


def _claimed(finding: ClaimResult) -> str:
    """What the paper claims. A threshold slightly below 1 stands for a claim that a share is 1."""
    return "all" if 0.999999 < finding.threshold < 1 else f"> {finding.threshold:g}"


def _number(value: float) -> str:
    """Three decimals, or as many as needed to distinguish the value from 0 and 1."""
    return f"{value:.3f}" if value in (0, 1) or min(abs(value), abs(1 - value)) >= 0.0005 else f"{value:.3g}"
