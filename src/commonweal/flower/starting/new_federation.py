"""A federation's folder that runs at once: an app, the operator's terms, and members with keys for a rehearsal."""

from __future__ import annotations

import json
import keyword
import re
import shlex
import sys
import unicodedata
from importlib.util import find_spec
from pathlib import Path

from commonweal.errors import FederationError
from commonweal.flower.starting.new_folder import check_new, new_folder
from commonweal.flower.starting.new_member import Worth, make_member
from commonweal.flower.starting.template_text import template_text
from commonweal.remote.coordinator.federation_file import read_federation

MOST_MEMBERS = 12  # each is a process or two on one machine, and the exact Shapley value goes no further
_NAMES = ("north", "south", "east", "west", "centre")
_LONGEST_PACKAGE = 32  # of Flower's apps
_MODULES = ("__init__.py", "client_app.py", "server_app.py", "task.py")


def make_federation(directory: Path, member_count: int = 3) -> tuple[str, ...]:
    """A new folder for `commonweal flower rehearse`; returns the members' names."""
    what = "the federation's folder"
    check_new(directory, what)
    if not 2 <= member_count <= MOST_MEMBERS:
        raise FederationError(
            f"a federation starts with 2 to {MOST_MEMBERS} members, got {member_count}; 3 do for a trial"
        )
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
            worth = Worth(cost_per_sample=0.0001 * (position + 1))
            make_member(folder / "members" / name, name, worth, {"samples_per_round": 60})
        clients = [f'\n[[clients]]\nname = "{name}"\nkey_file = "members/{name}/node-key.pub"\n' for name in names]
        terms = template_text("federation.toml", name=json.dumps(title[:60], ensure_ascii=False))
        _write(folder / "federation.toml", terms + "".join(clients))
        read_federation(folder / "federation.toml")  # never leave what cannot be read
        readme = template_text("README.md", title=title, package=package, folder=shlex.quote(str(directory)))
        _write(folder / "README.md", readme)
        _write(folder / ".gitignore", template_text("gitignore"))
    return names


def package_name(title: str) -> str:
    """A name that Python and Flower take, and no module has that the app could want to import."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    name = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")[: _LONGEST_PACKAGE - len("_app")].strip("_")
    if not name or name[0].isdigit():
        name = f"app_{name}".rstrip("_")
    is_taken = keyword.iskeyword(name) or name in sys.stdlib_module_names or _is_installed(name)
    return f"{name}_app" if is_taken else name


def _is_installed(name: str) -> bool:
    """A folder without code, such as a federation's own in the current directory, is nobody's package."""
    spec = find_spec(name)
    return spec is not None and spec.origin is not None


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
