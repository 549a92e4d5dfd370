"""nginx in front of a SuperLink, so that members reach the service for SuperNodes, and outsiders reach nothing.

A SuperLink serves three APIs on one port: one for SuperNodes, which authenticates them by their keys; one that starts
runs and registers keys; and one for the programs that run apps. The last two ask for no login. So the SuperLink listens
on the loopback interface only, and nginx passes on the ten requests that a registered SuperNode makes.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from commonweal.errors import InputError
from commonweal.flower.starting.certificates import AUTHORITY, CERTIFICATE, KEY
from commonweal.flower.starting.template import template_text

CONFIGURATION = "nginx.conf"
MEMBERS_PORT, SUPERLINK_PORT = 8000, 8001  # unless the operator chooses others
FLEET_METHODS = (
    "activate-node", "confirm-message-received", "deactivate-node", "get-fab", "get-run", "pull-messages",
    "pull-object", "push-messages", "push-object", "send-node-heartbeat",
)  # fmt: skip
REFUSAL = "This port is for SuperNodes of members only. The operator uses the SuperLink on its own machine."
CONNECTIONS, CONNECTIONS_OF_ADDRESS = 256, 64  # with a request in progress; a SuperNode has at most three
_SYSTEM_PROGRAMS = ("/usr/sbin", "/usr/local/sbin")  # not on the search path of every user


def proxy_configuration(port: int, superlink_port: int, *, address: str = "0.0.0.0") -> str:
    """The text of nginx.conf, for the folder with the certificates.

    Members connect to `port` at `address` (default: all of this machine's IPv4 addresses); the SuperLink listens on
    `superlink_port` of the loopback interface.
    """
    for what, number in (("members' port", port), ("SuperLink's port", superlink_port)):
        if not 1 <= number <= 65535:
            raise InputError(f"The {what} must be 1 to 65535, got {number}.")
    if port == superlink_port:
        raise InputError(
            f"Members' port and the SuperLink's port must differ, got {port} for both: nginx listens on the first, and "
            "the SuperLink on the second."
        )
    return template_text(
        CONFIGURATION,
        address=address,
        port=str(port),
        superlink_port=str(superlink_port),
        authority=AUTHORITY,
        certificate=CERTIFICATE,
        key=KEY,
        methods="|".join(FLEET_METHODS),
        refusal=REFUSAL,
        connections=str(CONNECTIONS),
        connections_of_address=str(CONNECTIONS_OF_ADDRESS),
    )


def proxy_command(folder: Path) -> list[str]:
    """The command that runs nginx with the nginx.conf in `folder`, in the foreground."""
    return [find_nginx() or "nginx", "-p", str(folder), "-c", CONFIGURATION]


def find_nginx() -> str | None:
    """Where nginx is installed, if it is."""
    return shutil.which("nginx", path=os.pathsep.join([os.environ.get("PATH", os.defpath), *_SYSTEM_PROGRAMS]))
