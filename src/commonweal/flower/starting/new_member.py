"""A member's folder: its key, and the file with what only it knows."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from commonweal.errors import FederationError
from commonweal.flower.starting.new_folder import new_folder
from commonweal.flower.starting.template_text import template_text
from commonweal.ledger.node_keys import NodeKey
from commonweal.remote.member.member_file import MEMBER_KEYS, read_member

KEY_FILE, MEMBER_FILE = "node-key", "member.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """What a gain is worth to a member and what it spends, in units of utility."""

    unit_value: float = 1.0
    cost_per_sample: float = 0.0
    cost_per_step: float = 0.0
    cost_per_round: float = 0.0


def make_member(directory: Path, name: str, worth: Worth, settings: Mapping[str, int] | None = None) -> None:
    """A new folder with node-key, node-key.pub and member.toml."""
    text = _member_text(name, worth, settings or {})
    with new_folder(directory, "the member's folder") as folder:
        folder.chmod(0o700)  # worth and costs are nobody else's affair
        NodeKey.new().write(folder / KEY_FILE)
        (folder / MEMBER_FILE).write_text(text, encoding="utf-8")
        read_member(folder / MEMBER_FILE)  # never leave what cannot be read


def supernode_command(directory: Path, superlink: str = "HOST:PORT", authority: str = "ca.pem") -> str:
    """What a member types to take part; `superlink` and `authority` come from the operator."""
    member = directory.absolute() / MEMBER_FILE
    settings = f'member="{member}"'
    return " \\\n  ".join(
        [
            f"flower-supernode --superlink {superlink} --root-certificates {shlex.quote(authority)}",
            f"--auth-supernode-private-key {shlex.quote(str(member.with_name(KEY_FILE)))}",
            f"--node-config {shlex.quote(settings)}",
        ]
    )


def _member_text(name: str, worth: Worth, settings: Mapping[str, int]) -> str:
    tidy = MEMBER_KEYS["name"].checked("the member's name", name)
    if tidy in (".", "..") or Path(tidy).name != tidy:
        raise FederationError(f"a member's name must do as a folder's name, got {name!r}; leave slashes out")
    figures = {
        key: repr(MEMBER_KEYS[key].checked(key, getattr(worth, key)))
        for key in ("unit_value", "cost_per_sample", "cost_per_step", "cost_per_round")
    }
    # JSON's strings are TOML's too.
    text = template_text("member.toml", name=json.dumps(tidy, ensure_ascii=False), **figures)
    return text + "".join(f"{key} = {value}\n" for key, value in settings.items())
