"""`commonweal flower member` and `withdraw`: how a member joins a federation, and how it leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from commonweal.data.optional_packages import needed_for


def member_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to create.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="The member's name in the federation.")],
    unit_value: Annotated[
        float, typer.Option(metavar="V", help="What a gain in accuracy from 0 to 1 is worth to this member.")
    ] = 1.0,
    cost_per_sample: Annotated[float, typer.Option(metavar="C", help="Cost of collecting one sample.")] = 0.0,
    cost_per_step: Annotated[float, typer.Option(metavar="C", help="Cost of training on one mini-batch.")] = 0.0,
    cost_per_round: Annotated[float, typer.Option(metavar="C", help="Cost of taking part in one round.")] = 0.0,
) -> None:
    """Create a member's key and private file, on the member's own machine.

    Example: commonweal flower member north --name north --cost-per-sample 2e-4
    """
    with needed_for("a federation on Flower", "flower"):
        from commonweal.flower.starting.new_federation import (
            KEY_FILE,
            MEMBER_FILE,
            PrivateFigures,
            make_member,
            supernode_command,
        )

    figures = PrivateFigures(
        unit_value=unit_value,
        cost_per_sample=cost_per_sample,
        cost_per_step=cost_per_step,
        cost_per_round=cost_per_round,
    )
    make_member(directory, name, figures)
    typer.echo(
        f"Created {directory} with {MEMBER_FILE}, {KEY_FILE} and {KEY_FILE}.pub.\n"
        f"Send the operator {directory / f'{KEY_FILE}.pub'} and nothing else.\n"
        "When the operator has admitted you, take part with\n"
        f"  {supernode_command(directory)}\n"
        "The operator gives you HOST:PORT and ca.pem.\n"
        "Flower runs whatever app the operator sends, with your rights: run this as a user of its own. It can check\n"
        "signatures of apps (--trusted-entities) only if they are published on Flower Hub."
    )


def withdraw_command(
    member: Annotated[Path, typer.Argument(metavar="MEMBER.toml", help="The member's own file.")],
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Take the notice back, if it has not been sent to the operator yet.")
    ] = False,
) -> None:
    """Withdraw from a federation after the next round that the member takes part in.

    That round is settled as usual. The member keeps what it accrued and gets no further model. Its signed notice is
    recorded in the ledger.

    Example: commonweal flower withdraw north/member.toml
    """
    with needed_for("a federation on Flower", "flower"):
        from commonweal.remote.member.member_file import read_member
        from commonweal.remote.member.store import MemberStore

    given = read_member(member)
    is_new = MemberStore(given.home).give_notice(not cancel)
    if not cancel:
        typer.echo(f"{given.name} withdraws after the next round that it takes part in.")
    elif is_new:
        typer.echo(f"{given.name} stays: its notice has been taken back.")
    else:
        typer.echo(f"{given.name} stays: it had not given notice.")
