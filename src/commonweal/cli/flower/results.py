"""The folder of a rehearsal's results: never a federation's own, and never two rehearsals in one."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from commonweal.errors import InputError

_FILES = ("checkpoint.npz", "history.json", "report.html", "ledger.db", "ledger.db-wal", "ledger.db-shm")


def check_place(results: Path, federation: Path, *, overwrite: bool) -> None:
    """Before anything is started for it."""
    place, root = results.resolve(), federation.resolve()
    if place == root or any(place.is_relative_to(root / part) for part in ("app", "members")):
        raise InputError(
            f"results need a folder of their own, got {str(results)!r} of the federation itself; give another --out"
        )
    earlier = [name for name in _FILES if (results / name).exists()]
    if earlier and not overwrite:
        raise InputError(
            f"a rehearsal needs a folder without results, got {earlier[0]} in {str(results)!r}; add --overwrite to "
            "start anew, or give another --out"
        )


def remove_earlier(results: Path) -> None:
    """What an earlier rehearsal left there, and nothing else."""
    for name in _FILES:
        (results / name).unlink(missing_ok=True)
    for figure in [*results.glob("figures/*.png"), *results.glob("figures/*.svg")]:
        figure.unlink()
    for log in results.glob("members/*/log.txt"):
        log.unlink()
    for statements in results.glob("members/*/statements"):
        shutil.rmtree(statements)
    with suppress(OSError):  # what somebody put there stays
        for member in results.glob("members/*"):
            member.rmdir()
