"""`commonweal decide`: decide one or more rounds from their figures."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from commonweal import figures_file
from commonweal.bounded_read import LARGEST_DOCUMENT, read_up_to
from commonweal.cli import json_view, text_view
from commonweal.cli.ledger.options import Keys
from commonweal.cli.ledger.settle import in_order_of_admission, settle_outcome, terms_to_settle_by
from commonweal.cli.mechanism_options import checked_number, mechanism_named, own_file, parameters_of
from commonweal.cli.outcome import DecideResult, find_outcome
from commonweal.decision.envelope import PATH_LIMIT
from commonweal.decision.validation import check_mu
from commonweal.errors import InputError
from commonweal.records import Rules
from commonweal.records.rounds import DEFAULT_MECHANISM
from commonweal.report import decision_map

EXAMPLE_CSV = """\
round,client,utility,cost,contribution
1,C1,0.2,0.1,0.4
1,C2,0.15,0.1,0.2
1,C3,0.3,0.05,0.4
2,C1,0.1,0.15,0.5
2,C2,0.1,0.15,0.1
2,C3,0.3,0.15,0.4
"""
"""The paper's worked example: two rounds of three clients."""

EXAMPLE_MU = 0.05


class ContributionRuleOption(StrEnum):
    clip = "clip"
    raw = "raw"


class FiguresOption(StrEnum):
    measured = "measured"
    pooled = "pooled"


class LossRuleOption(StrEnum):
    contribution = "contribution"
    equal = "equal"
    cost = "cost"
    loss = "loss"


