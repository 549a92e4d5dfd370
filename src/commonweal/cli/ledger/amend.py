"""`commonweal ledger amend`: change the terms of a ledger, or admit newcomers, with the members' signatures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from commonweal.cli.ledger.init import read_members
from commonweal.cli.ledger.options import Keys, Location, opened_ledger, opened_store
from commonweal.data.optional_packages import needed_for
from commonweal.errors import InputError
from commonweal.report.text import counted

if TYPE_CHECKING:
    from commonweal.ledger.amendment_draft import AmendmentDraft

amend_app = typer.Typer(
    name="amend",
    no_args_is_help=True,
    help="Change the terms of a ledger, or admit newcomers: draft an amendment, have members sign it, enter it.",
)

Draft = Annotated[Path, typer.Argument(metavar="DRAFT", help="The file of the amendment.")]


@amend_app.command("draft")
def draft_command(
    location: Location,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Write the draft here; every member signs it.")],
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="RULE=VALUE",
            help="A rule and its new value, such as mu=0.2, round_count=20 or rates.gain=1.2; none removes a limit. "
            "Repeat for each.",
            show_default=False,
        ),
    ] = None,
    admit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=PUB]",
            help="A newcomer, with the file of its public key. Repeat for each.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Draft an amendment. It changes nothing until members have signed it and the operator has entered it.

    Example: commonweal ledger amend draft ledger.db --set mu=0.2 --out amendment.json
    """
    if not changes and not admit:
        raise InputError("An amendment changes something: give --set or --admit.")
    with opened_store(location) as store:
        from commonweal.federation.amending import amended
        from commonweal.ledger.amendment_draft import AmendmentDraft
        from commonweal.ledger.amendments import Amendment, needed_count, signing_members
        from commonweal.ledger.checks import check_names
        from commonweal.ledger.ledger import Ledger
        from commonweal.ledger.order import check_nothing_is_reversed
        from commonweal.ledger.printable import printable

        state, before = (ledger := Ledger(store, None)).state, ledger.terms
        check_nothing_is_reversed("An amendment", state)
        last = ledger.document(state.rounds[max(state.rounds)])["body"] if state.rounds else None
        members = read_members(admit or [], option="--admit")
        check_names(members)
        amendment = Amendment(
            ledger=state.identity,
            number=state.amendment_count + 1,
            terms_before=state.terms_hash,
            terms=amended(before, [_change(text) for text in changes or []], last),
            first_round=state.next_round,
            members=members,
        )
        draft = AmendmentDraft(amendment=amendment, before=before)
        if not draft.changes():
            raise InputError("These are already the terms in force. Give --set with another value.")
        draft.write(out)
        _show(draft)
        signing = signing_members(state)
        print(f"draft: {out}")
        print(f"in force from round {state.next_round} on, if it is entered before that round is settled")
        if signing or any(members.values()):
            newcomers = f", and by {', '.join(name for name in members)}" if members else ""
            asked = printable(", ".join(signing)) or "no member"
            print(f"to be signed by {needed_count(state)} of {asked}{newcomers}")
        else:
            print("no member has a key, so that nobody signs: the operator vouches for their agreement")


@amend_app.command("show")
def show_draft_command(file: Draft) -> None:
    """Show what an amendment changes, and who has signed it.

    Example: commonweal ledger amend show amendment.json
    """
    with needed_for("an amendment", "ledger"):
        from commonweal.ledger.amendment_draft import read_draft
        from commonweal.ledger.printable import printable

    draft = read_draft(file)
    _show(draft)
    print(f"in force from round {draft.amendment.first_round} on")
    signed = printable(", ".join(draft.signatures)) or "nobody yet"
    print(f"signed by: {signed} (checked when the amendment is entered)")


@amend_app.command("sign")
def sign_command(
    file: Draft,
    client: Annotated[str, typer.Argument(help="The member that signs.")],
    key: Annotated[
        Path,
        typer.Option(metavar="FILE", help="The private key that the member signs its reports with."),
    ],
) -> None:
    """Sign an amendment as a member; the signature is added to the file, which goes back to the operator.

    Example: commonweal ledger amend sign amendment.json north --key north.pem
    """
    with needed_for("an amendment", "ledger"):
        from commonweal.ledger.amendment_draft import read_draft
        from commonweal.ledger.member_keys import read_signing_key

    draft = read_draft(file)
    _show(draft)
    draft.signed(client, read_signing_key(key)).write(file)
    print(f"signed by {client}: {file}")


@amend_app.command("enter")
def enter_command(
    location: Location,
    files: Annotated[list[Path], typer.Argument(metavar="DRAFT...", help="The signed files of one amendment.")],
    keys: Keys = None,
) -> None:
    """Enter an amendment with its signatures. It is in force from the next round on.

    Example: commonweal ledger amend enter ledger.db amendment.json
    """
    with opened_ledger(location, keys) as ledger:
        from commonweal.ledger.amendment_draft import merged, read_draft

        draft = merged([read_draft(file) for file in files])
        receipt = ledger.amend(draft.amendment, draft.signatures)
        _show(draft)
        signed = counted(len(draft.signatures), "signature")
        first = ledger.document(receipt.entry)["body"]["first_round"]
        print(f"entry {receipt.entry}: amendment {draft.amendment.number}, {signed}, in force from round {first} on")


def _show(draft: AmendmentDraft) -> None:
    from commonweal.ledger.printable import printable

    for line in draft.changes():
        print(printable(line))


def _change(text: str) -> tuple[str, str]:
    name, has_value, value = text.partition("=")
    if not name or not has_value:
        raise InputError(f"--set must be RULE=VALUE, such as mu=0.2, got {text!r}.")
    return name.strip(), value.strip()
