"""`commonweal flower rehearse`: run a whole federation on this machine, and leave nothing running."""

from __future__ import annotations

import json
import math
import re
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from commonweal.cli.ledger.options import Keys, opened_store
from commonweal.cli.run import INTERRUPTED
from commonweal.data.optional_packages import needed_for
from commonweal.errors import FederationError, InputError
from commonweal.report.text import counted

if TYPE_CHECKING:
    from commonweal.flower.rehearsal.rehearsal import RunOutcome

TERMINATED = 143  # the shell's exit code for SIGTERM
_ERROR = "commonweal: error: "  # how the coordinator's output tells of one
_RESULTS = (
    "checkpoint.npz", "confirmed-heads.json", "history.json", "report.html", "ledger.db", "ledger.db-wal",
    "ledger.db-shm",
)  # fmt: skip


def rehearse_command(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A federation's folder, created with commonweal flower new.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="OUT", help="Folder for the results (default: out/NAME-rehearsal).", show_default=False),
    ] = None,
    keys: Keys = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Delete the results in OUT first, including ledger.db.")
    ] = False,
    warm: Annotated[
        bool,
        typer.Option("--warm", help="Load packages once per member, not once per message: faster, less realistic."),
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Stop the run after this many seconds.", show_default=False),
    ] = None,
) -> None:
    """Rehearse a federation on this machine, with a SuperLink, one SuperNode per member, TLS and keys.

    Example: commonweal flower rehearse my-federation --out out/rehearsal
    """
    with needed_for("a federation on Flower", "flower"):
        from commonweal.flower.rehearsal.rehearsal import Rehearsal
        from commonweal.flower.rehearsal.rehearsed_folder import check_task, federation_name

    if timeout is not None and not 0 < timeout < math.inf:
        raise InputError(f"--timeout must be a positive number of seconds, got {timeout:g}. Omit it for no limit.")
    name = federation_name(directory)
    folder_name = re.sub(r"[^\w.-]+", "-", f"{name}-rehearsal").strip(".-")  # not that of a run of the same name
    results = Path("out") / folder_name if out is None else out
    _check_results_folder(results, directory, overwrite=overwrite)
    check_task(directory)
    signal.signal(signal.SIGTERM, _leave)
    try:
        with Rehearsal(directory, results, keys=keys, warm=warm, say=_say) as rehearsal:
            _say(f"Logs: {results / 'logs'}")
            _remove_earlier_results(results)
            _say("Sending the app to all members. Output of the coordinator:")
            output = _Output()
            outcome = rehearsal.run_app(timeout=timeout, show=output.show, stop_at_errors=True)
            rehearsal.keep_member_files()
            _say("Stopping all SuperNodes and the SuperLink.")
    except KeyboardInterrupt:
        print("\nInterrupted. Nothing is left running.", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    if not outcome.is_completed:
        _fail(outcome, output.error, results)
    _show_history(results)
    is_sound = _show_verification(results)
    for what, file in (("report", "report.html"), ("ledger", "ledger.db"), ("members", "members")):
        print(f"{what}: {results / file}")
    if not is_sound:
        raise typer.Exit(1)


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(TERMINATED)  # runs all clean-up


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class _Output:
    """Shows the output of the coordinator up to an error, which Flower follows with a traceback; that is in the log."""

    def __init__(self) -> None:
        self.error = ""

    def show(self, line: str) -> None:
        plain = re.sub(r"\x1b\[[0-9;]*m", "", line).strip()
        if plain.startswith(_ERROR):
            self.error = plain.removeprefix(_ERROR)
        elif plain and plain != "INFO :" and not self.error:
            _say(f"  | {plain}")


def _check_results_folder(results: Path, federation: Path, *, overwrite: bool) -> None:
    """Refuse the federation's own folder and, without `overwrite`, a folder with earlier results."""
    place, root = results.resolve(), federation.resolve()
    if place == root or any(place.is_relative_to(root / part) for part in ("app", "members")):
        raise InputError(f"--out must be outside the federation's own files, got {str(results)!r}.")
    earlier = [name for name in _RESULTS if (results / name).exists()]
    if earlier and not overwrite:
        raise InputError(
            f"{str(results)!r} has results of an earlier run or rehearsal ({earlier[0]}). Choose another --out, or add "
            "--overwrite to delete them."
        )


def _remove_earlier_results(results: Path) -> None:
    """Remove what an earlier rehearsal left there, and nothing else."""
    from commonweal.federation.checkpoint import remove_checkpoint

    remove_checkpoint(results)
    for name in _RESULTS:
        (results / name).unlink(missing_ok=True)
    for plot in [*results.glob("figures/*.png"), *results.glob("figures/*.svg")]:
        plot.unlink()
    for log in results.glob("members/*/log.txt"):
        log.unlink()
    for statements in results.glob("members/*/statements"):
        shutil.rmtree(statements)
    with suppress(OSError):  # keep folders with other files in them
        for member in results.glob("members/*"):
            member.rmdir()


def _fail(outcome: RunOutcome, error: str, results: Path) -> NoReturn:
    """End with the cause if it is known: an error of a member's function or of the coordinator."""
    if outcome.status == "member failed" or error:
        raise FederationError(outcome.details if outcome.status == "member failed" else error)
    details = f" ({outcome.details})" if outcome.details else ""
    _say(f"error: The run did not complete: {outcome.status}{details}. Its logs are in {results / 'logs'}.")
    raise typer.Exit(1)


def _show_history(results: Path) -> None:
    history = json.loads((results / "history.json").read_text(encoding="utf-8"))
    print(history["sentence"])
    totals = history["totals"]
    print(f"rounds completed: {len(history['rounds'])} of {history['round_count']}")
    width = max(map(len, history["clients"]))
    for client in history["clients"]:
        left, withdrew = totals["eliminated_after"].get(client), totals["withdrawn_after"].get(client)
        how = "eliminated as harmful" if client in totals["harmful_after"] else "eliminated"
        fate = f"{how} after round {left}" if left is not None else "stayed"
        if withdrew is not None:
            fate = f"withdrew after round {withdrew}"
        print(f"  {client:<{width}}  {fate}")


def _show_verification(results: Path) -> bool:
    """Whether the ledger is sound, as `commonweal ledger verify` would find."""
    with opened_store(str(results / "ledger.db")) as store:
        from commonweal.ledger.verification.recompute import recompute
        from commonweal.ledger.verification.verify import verify_ledger

        outcome = verify_ledger(store, recompute)
    for finding in outcome.findings:
        print(f"finding: {finding}")
    if not outcome.findings:
        print(
            f"ledger verified: {counted(outcome.state.number, 'entry', 'entries')} chained and signed, "
            f"{counted(outcome.round_count, 'decision')} recomputed, "
            f"{counted(outcome.signed_reports, 'client report')} signed by members"
        )
    for note in outcome.notes:
        print(f"note: {note}")
    return not outcome.findings
