"""`commonweal audit`: what would a member gain by lying?"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from commonweal import figures_file
from commonweal.atomic_write import make_results_folder
from commonweal.cli import text_view
from commonweal.cli.decide import ContributionRuleOption, LossRuleOption
from commonweal.cli.ledger.opening_terms import opening_terms
from commonweal.cli.mechanism_options import mechanism_named, own_file, parameters_of
from commonweal.data.optional_packages import needed_for
from commonweal.decision.mechanisms import make_mechanism, mechanism_class, rules_for
from commonweal.errors import InputError
from commonweal.records import Rules
from commonweal.records.audit import AuditReport, LieResult, Money
from commonweal.report.audit_json import to_json
from commonweal.report.audit_text import amount_text, basis, interval_text, percent, relative_text, sentences, unit_text
from commonweal.scenario.settings import checked_mu, override
from commonweal.scenario.shipped import load, shipped_names
from commonweal.scenario.spec import Scenario

if TYPE_CHECKING:
    from commonweal.audit.game import Bounds

FIGURE_FILES = (".csv", ".json")
MOST_REPLICATIONS, MOST_IDENTITIES = 1000, 20


def audit_command(
    what: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO|FILE",
            help="A scenario (a .toml file, or the name of a shipped one), or figures of rounds as `commonweal decide` "
            "takes them (.csv or .json).",
        ),
    ],
    mechanism: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="paper, another one by its name, or a file of your own such as file:my_mechanism.py (default: the "
            "scenario's, or paper).",
            show_default=False,
        ),
    ] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A parameter of the mechanism. Repeat the option for several.",
            show_default=False,
        ),
    ] = None,
    mu: Annotated[
        str | None, typer.Option(metavar="MU", help="Leniency; needed for figures from a file.", show_default=False)
    ] = None,
    contribution_rule: Annotated[
        ContributionRuleOption | None, typer.Option(help="As in `commonweal decide`.", show_default=False)
    ] = None,
    loss_rule: Annotated[
        LossRuleOption | None, typer.Option(help="As in `commonweal decide`.", show_default=False)
    ] = None,
    liability_cap: Annotated[
        float | None,
        typer.Option(metavar="AMOUNT", help="The most that a client can be made to pay per round.", show_default=False),
    ] = None,
    bounds: Annotated[
        str | None,
        typer.Option(
            metavar="LOW:HIGH",
            help="The lowest and the highest profit that a client may report, e.g. --bounds=-1:1 (default: the lowest "
            "and the highest profit in the figures).",
            show_default=False,
        ),
    ] = None,
    replications: Annotated[
        int, typer.Option(metavar="K", help="Runs of a scenario, each with a seed of its own.")
    ] = 1,
    liar: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The client that lies in training and scoring (default: the first without a defect).",
            show_default=False,
        ),
    ] = None,
    identities: Annotated[
        int, typer.Option(metavar="K", help="Under how many names a client takes part that pretends to be several.")
    ] = 2,
    reports_only: Annotated[
        bool, typer.Option("--reports-only", help="Leave out the lies for which a scenario must be trained again.")
    ] = False,
    rounds: Annotated[
        int | None, typer.Option(metavar="T", help="Number of rounds, instead of the scenario's.", show_default=False)
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="S", help="Seed of the first run, instead of the scenario's.", show_default=False),
    ] = None,
    currency: Annotated[
        str | None, typer.Option(metavar="CODE", help="Show amounts in this currency (ISO 4217).", show_default=False)
    ] = None,
    worth: Annotated[
        str | None,
        typer.Option(metavar="AMOUNT", help="Worth of one unit of utility in that currency.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write a page, JSON and figures into this folder.", show_default=False),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", envvar="COMMONWEAL_DATA", help="Folder of the original data sets.", show_default=False
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Parallel threads (default: one per core); results do not change.", show_default=False
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")] = False,
) -> None:
    """Tell what a member would gain by lying, and where it ends if everybody does.

    Figures from a file are audited as they are; a scenario is trained first, and again for lies that change training.

    Example: commonweal audit rounds.csv --mu 0.05 --currency EUR --worth 1000 --out out/audit
    """
    if mechanism is not None:
        mechanism_named(mechanism)  # says what is wrong, if anything
    for option, value, most in (
        ("--replications", replications, MOST_REPLICATIONS),
        ("--identities", identities, MOST_IDENTITIES),
    ):
        least = 2 if option == "--identities" else 1
        if not least <= value <= most:
            raise InputError(f"{option} must be from {least} to {most}, got {value}.")
    if workers is not None and workers < 1:
        raise InputError(f"--workers must be at least 1, got {workers}. Leave it out for one per core.")
    money = _money(currency, worth)
    allowed = None if bounds is None else _bounds(bounds)
    chosen: dict[str, object] = {
        "contribution_rule": None if contribution_rule is None else contribution_rule.value,
        "loss_rule": None if loss_rule is None else loss_rule.value,
        "liability_cap": _cap(liability_cap),
    }
    chosen = {name: value for name, value in chosen.items() if value is not None}
    if _is_figures(what):
        for option, given in (
            ("--rounds", rounds), ("--seed", seed), ("--liar", liar), ("--replications", replications != 1 or None),
            ("--reports-only", reports_only or None),
        ):  # fmt: skip
            if given is not None:
                raise InputError(f"{option} is for scenarios: figures from a file are not trained. Leave it out.")
        unknown = Rules(mu=math.nan)  # a file says nothing of rules
        report = _audit_figures(what, _rules(mechanism, unknown, mu, parameter or [], chosen), allowed)
    else:
        scenario = override(load(what), seed=seed, rounds=rounds)
        rules = _rules(mechanism, scenario.mechanism.rules, mu, parameter or [], chosen)
        scenario = replace(scenario, mechanism=replace(scenario.mechanism, rules=rules))
        report = _audit_scenario(
            scenario,
            allowed,
            liar=liar,
            identity_count=identities,
            replication_count=replications,
            reports_only=reports_only,
            data=data,
            workers=workers,
        )
    report = replace(report, money=money)
    written = None if out is None else _write(report, out)
    if as_json:
        typer.echo(to_json(report))
    else:
        _show(report, text_view.make_console())
    sys.stdout.flush()
    if written is not None:
        print(f"page: {written}", file=sys.stderr)  # on the error stream, so that --json stays one document


def _is_figures(what: str) -> bool:
    return what not in shipped_names() and Path(what).suffix.lower() in FIGURE_FILES


def _audit_figures(file: str, rules: Rules, bounds: Bounds | None) -> AuditReport:
    from commonweal.audit.audit import RoundsAudit
    from commonweal.audit.bounds import observed_bounds
    from commonweal.audit.game import AuditedRound
    from commonweal.federation.replay import read_by

    mechanism = make_mechanism(rules)
    rounds = []
    for number, given in figures_file.parse_figures(figures_file.read_content(file), file):
        figures, counts = read_by(mechanism, given)
        rounds.append(AuditedRound(number=number, figures=figures, sample_counts=counts))
    with _progress() as (on_step, _):
        audit = RoundsAudit(
            mechanism=mechanism,
            rounds=rounds,
            bounds=observed_bounds(rounds) if bounds is None else bounds,
            on_step=on_step,
        )
        return audit.report(Path(file).name)


def _audit_scenario(
    scenario: Scenario,
    bounds: Bounds | None,
    *,
    liar: str | None,
    identity_count: int,
    replication_count: int,
    reports_only: bool,
    data: Path | None,
    workers: int | None,
) -> AuditReport:
    with needed_for("an audit of a scenario"):
        from commonweal.audit.training import ScenarioAudit
        from commonweal.data.sources import find_directory
        from commonweal.simulation.simulated_task import with_sites

    with _progress() as (on_step, on_run):
        audit = ScenarioAudit(
            scenario=with_sites(scenario),
            liar=liar,
            identity_count=identity_count,
            replication_count=replication_count,
            reports_only=reports_only,
            bounds=bounds,
            data_directory=find_directory(data),
            worker_count=workers,
            on_run=on_run,
            on_step=on_step,
        )
        return audit.report(scenario.name)


def _rules(
    mechanism: str | None, base: Rules, mu: str | None, parameters: list[str], chosen: dict[str, object]
) -> Rules:
    """The rules of figures from a file, or of a scenario, with what the options say otherwise."""
    rules, kind = base, mechanism_class(base)
    if mechanism is not None:
        kind = mechanism_named(mechanism)
        rules = replace(rules_for(kind, base), file=own_file(mechanism))
    if parameters:
        rules = replace(rules, parameters=parameters_of(kind, parameters))
    if mu is not None and not kind.takes_mu:
        raise InputError(f"The mechanism {kind.name!r} has no mu. Leave out --mu.")
    if mu is not None:
        rules = replace(rules, mu=checked_mu(mu))
    elif kind.takes_mu and math.isnan(rules.mu):
        raise InputError(f"The mechanism {kind.name!r} needs --mu, e.g. --mu 0.05.")
    return replace(rules, **chosen)  # type: ignore[arg-type]


def _money(currency: str | None, worth: str | None) -> Money | None:
    if currency is None and worth is None:
        return None
    if currency is None:
        raise InputError("--worth needs --currency, e.g. --currency EUR.")
    terms = opening_terms("audit", currency=currency, worth=worth)
    return Money(currency=terms.currency, worth=terms.worth / 10**terms.minor_digits, minor_digits=terms.minor_digits)


def _cap(cap: float | None) -> float | None:
    if cap is not None and not 0 <= cap < math.inf:
        raise InputError(f"--liability-cap must be finite and at least 0, got {cap:g}; leave it out for no cap.")
    return cap


def _bounds(text: str) -> Bounds:
    from commonweal.audit.game import Bounds

    low, colon, high = text.partition(":")
    try:
        found = Bounds(low=float(low), high=float(high))
    except ValueError:
        found = Bounds(low=math.nan, high=math.nan)
    if not (colon and math.isfinite(found.low) and math.isfinite(found.high) and found.low <= found.high):
        raise InputError(f"--bounds must be two numbers, the lower first, such as --bounds=-1:1, got {text!r}.")
    return found


@contextmanager
def _progress() -> Iterator[tuple[Callable[[int, int], None], Callable[[str, int, int], None]]]:
    """Two bars on the error stream, if that is a terminal: runs of a scenario, and steps of the audit."""
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        running = progress.add_task("runs", total=None, visible=False)
        auditing = progress.add_task("lies in reports", total=None, visible=False)
        yield (
            lambda done, total: progress.update(auditing, completed=done, total=total, visible=True),
            lambda title, done, total: progress.update(
                running, completed=done, total=total, description=f"training: {title}", visible=True
            ),
        )


def _write(report: AuditReport, directory: Path) -> Path:
    from commonweal.report.audit_page import write_audit

    make_results_folder(directory)
    return write_audit(report, directory)[0]


def _show(report: AuditReport, console: Console) -> None:
    console.print(Text(basis(report)), soft_wrap=True)
    console.print(_table(report))
    for one in report.not_tried:
        console.print(Text(f"not tried: {one.title}. {one.reason}", style="dim"), soft_wrap=True)
    for note in report.notes:
        console.print(Text(f"note: {note}", style="dim"), soft_wrap=True)
    console.print()
    for sentence in sentences(report):
        console.print(Text(sentence), soft_wrap=True)


def _table(report: AuditReport) -> Table:
    table = Table(
        box=SIMPLE_HEAD, pad_edge=False, title=f"Mean gain per round, in {unit_text(report)}", title_justify="left"
    )
    table.add_column("a member that ...", overflow="fold")
    for heading in ("gain", "95 % interval", "of payoff", "pays in", "costs place"):
        table.add_column(heading, justify="right")
    for count, kind, heading in (
        (1, "report", ""), (2, "report", "two members that each ..."), (1, "training", "in training and scoring"),
    ):  # fmt: skip
        rows = [lie for lie in report.lies if (lie.liar_count, lie.kind) == (count, kind)]
        if rows and heading:
            table.add_section()
            table.add_row(Text(heading, style="bold"))
        for lie in rows:
            table.add_row(*_cells(report, lie))
    return table


def _cells(report: AuditReport, lie: LieResult) -> list[str]:
    return [
        lie.title,
        amount_text(report, lie.gain.value),
        interval_text(report, lie.gain),
        relative_text(lie),
        percent(lie.pays_share),
        percent(lie.loses_place_share),
    ]
