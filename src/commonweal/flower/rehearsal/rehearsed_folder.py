"""A copy of a federation's folder: a rehearsal never changes the folder itself."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from commonweal.errors import CommonwealError, InputError, ScenarioError, StorageError
from commonweal.ledger.node_keys import NodeKey, node_public_pem, read_node_public_key
from commonweal.remote.coordinator.federation_file import read_federation
from commonweal.remote.member.member_file import read_member
from commonweal.scenario.toml_file import read_tables
from commonweal.task.file import read_task

FEDERATION_FILE, MEMBER_FILE, MEMBERS, APP = "federation.toml", "member.toml", "members", "app"


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsedMember:
    """A member's files in the copy."""

    name: str
    file: Path  # its member.toml
    private_key: Path
    home: Path


def federation_name(folder: Path) -> str:
    """The name of the federation in a folder."""
    return str(_read_terms(folder).get("name", "")) or folder.resolve().name


def check_task(folder: Path) -> None:
    """Run the app's task.py once, so that a mistake in it is told before any process is started.

    One that imports its neighbours as a package cannot be run by itself; Flower tells its mistakes.
    """
    for path in sorted((folder / APP).glob("*/task.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        if re.search(r"^\s*from\s+\.", text, re.MULTILINE):
            continue
        place = str((folder / APP).resolve())
        sys.path.insert(0, place)  # where Flower would import from
        try:
            read_task(path)
        finally:
            sys.path.remove(place)


def copy_federation(folder: Path, copy: Path) -> tuple[RehearsedMember, ...]:
    """Copy what a rehearsal needs into an empty folder, and make missing keys there.

    The folders with members' state (`home`) are not copied, so a rehearsal knows nothing of real rounds.
    """
    terms = _read_terms(folder)
    if not (folder / APP / "pyproject.toml").is_file():
        raise StorageError(
            f"Cannot find a Flower app in {str(folder)!r}: no {APP}/pyproject.toml. `commonweal flower new` creates a "
            "complete folder."
        )
    read_tables(
        folder / APP / "pyproject.toml", "a Flower app's pyproject.toml", "Write one with `commonweal flower new`."
    )
    shutil.copytree(folder / APP, copy / APP, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(folder / FEDERATION_FILE, copy / FEDERATION_FILE)
    clients = terms.get("clients")
    named = [one for one in clients if isinstance(one, dict)] if isinstance(clients, list) else []
    members = tuple(_copy_member(client, folder, copy) for client in named)
    try:
        read_federation(copy / FEDERATION_FILE)  # checked before anything is started
    except CommonwealError as error:
        raise type(error)(
            str(error).replace(str(copy.resolve()), str(folder)).replace(str(copy), str(folder))
        ) from None
    return members


def _copy_member(terms: Mapping[str, Any], folder: Path, copy: Path) -> RehearsedMember:
    name, public_file = str(terms.get("name", "")), str(terms.get("key_file", ""))
    if not name or name in (".", "..") or Path(name).name != name:
        raise ScenarioError(
            f"A member's name must be usable as a folder name, got {name!r} in {str(folder / FEDERATION_FILE)!r}."
        )
    source, target = folder / MEMBERS / name, copy / MEMBERS / name
    member = read_member(source / MEMBER_FILE)
    if member.name != name:
        raise ScenarioError(
            f"name must be {name!r} in {str(source / MEMBER_FILE)!r}, as in {FEDERATION_FILE}, got {member.name!r}."
        )
    home = _copied(member.home, source, target, f"home of {name!r}")
    private_key = _copied(member.key_file, source, target, f"key_file of {name!r}")
    public_key = _copied(folder / public_file, folder, copy, f"key_file of {name!r} in {FEDERATION_FILE}")
    shutil.copytree(
        source,
        target,
        ignore=lambda at, names: [one for one in names if (Path(at) / one).resolve() == member.home.resolve()],
    )
    if (folder / public_file).is_file() and not public_key.exists():
        public_key.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / public_file, public_key)
    _provide_keys(private_key, public_key)
    return RehearsedMember(name=name, file=target / MEMBER_FILE, private_key=private_key, home=home)


def _provide_keys(private_key: Path, public_key: Path) -> None:
    """Make a new key pair for a member that has no private key yet, or keeps it elsewhere."""
    if not private_key.exists():
        for earlier in (public_key, private_key.with_name(f"{private_key.name}.pub")):
            earlier.unlink(missing_ok=True)
        private_key.parent.mkdir(parents=True, exist_ok=True)
        NodeKey.new().write(private_key)
    own = NodeKey.read(private_key).public
    if not public_key.exists():
        public_key.parent.mkdir(parents=True, exist_ok=True)
        public_key.write_bytes(node_public_pem(own))
    if read_node_public_key(public_key) != own:
        raise InputError(
            f"{public_key.name!r} must be the public key of {private_key.name!r} for member "
            f"{private_key.parent.name!r}, got another one. Use the .pub file that was created with it."
        )


def _copied(path: Path, folder: Path, copy: Path, what: str) -> Path:
    """The place in the copy of a path inside the folder."""
    inside, root = path.resolve(), folder.resolve()
    if inside == root or not inside.is_relative_to(root):
        raise ScenarioError(f"For a rehearsal, {what} must be inside {str(folder)!r}, got {str(path)!r}.")
    return copy / inside.relative_to(root)


def _read_terms(folder: Path) -> dict[str, Any]:
    """The operator's file without the keys that it names, which may still be missing."""
    return read_tables(
        folder / FEDERATION_FILE, "a federation's file", "Create a complete folder with `commonweal flower new`."
    )[0]
