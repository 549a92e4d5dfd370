"""`commonweal flower withdraw`: a member gives notice."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from commonweal.data.optional_packages import needed_for


def withdraw_command(
    member: Annotated[Path, typer.Argument(metavar="MEMBER.toml", help="The member's own file.")],
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Take the notice back, if no round has heard it yet.")
    ] = False,
) -> None:
    """Leave a federation with notice: after the next round that the member takes part in.

    It is settled as usual, keeps what it accrued, and gets no further model. A signed notice goes into the book.

    Example: commonweal flower withdraw north/member.toml
    """
    with needed_for("a federation on Flower", "flower"):
        from commonweal.remote.member.member_file import read_member
        from commonweal.remote.member.store import MemberStore

    given = read_member(member)
    is_new = MemberStore(given.home).give_notice(not cancel)
    if cancel:
        typer.echo(f"{given.name} stays; " + ("its notice is taken back" if is_new else "it had given no notice"))
    else:
        typer.echo(f"{given.name} gives notice: it leaves after the next round that it takes part in")
