"""`commonweal ledger export`: the ledger for other programs and other people."""

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
    book = "book"  # a copy of the ledger; the option keeps its old name


def export_command(
    location: Location,
    form: Annotated[
        ExportFormat,
        typer.Option(
            "--format",
            help="csv: one row per posting. hledger, beancount: plain-text accounting. head: number and hash of the "
            "last entry, signed. book: a copy of the whole ledger as a SQLite file, for members to verify.",
        ),
    ] = ExportFormat.csv,
    out: Out = None,
    keys: Keys = None,
) -> None:
    """Export a ledger for spreadsheets, for plain-text accounting, or for members to verify.

    Example: commonweal ledger export ledger.db --format hledger --out ledger.journal
    """
    with opened_store(location) as store:
        from commonweal.ledger.chain import key_rotations
        from commonweal.ledger.entries import time_text
        from commonweal.ledger.export.exports import beancount_content, copy_ledger, csv_content, hledger_content
        from commonweal.ledger.ledger import Ledger, system_clock
        from commonweal.ledger.signed_files import head_document, signed_content

        if form is ExportFormat.book:
            if out is None:
                raise InputError("--format book needs --out, such as --out copy.db.")
            copy_ledger(store, out)
            print(f"ledger: {out}")
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
