"""Options that the ledger commands share: where the ledger is, where the keys are, where output goes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from commonweal.atomic_write import write_atomically
from commonweal.data.optional_packages import needed_for

if TYPE_CHECKING:
    from commonweal.ledger.key_directory import KeyDirectory
    from commonweal.ledger.ledger import Ledger
    from commonweal.ledger.sql.store import SqlStore

Location = Annotated[
    str, typer.Argument(metavar="LEDGER", help="A SQLite file, or a URL: postgresql://user:password@host/database.")
]
Keys = Annotated[
    Path | None,
    typer.Option(
        "--keys",
        metavar="DIR",
        envvar="COMMONWEAL_KEYS",
        help="Directory of the operator's keys (default: in the user's configuration directory).",
        show_default=False,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="Write to this file instead of the terminal.", show_default=False),
]


def key_directory(path: Path | None) -> KeyDirectory:
    """The operator's keys; the passphrase comes from COMMONWEAL_KEY_PASSPHRASE, or from a prompt on a terminal."""
    with needed_for("a ledger", "ledger"):
        from commonweal.ledger.key_directory import KeyDirectory, default_key_directory

    def ask(file: Path) -> str | None:
        if not sys.stdin.isatty():
            return None
        return str(typer.prompt(f"passphrase of {file.name}", hide_input=True, err=True))

    passphrase = os.environ.get("COMMONWEAL_KEY_PASSPHRASE") or None
    return KeyDirectory(path or default_key_directory(), passphrase=passphrase, ask=ask)


@contextmanager
def opened_store(location: str) -> Iterator[SqlStore]:
    """The store of an existing ledger."""
    with needed_for("a ledger", "ledger"):
        from commonweal.ledger.sql.store import open_store

    store = open_store(location)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def opened_ledger(location: str, keys: Path | None) -> Iterator[Ledger]:
    """An existing ledger, to add entries to."""
    with opened_store(location) as store:
        from commonweal.ledger.ledger import Ledger

        yield Ledger(store, key_directory(keys))


def put_out(content: bytes, out: Path | None, what: str) -> None:
    """Write to the terminal, or atomically to a file."""
    if out is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    write_atomically(out, content, what=what)
    print(f"{what}: {out}", file=sys.stderr)
