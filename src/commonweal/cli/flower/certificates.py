"""`commonweal flower certificates`: TLS for a SuperLink."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from commonweal.data.optional_packages import needed_for


def certificates_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to make.")],
    host: Annotated[
        list[str],
        typer.Option(
            metavar="NAME_OR_IP", help="What members call the SuperLink's machine; give it once for each name."
        ),
    ],
    days: Annotated[int, typer.Option(metavar="N", help="How long they hold.")] = 365,
) -> None:
    """Make certificates for a SuperLink: server.pem and server.key for it alone, ca.pem for every member.

    Example: commonweal flower certificates certificates --host federation.example.org --host 192.0.2.7
    """
    with needed_for("a federation on Flower", "flower"):
        from commonweal.flower.starting.certificates import AUTHORITY, CERTIFICATE, KEY, make_certificates

    make_certificates(directory, host, days)
    authority, certificate, key = (shlex.quote(str(directory / name)) for name in (AUTHORITY, CERTIFICATE, KEY))
    typer.echo(
        f"wrote {directory}, for {', '.join(dict.fromkeys(host))}, for {days} days\n"
        f"to every member: {directory / AUTHORITY}; its private half was not kept\n"
        "start the SuperLink with\n"
        f"  flower-superlink --ssl-ca-certfile {authority} --ssl-certfile {certificate} \\\n"
        f"    --ssl-keyfile {key} --enable-supernode-auth --disable-runtime-dependency-installation \\\n"
        "    --host 0.0.0.0 --port 8000 --database superlink.db"
    )
