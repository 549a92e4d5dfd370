"""New folders: a federation that runs as it is (app, terms, members for a rehearsal), and a single member."""

from __future__ import annotations

import json
import keyword
import re
import shlex
import sys
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from commonweal.errors import InputError
from commonweal.flower.starting.new_folder import check_new, new_folder, template_text
from commonweal.ledger.node_keys import NodeKey
from commonweal.remote.coordinator.federation_file import read_federation
from commonweal.remote.member.member_file import MEMBER_KEYS, read_member

KEY_FILE, MEMBER_FILE = "node-key", "member.toml"

MOST_MEMBERS = 12  # limited by the processes of a rehearsal and by exact Shapley values
_NAMES = ("north", "south", "east", "west", "centre")
_LONGEST_PACKAGE = 32  # Flower's limit for apps
_MODULES = ("__init__.py", "client_app.py", "server_app.py", "task.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateFigures:
    """What a gain in accuracy is worth to a member, and what the member spends, in units of utility."""

    unit_value: float = 1.0
    cost_per_sample: float = 0.0
    cost_per_step: float = 0.0
    cost_per_round: float = 0.0


def make_federation(directory: Path, member_count: int = 3) -> tuple[str, ...]:
    """Create a folder for `commonweal flower rehearse`; returns the members' names."""
    what = "the federation's folder"
    check_new(directory, what)
    if not 2 <= member_count <= MOST_MEMBERS:
        raise InputError(f"A new federation must have 2 to {MOST_MEMBERS} members, got {member_count}.")
    title = unicodedata.normalize("NFC", directory.name)
    package = package_name(title)
    names = tuple(
        [*_NAMES, *(f"member-{number}" for number in range(len(_NAMES) + 1, MOST_MEMBERS + 1))][:member_count]
    )
    with new_folder(directory, what) as folder:
        code = folder / "app" / package
        code.mkdir(parents=True)
        for module in _MODULES:
            _write(code / module, template_text("app", "package", module))
        _write(
            folder / "app" / "pyproject.toml",
            template_text("app", "pyproject.toml", app=package.replace("_", "-"), package=package),
        )
        for position, name in enumerate(names):
            figures = PrivateFigures(cost_per_sample=0.0001 * (position + 1))
            make_member(folder / "members" / name, name, figures, {"samples_per_round": 60})
        clients = [f'\n[[clients]]\nname = "{name}"\nkey_file = "members/{name}/node-key.pub"\n' for name in names]
        terms = template_text("federation.toml", name=json.dumps(title[:60], ensure_ascii=False))
        _write(folder / "federation.toml", terms + "".join(clients))
        read_federation(folder / "federation.toml")  # never leave a file that cannot be read
        readme = template_text("README.md", title=title, package=package, folder=shlex.quote(str(directory)))
        _write(folder / "README.md", readme)
        _write(folder / ".gitignore", template_text("gitignore"))
    return names


def package_name(title: str) -> str:
    """A name that Python and Flower accept, and that does not shadow a module that the app may import."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    name = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")[: _LONGEST_PACKAGE - len("_app")].strip("_")
    if not name or name[0].isdigit():
        name = f"app_{name}".rstrip("_")
    is_taken = keyword.iskeyword(name) or name in sys.stdlib_module_names or _is_installed(name)
    return f"{name}_app" if is_taken else name


def _is_installed(name: str) -> bool:
    """Whether a module has this name; a folder without code, such as a federation's own, does not count."""
    spec = find_spec(name)
    return spec is not None and spec.origin is not None


def make_member(directory: Path, name: str, figures: PrivateFigures, settings: Mapping[str, int] | None = None) -> None:
    """Create a folder with node-key, node-key.pub and member.toml."""
    text = _member_text(name, figures, settings or {})
    with new_folder(directory, "the member's folder") as folder:
        folder.chmod(0o700)  # unit value and costs are private
        NodeKey.new().write(folder / KEY_FILE)
        (folder / MEMBER_FILE).write_text(text, encoding="utf-8")
        read_member(folder / MEMBER_FILE)  # never leave a file that cannot be read


def supernode_command(directory: Path, superlink: str = "HOST:PORT", authority: str = "ca.pem") -> str:
    """The command with which a member takes part; `superlink` and `authority` come from the operator."""
    member = directory.absolute() / MEMBER_FILE
    settings = f'member="{member}"'
    return " \\\n  ".join(
        [
            f"flower-supernode --superlink {superlink} --root-certificates {shlex.quote(authority)}",
            f"--auth-supernode-private-key {shlex.quote(str(member.with_name(KEY_FILE)))}",
            f"--node-config {shlex.quote(settings)}",
        ]
    )


def _member_text(name: str, figures: PrivateFigures, settings: Mapping[str, int]) -> str:
    tidy = MEMBER_KEYS["name"].checked("the member's name", name)
    if tidy in (".", "..") or Path(tidy).name != tidy:
        raise InputError(f"A member's name must be usable as a folder name, got {name!r}.")
    values = {
        key: repr(MEMBER_KEYS[key].checked(key, getattr(figures, key)))
        for key in ("unit_value", "cost_per_sample", "cost_per_step", "cost_per_round")
    }
    # Strings in JSON are valid in TOML.
    text = template_text("member.toml", name=json.dumps(tidy, ensure_ascii=False), **values)
    return text + "".join(f"{key} = {value}\n" for key, value in settings.items())


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
