"""`commonweal ledger verify`: replay a ledger and report what is wrong with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from commonweal.cli.ledger.options import Location, opened_store
from commonweal.decision.mechanisms.own_file import mechanism_file
from commonweal.errors import InputError
from commonweal.ledger.verification.recompute import recompute_with
from commonweal.report.text import counted

if TYPE_CHECKING:
    from commonweal.ledger.verification.replay import Finding, Recomputed, RecordedInputs

_SHOWN = 100  # findings, and notes
_MOST_RULES = 1000  # of which one is shown each, even if these are more


def verify_command(
    location: Location,
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="PUB",
            help="The operator's public key (PEM). Default: the key that the ledger itself names.",
            show_default=False,
        ),
    ] = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="An older signed statement or exported head: shows whether the ledger has been rewritten since. "
            "Repeat the option for each file.",
            show_default=False,
        ),
    ] = None,
    receipt: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="The operator's receipt for a report: shows whether the ledger has that report. Repeat the option for "
            "several.",
            show_default=False,
        ),
    ] = None,
    member: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PUB",
            help="A client and the file of its public key: shows whether the ledger has that key for it.",
            show_default=False,
        ),
    ] = None,
    mechanism: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="The Python file of a mechanism that rounds were decided by. It is run only if a round names its "
            "hash. Repeat the option for several.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document with all findings and notes.")
    ] = False,
) -> None:
    """Check the chain, signatures and balances, and recompute every decision. Exit code 1 if anything is wrong.

    What is odd but allowed is a note; notes do not change the exit code.

    Example: commonweal ledger verify ledger.db --key operator.pub.pem --against north.json
    """
    with opened_store(location) as store:
        from commonweal.ledger.keys import read_operator_key, read_public_key
        from commonweal.ledger.printable import printable, printable_json
        from commonweal.ledger.receipts import read_receipt
        from commonweal.ledger.signed_files import read_known_head
        from commonweal.ledger.statement_parts import STATEMENT_FORMATS, read_part
        from commonweal.ledger.verification.kept_statements import statement_contradictions, written_otherwise
        from commonweal.ledger.verification.members import keys_that_differ
        from commonweal.ledger.verification.receipts import disproved_by_receipts
        from commonweal.ledger.verification.verify import verify_ledger

        own_keys = {name: read_public_key(Path(file)) for name, file in map(_named_key, member or [])}
        operator = None if key is None else read_operator_key(key)
        known_heads = [read_known_head(path) for path in against or []]
        receipts = [read_receipt(path) for path in receipt or []]
        files = [mechanism_file(path) for path in mechanism or []]
        named = set[str]()  # versions of rules
        recompute = recompute_with(files)

        def recomputed(inputs: RecordedInputs) -> Recomputed:
            named.add(inputs.version)
            return recompute(inputs)

        console = Console(stderr=True)
        with Progress(
            TextColumn("entries"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
            console=console, transient=True, disable=not console.is_terminal,
        ) as progress:  # fmt: skip
            task = progress.add_task("entries", total=store.entry_count())
            outcome = verify_ledger(
                store,
                recomputed,
                operator=operator,
                known_heads=known_heads,
                progress=lambda number: progress.update(task, completed=number),
            )
        findings = [*outcome.findings, *keys_that_differ(outcome.state, own_keys)]
        kept = [
            (path.name, *read_part(path))
            for path, known in zip(against or [], known_heads, strict=True)
            if known.signed.is_sound and known.signed.document["format"] in STATEMENT_FORMATS
        ]
        findings += statement_contradictions(store, [(source, part) for source, part, _ in kept])
        findings += [each for one in kept for each in written_otherwise(*one)]
        rotations = [rotation for known in known_heads for rotation in known.key_rotations]
        disproved, notes = disproved_by_receipts(store, outcome.state, receipts, outcome.operators, rotations)
        findings += disproved
    state = outcome.state
    if as_json:
        document = {
            "format": "commonweal.audit/1",
            "book": state.identity,  # JSON fields keep their old names
            "head": {"number": state.number, "hash": state.head},
            "rounds": outcome.round_count,
            "signed_reports": outcome.signed_reports,
            "unsigned_reports": outcome.unsigned_reports,
            "findings": [asdict(finding) for finding in findings],
            "notes": [asdict(note) for note in (*outcome.notes, *notes)],
        }
        print(printable_json(document, indent=1))
    else:
        _show("finding", findings)
        if not findings:
            print(
                f"sound: {counted(state.number, 'entry', 'entries')} chained and signed, "
                f"{counted(outcome.round_count, 'decision')} recomputed, "
                f"{counted(outcome.signed_reports, 'report')} signed by clients, the ledger sums to zero"
            )
        _show("note", [*outcome.notes, *notes])
        for file in files:
            if file.version not in named:
                print(f"note: {file.path} was not run: no round names its SHA-256, {file.sha256}")
        if outcome.unsigned_reports:
            unsigned = counted(outcome.unsigned_reports, "report")
            print(f"note: {unsigned} not signed: these clients have no key, and the operator vouches for them")
        if operator is None:
            print(
                f"note: signed with {printable(str(state.operator)[:16])}…, the key that the ledger itself names; use "
                "--key to check that it is the operator's"
            )
        print(f"head: entry {state.number}, {printable(state.head)}")
    if findings:
        raise typer.Exit(1)


def _show(word: str, found: Sequence[Finding]) -> None:
    """Print the first ones, and the first of each rule, so that many of one kind do not hide another."""
    firsts = {one.rule: place for place, one in reversed(list(enumerate(found)))}
    places = {*sorted(firsts.values())[:_MOST_RULES]}
    places.update(islice((place for place in range(len(found)) if place not in places), max(_SHOWN - len(places), 0)))
    for place in sorted(places):
        print(f"{word}: {found[place]}")
    if len(places) == len(found):
        return
    left = Counter(one.rule for place, one in enumerate(found) if place not in places)
    for rule, count in left.most_common(_MOST_RULES):
        print(f"... and {count} more {word}{'s' * (count > 1)} of this kind: {rule[:200]}")
    print(f"... {len(found) - len(places)} {word}s are not shown; --json shows all")


def _named_key(text: str) -> tuple[str, str]:
    name, has_key, file = text.partition("=")
    if not name or not has_key:
        raise InputError(f"--member needs a client and the file of its key (NAME=PUB), got {text!r}.")
    return name, file
