"""`commonweal flower new` and `certificates`: what an operator starts a federation with."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from commonweal.data.optional_packages import needed_for
from commonweal.errors import InputError
from commonweal.scenario.toml_file import read_scenario


def new_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to create.")],
    members: Annotated[
        int | None, typer.Option(metavar="N", help="Number of members to start with (default: 3).", show_default=False)
    ] = None,
    scenario: Annotated[
        Path | None,
        typer.Option(
            metavar="SCENARIO.toml",
            help="Make it from a scenario with a task of your own or a table, instead of from a template.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Create a federation that runs as it is: a Flower app, the operator's terms, and members for a rehearsal.

    With --scenario, the app has the scenario's task, and each member its own data, figures and settings. The rehearsal
    then gives the same figures as the simulation.

    Examples: commonweal flower new my-federation --members 3;
    commonweal flower new my-federation --scenario scenario.toml
    """
    if members is not None and scenario is not None:
        raise InputError("--members and --scenario cannot be combined: the scenario lists its clients. Drop one.")
    described = None if scenario is None else read_scenario(scenario)
    with needed_for("a federation on Flower", "flower"):
        from commonweal.flower.starting.from_scenario import make_federation_from
        from commonweal.flower.starting.new_federation import make_federation

    if described is not None:
        names = make_federation_from(directory, described)
    else:
        names = make_federation(directory, 3 if members is None else members)
    typer.echo(
        f"Created {directory} with an app, federation.toml, and the members {', '.join(names)}.\n"
        f"Next, read {directory / 'README.md'}, or run\n"
        f"  commonweal flower rehearse {shlex.quote(str(directory))}"
    )


def certificates_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to create.")],
    host: Annotated[
        list[str],
        typer.Option(
            metavar="NAME_OR_IP", help="Host name or IP address of the SuperLink; repeat the option for several."
        ),
    ],
    days: Annotated[int, typer.Option(metavar="N", help="Days until the certificates expire.")] = 365,
) -> None:
    """Create TLS certificates: server.pem and server.key for the SuperLink only, ca.pem for every member.

    Example: commonweal flower certificates certificates --host federation.example.org --host 192.0.2.7
    """
    with needed_for("a federation on Flower", "flower"):
        from commonweal.flower.starting.certificates import AUTHORITY, CERTIFICATE, KEY, make_certificates

    make_certificates(directory, host, days)
    authority, certificate, key = (shlex.quote(str(directory / name)) for name in (AUTHORITY, CERTIFICATE, KEY))
    typer.echo(
        f"Created {directory} for {', '.join(dict.fromkeys(host))}, valid for {days} days.\n"
        f"Send {directory / AUTHORITY} to every member. The authority's private key was not kept.\n"
        "Start the SuperLink with\n"
        f"  flower-superlink --ssl-ca-certfile {authority} --ssl-certfile {certificate} \\\n"
        f"    --ssl-keyfile {key} --enable-supernode-auth --disable-runtime-dependency-installation \\\n"
        "    --host 0.0.0.0 --port 8000 --database superlink.db"
    )
