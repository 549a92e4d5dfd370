"""`commonweal reproduce`: many replications of experiments over many μ, into one result set."""

from __future__ import annotations

import signal
import sys
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from commonweal.cli.run import INTERRUPTED
from commonweal.data.optional_packages import needed_for
from commonweal.errors import InputError
from commonweal.paper.experiments import EVERY_ONE, REPLICATION_COUNT, chosen_experiments
from commonweal.scenario.settings import checked_mu
from commonweal.study.machine import core_count, cpu_kind

if TYPE_CHECKING:
    from commonweal.records import ContributionRule
    from commonweal.study.runner import Workers

_REPLICATION_LIMIT = 99_999  # files of replications are numbered with five digits


class Backend(StrEnum):
    """Where replications are computed."""

    LOCAL = "local"
    RAY = "ray"


class ContributionRules(StrEnum):
    """Which contributions the decisions use."""

    CLIP = "clip"
    RAW = "raw"
    BOTH = "both"


def reproduce_command(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[EXPERIMENT|FILE.toml ...|all]",
            help="Experiments of the paper, other shipped scenarios, or scenario files. Default: the paper's six.",
        ),
    ] = None,
    replications: Annotated[
        int, typer.Option(metavar="N", help="Replications per experiment, each with a seed of its own.")
    ] = REPLICATION_COUNT,
    mu: Annotated[
        str,
        typer.Option(metavar="LIST|all", help="Values of mu, separated by commas; all: every mu from 0 to infinity."),
    ] = "0,0.01,0.02,0.05,0.1,0.2,inf",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUES",
            help="Vary a key of the scenarios, e.g. learning.learning_rate=0.01,0.1; repeat the option to run all "
            "combinations, each as an experiment.",
            show_default=False,
        ),
    ] = None,
    contributions: Annotated[
        ContributionRules,
        typer.Option(help="Decide with contributions clipped at zero, raw as measured, or both."),
    ] = ContributionRules.CLIP,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Parallel workers (default: one per core); results do not change.",
            show_default=False,
        ),
    ] = None,
    backend: Annotated[
        Backend, typer.Option(help="Run on processes of this machine, or on a running Ray cluster.")
    ] = Backend.LOCAL,
    ray_address: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            envvar="RAY_ADDRESS",
            help="The Ray cluster, as host:port; auto: the one on this machine.",
        ),
    ] = "auto",
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder of the result set.")] = Path("out/reproduction"),
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", envvar="COMMONWEAL_DATA", help="The folder of the original data sets.", show_default=False
        ),
    ] = None,
    mixed_cpus: Annotated[
        bool, typer.Option("--mixed-cpus", help="Accept results from different kinds of processors in one set.")
    ] = False,
    no_report: Annotated[
        bool, typer.Option("--no-report", help="Only compute; run again without this option to write the report.")
    ] = False,
) -> None:
    """Run replications of the paper's experiments, or of your own. Run it again to continue or to add to the results.

    Examples: commonweal reproduce label-noise --replications 20 --out out/paper

    commonweal reproduce mine.toml --replications 5 --set learning.learning_rate=0.01,0.1 --out out/rates
    """
    if not 1 <= replications <= _REPLICATION_LIMIT:
        raise InputError(
            f"--replications must be a whole number from 1 to {_REPLICATION_LIMIT}, got {replications}; the paper has "
            f"{REPLICATION_COUNT}."
        )
    if workers is not None and workers < 1:
        raise InputError(f"--workers must be at least 1, got {workers}; leave it out for one per core.")
    mus = _mus(mu)
    with needed_for("a reproduction"):
        from commonweal.cli.reproduce_view import ReproductionView, verdict_line
        from commonweal.data.sources import find_directory
        from commonweal.paper.make_study import make_study
        from commonweal.paper.page.page import write_page
        from commonweal.report.study.page import write_study
        from commonweal.study.experiments import load_experiments, parse_settings
        from commonweal.study.runner import Request, carry_out, plan, result_directory

    rules: tuple[ContributionRule, ...] = ("clip", "raw")
    if contributions is not ContributionRules.BOTH:
        rules = ("raw",) if contributions is ContributionRules.RAW else ("clip",)
    request = Request(
        scenarios=load_experiments(chosen_experiments(experiments or []), parse_settings(settings or [])),
        replication_count=replications,
        mus=dict.fromkeys(rules, mus),
        data_directory=find_directory(data),
        mixed_cpus=mixed_cpus,
        experiment_order=EVERY_ONE,
    )
    interrupts: list[int] = []

    def on_interrupt(number: int, frame: object) -> None:
        interrupts.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, on_interrupt)
    view: ReproductionView | None = None
    with result_directory(out):
        try:
            planned = plan(request, out, cpu_kind=cpu_kind() if backend is Backend.LOCAL else None)
            view = ReproductionView(planned, request)
            is_done = not planned.tasks  # then no cluster is needed
            with _local(workers) if is_done else _workers(backend, workers, ray_address) as chosen, view.shown():
                written = [carry_out(request, planned, out, chosen, on_result=view.on_result)]
            if not no_report:
                with view.reporting():
                    paper = make_study(out, request.data_directory, mus=() if mus == "all" else mus)
                    written += [*write_study(paper.study, out), *write_page(paper, out)]
        except BaseException:
            if not interrupts:  # an interrupt may surface as another error
                raise
            done = (
                f"{view.done_count} of {view.total_count} replications are saved in {out}"
                if view
                else "nothing was computed"
            )
            print(f"\ninterrupted: {done}; run the same command to continue", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None
    if not no_report:
        print(verdict_line(paper.study.findings, out))
    for path in written:
        if path.name in ("results.parquet", "report.html"):
            print(f"{path.stem}: {path}")


def _workers(backend: Backend, count: int | None, ray_address: str) -> AbstractContextManager[Workers]:
    """The workers, until the block ends."""
    if backend is Backend.LOCAL:
        return _local(count)
    try:
        from commonweal.study.ray_workers import ray_cluster
    except ImportError as error:
        raise InputError(f"--backend ray needs {error.name or error}: pip install 'commonweal[ray]'.") from None
    return ray_cluster(ray_address, worker_count=count)


def _local(count: int | None) -> AbstractContextManager[Workers]:
    with needed_for("a reproduction"):
        from commonweal.study.local_workers import replicate_locally

    return nullcontext(partial(replicate_locally, worker_count=count or core_count()))


def _mus(given: str) -> tuple[float, ...] | Literal["all"]:
    """The values of `--mu` in rising order, each once."""
    if given.strip() == "all":
        return "all"
    parts = [part.strip() for part in given.split(",")]
    if not all(parts):
        raise InputError(f"--mu must be all, or numbers separated by commas such as 0,0.05,inf, got {given!r}.")
    return tuple(sorted({checked_mu(part) for part in parts}))