def decide_command(
    file: Annotated[
        str | None,
        typer.Argument(
            help="CSV or JSON file with client, contribution, and either profit or both utility and cost; also round "
            "if there are several. Use - to read standard input.",
            show_default=False,
        ),
    ] = None,
    mu: Annotated[
        str | None,
        typer.Option(
            metavar="MU",
            help="Leniency: the weight of lost contribution. 0 = least lenient, inf = nobody is ever eliminated.",
            show_default=False,
        ),
    ] = None,
    mechanism: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="Which mechanism decides: paper, another one by its name, or a file of your own such as "
            "file:my_mechanism.py.",
        ),
    ] = DEFAULT_MECHANISM,
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A parameter of the mechanism. Repeat the option for several.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="For a mechanism that draws lots.")] = 0,
    example: Annotated[bool, typer.Option("--example", help="Decide the paper's worked example (at mu 0.05).")] = False,
    mu_path: Annotated[
        bool,
        typer.Option("--mu-path", help="Show the decision for every mu. For a single round, --mu is then optional."),
    ] = False,
    contribution_rule: Annotated[
        ContributionRuleOption,
        typer.Option(
            help="clip: negative contributions count as 0. raw: they count as measured; at most 20 loss-making clients."
        ),
    ] = ContributionRuleOption.clip,
    loss_rule: Annotated[
        LossRuleOption,
        typer.Option(help="In proportion to what a negative budget is divided; cost needs a cost column."),
    ] = LossRuleOption.contribution,
    figures: Annotated[
        FiguresOption,
        typer.Option(
            help="measured: profits as given. pooled: utilities are drawn towards their mean, the more so the less "
            "certain they are; needs columns utility, cost and utility_error."
        ),
    ] = FiguresOption.measured,
    liability_cap: Annotated[
        str | None,
        typer.Option(metavar="AMOUNT", help="The most that a client can be made to pay per round.", show_default=False),
    ] = None,
    grace_rounds: Annotated[
        int, typer.Option(metavar="G", help="Rounds at the start in which nobody is eliminated.")
    ] = 0,
    path_limit: Annotated[
        int, typer.Option(metavar="N", help="Stop a mu path after this many breakpoints.")
    ] = PATH_LIMIT,
    ledger: Annotated[
        str | None,
        typer.Option(
            metavar="LEDGER",
            help="Settle the rounds in this ledger, a SQLite file or a database URL (see `commonweal ledger init`).",
            show_default=False,
        ),
    ] = None,
    currency: Annotated[
        str | None,
        typer.Option(
            metavar="CODE", help="Create the ledger if there is none, in this currency (ISO 4217).", show_default=False
        ),
    ] = None,
    worth: Annotated[
        str | None,
        typer.Option(
            metavar="AMOUNT",
            help="Worth of one unit of utility in a new ledger: 1 if the figures are in its currency.",
            show_default=False,
        ),
    ] = None,
    keys: Keys = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")] = False,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the decision map over mu: .png, .svg or .pdf.", show_default=False),
    ] = None,
) -> None:
    """Decide who stays and who pays whom, from figures of any federated learning stack.

    Example: commonweal decide round.csv --mu 0.05
    """
    kind = mechanism_named(mechanism)
    if not kind.takes_mu and (mu is not None or mu_path or plot is not None or example):
        raise InputError(f"The mechanism {kind.name!r} has no mu: leave out --mu, --mu-path, --plot and --example.")
    decided = mu is not None or example or not kind.takes_mu
    rules = Rules(
        mu=_mu(mu, example=example, path_only=mu_path or plot is not None) if kind.takes_mu else math.inf,
        mechanism=kind.name,
        parameters=parameters_of(kind, parameter or []),
        seed=seed if "seed" in kind.reads else None,
        file=own_file(mechanism),
        contribution_rule=contribution_rule.value,
        loss_rule=loss_rule.value,
        liability_cap=None if liability_cap is None else checked_number("--liability-cap", liability_cap),
    )
    if kind.name != DEFAULT_MECHANISM:
        kind(rules).check(has_costs=True)
    if ledger is not None and kind.decides:
        raise InputError(
            f"--ledger needs a mechanism that decides only who stays and who pays; {kind.name!r} also decides about "
            f"{' and '.join(sorted(kind.decides))}, which is not carried out here."
        )
    if plot is not None:
        decision_map.check_format(plot)
    if rules.liability_cap is not None and not 0 <= rules.liability_cap < math.inf:
        raise InputError(
            f"--liability-cap must be finite and at least 0, got {rules.liability_cap:g}; leave it out for no cap."
        )
    if grace_rounds < 0:
        raise InputError(f"--grace-rounds must be at least 0, got {grace_rounds}.")
    if not decided and as_json:
        raise InputError("--json needs --mu, e.g. --mu 0.05.")
    if path_limit < 1:
        raise InputError(f"--path-limit must be at least 1, got {path_limit} (default: {PATH_LIMIT}).")
    if ledger is not None and not decided:
        raise InputError("--ledger needs --mu, e.g. --mu 0.05.")
    if ledger is None and (currency is not None or worth is not None):
        raise InputError("--currency and --worth are for a new ledger. Add --ledger, or leave them out.")
    content, origin = _content(file, example=example)
    rounds = figures_file.parse_figures(content, origin)
    if loss_rule is LossRuleOption.cost and any(given.costs is None for _, given in rounds):
        raise InputError("--loss-rule cost needs costs: add a column cost to the figures.")
    if figures is FiguresOption.pooled:
        _check_poolable(rounds, ledger)
    if not decided and len(rounds) > 1:
        raise InputError(
            f"A file of several rounds needs --mu, because earlier eliminations decide who takes part; got "
            f"{len(rounds)} rounds."
        )
    terms = None
    if ledger is not None:
        terms = terms_to_settle_by(ledger, keys, name=_ledger_name(file), currency=currency, worth=worth)
        rounds = in_order_of_admission(rounds, ledger)
    with _progress(len(rounds)) as (on_round, on_breakpoint):
        outcome = find_outcome(
            rounds,
            rules,
            grace_rounds=grace_rounds,
            figures_rule=figures.value,
            paths_wanted=mu_path or plot is not None,
            path_limit=path_limit,
            on_round=on_round,
            on_breakpoint=on_breakpoint,
        )
    # Draw, then settle, then show: if one step fails, the later ones do not happen.
    drawn = None if plot is None else _draw(outcome, plot, mu=outcome.rules.mu if decided else None)
    settled = None
    if ledger is not None and terms is not None:
        settled = settle_outcome(
            outcome, ledger, keys, terms=terms, names_rounds=lambda: figures_file.names_rounds(content, origin)
        )
    if as_json:
        typer.echo(json_view.to_json(outcome, with_pieces=mu_path))
    else:
        console = text_view.make_console()
        if example:
            console.print("[dim]The paper's worked example, as a file:[/]")
            console.print(EXAMPLE_CSV, style="dim")
        if decided:
            text_view.show(outcome, console, with_pieces=mu_path)
        else:
            text_view.show_path(outcome, console)
    sys.stdout.flush()
    if settled is not None:
        print(settled, file=sys.stderr)
    if drawn is not None:
        print(drawn, file=sys.stderr)  # on the error stream, so that --json stays one document


