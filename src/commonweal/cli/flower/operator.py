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
            metavar="NAME_OR_IP",
            help="Host name or IP address that members connect to; repeat the option for several.",
        ),
    ],
    days: Annotated[int, typer.Option(metavar="N", help="Days until the certificates expire.")] = 365,
    port: Annotated[int, typer.Option(metavar="PORT", help="The port that members connect to.")] = 8000,
    superlink_port: Annotated[
        int, typer.Option(metavar="PORT", help="The SuperLink's own port, on this machine only.")
    ] = 8001,
) -> None:
    """Create TLS certificates, and nginx.conf for the proxy that lets members through to the SuperLink.

    ca.pem is for every member; server.pem, server.key and nginx.conf are for the operator only.

    Example: commonweal flower certificates certificates --host federation.example.org --host 192.0.2.7
    """
    with needed_for("a federation on Flower", "flower"):
        from commonweal.flower.starting.certificates import AUTHORITY, CERTIFICATE, KEY, make_certificates
        from commonweal.flower.starting.proxy import CONFIGURATION, proxy_command, proxy_configuration

    make_certificates(directory, host, days, files={CONFIGURATION: proxy_configuration(port, superlink_port)})
    authority, certificate, key = (shlex.quote(str(directory / name)) for name in (AUTHORITY, CERTIFICATE, KEY))
    typer.echo(
        f"Created {directory} for {', '.join(dict.fromkeys(host))}, valid for {days} days.\n"
        f"Send {directory / AUTHORITY} to every member. The authority's private key was not kept.\n"
        "Start the SuperLink, on this machine only, and nginx, which passes members' requests on to it:\n"
        f"  flower-superlink --host 127.0.0.1 --port {superlink_port} --database superlink.db \\\n"
        "    --enable-supernode-auth --disable-runtime-dependency-installation \\\n"
        f"    --ssl-ca-certfile {authority} --ssl-certfile {certificate} --ssl-keyfile {key}\n"
        f"  {shlex.join(proxy_command(directory))}\n"
        f"Members connect to port {port}. Open no other port, and share the machine with nobody: Flower has no login,\n"
        f"so every program that reaches 127.0.0.1:{superlink_port} can start an app, which reads whatever you can read."
    )
