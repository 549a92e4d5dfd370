"""New folders: a federation that runs as it is (app, terms, members for a rehearsal), and a single member."""

from __future__ import annotations

import keyword
import re
import shlex
import sys
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from commonweal.atomic_write import check_new, new_folder
from commonweal.errors import InputError
from commonweal.flower.starting.template import template_text
from commonweal.ledger.node_keys import NodeKey
from commonweal.remote.coordinator.federation_file import read_federation
from commonweal.remote.member.member_file import MEMBER_KEYS, read_member
from commonweal.scenario.rates import CLASS
from commonweal.scenario.toml_text import toml_lines, toml_value
from commonweal.task.starter import patients_csv, task_text

KEY_FILE, MEMBER_FILE = "node-key", "member.toml"

MOST_MEMBERS = 12  # limited by the processes of a rehearsal and by exact Shapley values
_NAMES = ("north", "south", "east", "west", "centre")
_LONGEST_PACKAGE = 32  # Flower's limit for apps
_MODULES = ("__init__.py", "client_app.py", "server_app.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateFigures:
    """What a gain in the metric is worth to a member, and what the member spends, in units of utility."""

    unit_value: float = 1.0
    cost_per_sample: float = 0.0
    cost_per_step: float = 0.0
    cost_per_round: float = 0.0
    worth_curve: tuple[tuple[float, float], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMember:
    """A member of a new federation, for rehearsals."""

    name: str
    figures: PrivateFigures
    settings: Mapping[str, object] = field(default_factory=dict)  # its own table [task]
    files: Mapping[str, bytes] = field(default_factory=dict)  # in its folder, by name
    profit_bounds: tuple[float, float] | None = None  # None: the usual ones
    misconduct: Mapping[str, object] = field(default_factory=dict)  # of its member.toml: reported_profit and defect
    own_class: str | None = None  # where rates differ by class


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFederation:
    """What differs between new federations."""

    terms: str  # federation.toml without the clients
    members: tuple[NewMember, ...]
    task: str  # task.py
    modules: Mapping[str, bytes] = field(default_factory=dict)  # what task.py imports from beside it, by path


def make_federation(directory: Path, member_count: int = 3) -> tuple[str, ...]:
    """Create a folder for `commonweal flower rehearse`, with a task to start from; returns the members' names."""
    if not 2 <= member_count <= MOST_MEMBERS:
        raise InputError(f"A new federation must have 2 to {MOST_MEMBERS} members, got {member_count}.")
    names = [*_NAMES, *(f"member-{number}" for number in range(len(_NAMES) + 1, MOST_MEMBERS + 1))][:member_count]
    members = tuple(
        NewMember(
            name=name,
            figures=PrivateFigures(cost_per_sample=round(0.0001 * (position + 1), 4)),
            settings={"data": "data.csv"},
            files={"data.csv": patients_csv(position).encode()},
        )
        for position, name in enumerate(names)
    )
    terms = template_text("federation.toml", name=toml_value(_title(directory)[:60]))
    return write_federation(directory, NewFederation(terms=terms, members=members, task=task_text()))


def write_federation(directory: Path, federation: NewFederation) -> tuple[str, ...]:
    """Create the folder of a federation; returns the members' names."""
    what = "the federation's folder"
    check_new(directory, what)
    package = package_name(_title(directory))
    with new_folder(directory, what) as folder:
        code = folder / "app" / package
        code.mkdir(parents=True)
        for module in _MODULES:
            _write(code / module, template_text("app", "package", module))
        _write(code / "task.py", federation.task)
        for path, content in federation.modules.items():
            (folder / "app" / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / "app" / path).write_bytes(content)
        _write(
            folder / "app" / "pyproject.toml",
            template_text("app", "pyproject.toml", app=package.replace("_", "-"), package=package),
        )
        for member in federation.members:
            make_member(
                folder / "members" / member.name,
                member.name,
                member.figures,
                settings=member.settings,
                files=member.files,
                misconduct=member.misconduct,
            )
        _write(folder / "federation.toml", federation.terms + "".join(map(_client_text, federation.members)))
        read_federation(folder / "federation.toml")  # never leave a file that cannot be read
        readme = template_text(
            "README.md", title=_title(directory), package=package, folder=shlex.quote(str(directory))
        )
        _write(folder / "README.md", readme)
        _write(folder / ".gitignore", template_text("gitignore"))
    return tuple(member.name for member in federation.members)


def _title(directory: Path) -> str:
    return unicodedata.normalize("NFC", directory.name)


def _client_text(member: NewMember) -> str:
    bounds = {} if member.profit_bounds is None else {"profit_bounds": member.profit_bounds}
    values = {
        "name": member.name,
        "key_file": f"members/{member.name}/{KEY_FILE}.pub",
        **bounds,
        CLASS: member.own_class,
    }
    return f"\n[[clients]]\n{toml_lines(values)}"


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


def make_member(
    directory: Path,
    name: str,
    figures: PrivateFigures,
    *,
    settings: Mapping[str, object] | None = None,
    files: Mapping[str, bytes] | None = None,
    misconduct: Mapping[str, object] | None = None,
) -> None:
    """Create a folder with node-key, node-key.pub, member.toml and these files."""
    text = _member_text(name, figures, settings or {}, misconduct or {})
    with new_folder(directory, "the member's folder") as folder:
        folder.chmod(0o700)  # unit value and costs are private
        NodeKey.new().write(folder / KEY_FILE)
        for file, content in (files or {}).items():
            (folder / file).write_bytes(content)
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


def _member_text(
    name: str, figures: PrivateFigures, settings: Mapping[str, object], misconduct: Mapping[str, object]
) -> str:
    tidy = MEMBER_KEYS["name"].checked("the member's name", name)
    if tidy in (".", "..") or Path(tidy).name != tidy:
        raise InputError(f"A member's name must be usable as a folder name, got {name!r}.")
    values = {
        key: repr(MEMBER_KEYS[key].checked(key, getattr(figures, key)))
        for key in ("unit_value", "cost_per_sample", "cost_per_step", "cost_per_round")
    }
    curve = "# worth_curve = [[0.5, 0.0], [0.8, 1.0]]"
    if figures.worth_curve is not None:
        curve = f"worth_curve = {toml_value(figures.worth_curve)}"
    if broken_rules := toml_lines(misconduct).rstrip():
        curve += f"\n\n# In rehearsals this member breaks the rules, as its scenario says.\n{broken_rules}"
    text = template_text("member.toml", name=toml_value(tidy), worth_curve=curve, **values)
    return text + toml_lines(settings)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