def _check_poolable(rounds: figures_file.Rounds, ledger: str | None) -> None:
    if any(given.costs is None or given.profit_errors is None for _, given in rounds):
        raise InputError(
            "--figures pooled needs columns utility, cost and utility_error, the utility's standard error."
        )
    if ledger is not None:
        raise InputError(
            "--ledger needs figures as measured: from pooled ones alone, nobody could compute them again. Write the "
            "pooled profits into a file, and settle that."
        )


def _ledger_name(file: str | None) -> str:
    return Path(file).stem if file not in (None, "-") else "decide"


def _mu(mu: str | None, *, example: bool, path_only: bool) -> float:
    if mu is not None:
        return check_mu(checked_number("--mu", mu))
    if example:
        return EXAMPLE_MU
    if path_only:
        return 0.0
    raise InputError("A decision needs --mu, e.g. --mu 0.05, or --mu-path for every mu.")


def _content(file: str | None, *, example: bool) -> tuple[str | bytes, str]:
    """The figures as they stand in the file, and its name for messages."""
    if example and file is not None:
        raise InputError(f"--example has its own figures and takes no file, got {file!r}.")
    if example:
        return EXAMPLE_CSV, "the example"
    if file is None:
        raise InputError("A decision needs figures: name a CSV or JSON file, - for standard input, or try --example.")
    if file != "-":
        return figures_file.read_content(file), file
    if sys.stdin is None:
        raise InputError("Standard input is closed. Name a file instead of -.")
    return read_up_to(sys.stdin.buffer, LARGEST_DOCUMENT, "standard input"), "standard input"


@contextmanager
def _progress(round_count: int) -> Iterator[tuple[Callable[[int], None], Callable[[int], None]]]:
    """A bar on the error stream, if that is a terminal: rounds, and breakpoints of the current μ path."""
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
        deciding = progress.add_task("rounds", total=round_count)
        following = progress.add_task("breakpoints of the mu path", total=None)
        yield (
            lambda done: progress.update(deciding, completed=done),
            lambda found: progress.update(following, completed=found),
        )


def _draw(outcome: DecideResult, path: Path, *, mu: float | None) -> str:
    """Draw the decision maps; returns a line that says where they are."""
    maps = [view.map(mu) for view in outcome.rounds]
    complete = [m for m in maps if m is not None]
    if not complete:
        raise InputError(
            "A decision map needs a complete mu path, and none was complete within the limit. Raise --path-limit."
        )
    interesting = [m for m in complete if m.breakpoints] or complete[:1]
    drawn = decision_map.draw(interesting, path)
    left_out = f" (the first {drawn} of {len(interesting)})" if drawn < len(interesting) else ""
    return f"decision map{'s' * (drawn > 1)}: {path}{left_out}"
