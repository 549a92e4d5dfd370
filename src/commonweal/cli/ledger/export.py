"""`commonweal ledger export`: the book for other programs and other people."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from commonweal.cli.ledger.options import Keys, Location, Out, key_directory, opened_store, put_out
from commonweal.errors import InputError


class ExportFormat(StrEnum):
    csv = "csv"
    hledger = "hledger"
    beancount = "beancount"
    head = "head"
    book = "book"


def export_command(
    location: Location,
    form: Annotated[
        ExportFormat,
        typer.Option(
            "--format",
            help="csv: a row for each posting. hledger, beancount: plain-text accounting. head: number and hash of the "
            "last entry, signed. book: a copy of the whole book as a SQLite file, for members to verify.",
        ),
    ] = ExportFormat.csv,
    out: Out = None,
    keys: Keys = None,
) -> None:
    """Export a book for spreadsheets, for plain-text accounting, or for members to verify.

    Example: commonweal ledger export book.db --format hledger --out book.journal
    """
    with opened_store(location) as store:
        from commonweal.ledger.entries import time_text
        from commonweal.ledger.export.exports import beancount_content, copy_book, csv_content, hledger_content
        from commonweal.ledger.ledger import Ledger, system_clock
        from commonweal.ledger.signed_file import signed_content
        from commonweal.ledger.succession import key_rotations
        from commonweal.ledger.witness import head_document

        if form is ExportFormat.book:
            if out is None:
                raise InputError("a copy of the book is a file, got no --out; name it, e.g. --out copy.db")
            copy_book(store, out)
            print(f"book: {out}")
        elif form is ExportFormat.head:
            state = Ledger(store, None).state
            key = key_directory(keys).key_of(state.operator)
            head = head_document(state, time_text(system_clock()), key_rotations(store, "a head"))
            put_out(signed_content(head, key), out, "signed head")
        else:
            content = {
                ExportFormat.csv: csv_content,
                ExportFormat.hledger: hledger_content,
                ExportFormat.beancount: beancount_content,
            }[form](store)
            put_out(content, out, "export")
