"""`commonweal flower member`: all that a member needs to take part."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from commonweal.data.optional_packages import needed_for


def member_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to make.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="The member's name in the federation.")],
    unit_value: Annotated[
        float, typer.Option(metavar="V", help="What a gain in accuracy from 0 to 1 is worth to it.")
    ] = 1.0,
    cost_per_sample: Annotated[float, typer.Option(metavar="C", help="Of collecting a sample.")] = 0.0,
    cost_per_step: Annotated[float, typer.Option(metavar="C", help="Of a mini-batch of training.")] = 0.0,
    cost_per_round: Annotated[float, typer.Option(metavar="C", help="Of taking part in a round.")] = 0.0,
) -> None:
    """Make a member's key and its private file, on the member's own machine.

    Example: commonweal flower member north --name north --cost-per-sample 2e-4
    """
    with needed_for("a federation on Flower", "flower"):
        from commonweal.flower.starting.new_member import KEY_FILE, MEMBER_FILE, Worth, make_member, supernode_command

    worth = Worth(
        unit_value=unit_value,
        cost_per_sample=cost_per_sample,
        cost_per_step=cost_per_step,
        cost_per_round=cost_per_round,
    )
    make_member(directory, name, worth)
    typer.echo(
        f"wrote {directory}: {MEMBER_FILE}, {KEY_FILE} and {KEY_FILE}.pub\n"
        f"to the operator, and nothing else: {directory / f'{KEY_FILE}.pub'}\n"
        "once the operator has admitted it, take part with\n"
        f"  {supernode_command(directory)}\n"
        "where HOST:PORT and ca.pem come from the operator"
    )
