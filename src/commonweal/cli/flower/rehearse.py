"""`commonweal flower rehearse`: a whole federation on this machine, with nothing left running behind it."""

from __future__ import annotations

import json
import math
import re
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from commonweal.cli.flower.results import check_place, remove_earlier
from commonweal.cli.ledger.options import Keys, opened_store
from commonweal.cli.run import INTERRUPTED
from commonweal.data.optional_packages import needed_for
from commonweal.errors import InputError

if TYPE_CHECKING:
    from commonweal.flower.rehearsal.rehearsal import RunOutcome

TERMINATED = 143  # the shell's exit code for SIGTERM


def rehearse_command(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A federation's folder (commonweal flower new makes one).")
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="OUT", help="Where the results go, out/NAME if left out.", show_default=False),
    ] = None,
    keys: Keys = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Start anew where OUT holds results; they go, ledger.db too.")
    ] = False,
    warm: Annotated[
        bool,
        typer.Option("--warm", help="Load packages once a member rather than once a message: less real, and quicker."),
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Stop the run if it takes longer.", show_default=False),
    ] = None,
) -> None:
    """Rehearse a federation on this machine: a SuperLink, a SuperNode for each member, TLS, keys, all rounds.

    Example: commonweal flower rehearse my-federation --out out/rehearsal
    """
    with needed_for("a federation on Flower", "flower"):
        from commonweal.flower.rehearsal.rehearsal import Rehearsal
        from commonweal.flower.rehearsal.rehearsed_folder import federation_name

    if timeout is not None and not 0 < timeout < math.inf:
        raise InputError(f"--timeout must be a number of seconds > 0, got {timeout:g}; leave it out for no limit")
    name = federation_name(directory)
    results = Path("out") / (re.sub(r"[^\w.-]+", "-", name).strip(".-") or "rehearsal") if out is None else out
    check_place(results, directory, overwrite=overwrite)
    signal.signal(signal.SIGTERM, _leave)
    try:
        with Rehearsal(directory, results, keys=keys, warm=warm, say=_say) as rehearsal:
            _say(f"logs: {results / 'logs'}")
            remove_earlier(results)
            _say("sending the app to all; the coordinator says:")
            outcome = rehearsal.run_app(timeout=timeout, show=_show)
            rehearsal.keep_papers()
            _say("ending all SuperNodes and the SuperLink")
    except KeyboardInterrupt:
        print("\ninterrupted: nothing is left running", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    if not outcome.is_completed:
        _show_failure(outcome, results)
        raise typer.Exit(1)
    _show_history(results)
    is_sound = _show_audit(results)
    for what, file in (("report", "report.html"), ("ledger", "ledger.db"), ("members", "members")):
        print(f"{what}: {results / file}")
    if not is_sound:
        raise typer.Exit(1)


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(TERMINATED)  # through all that cleans up


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _show(line: str) -> None:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", line).strip()
    if plain and plain != "INFO :":
        _say(f"  | {plain}")


def _show_failure(outcome: RunOutcome, results: Path) -> None:
    details = f" ({outcome.details})" if outcome.details else ""
    _say(f"error: The run ended as {outcome.status}{details}. Its logs are in {results / 'logs'}.")


def _show_history(results: Path) -> None:
    history = json.loads((results / "history.json").read_text(encoding="utf-8"))
    print(history["sentence"])
    totals = history["totals"]
    print(f"rounds held: {len(history['rounds'])} of {history['round_count']}")
    width = max(map(len, history["clients"]))
    for client in history["clients"]:
        left, withdrew = totals["eliminated_after"].get(client), totals["withdrawn_after"].get(client)
        fate = f"let go after round {left}" if left is not None else "stayed"
        if withdrew is not None:
            fate = f"withdrew after round {withdrew}"
        print(f"  {client:<{width}}  {fate}")


def _show_audit(results: Path) -> bool:
    """Whether the book is sound, by the audit that `commonweal ledger verify` makes."""
    with opened_store(str(results / "ledger.db")) as store:
        from commonweal.federation.rule_versions import recompute
        from commonweal.ledger.verification.verify import verify_ledger

        outcome = verify_ledger(store, recompute)
    for finding in outcome.findings:
        print(f"finding: {finding}")
    if not outcome.findings:
        print(
            f"ledger verified: {outcome.state.number} entries chained and signed, decisions made again: "
            f"{outcome.round_count}, reports signed by members: {outcome.signed_reports}"
        )
    return not outcome.findings
