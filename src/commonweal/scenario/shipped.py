"""The scenarios that come with the package: those of the paper, and small ones to start from."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

from commonweal.errors import ScenarioError
from commonweal.scenario.spec import Scenario
from commonweal.scenario.toml_file import parse_scenario, read_scenario

_NONE: Mapping[str, object] = MappingProxyType({})
_SUFFIX = ".toml"
FIRST = "quickstart"  # for newcomers


def shipped_names() -> tuple[str, ...]:
    """The names: the one for newcomers first, then the others in alphabetical order."""
    folder = files("commonweal.scenario") / "shipped_files"
    names = (entry.name.removesuffix(_SUFFIX) for entry in folder.iterdir() if entry.name.endswith(_SUFFIX))
    return tuple(sorted(names, key=lambda name: (name != FIRST, name)))


def shipped_text(name: str) -> str:
    """The commented TOML of a shipped scenario."""
    if name not in shipped_names():
        raise ScenarioError(f"There is no shipped scenario {name!r}. {_better_name(name)}")
    file = files("commonweal.scenario") / "shipped_files" / f"{name}{_SUFFIX}"
    return file.read_text(encoding="utf-8")


def load(name_or_path: str, *, settings: Mapping[str, object] = _NONE) -> Scenario:
    """The shipped scenario of this name, otherwise the one in the file at this path.

    Names of shipped scenarios take precedence; a file called quickstart is found as ./quickstart. `settings`
    replace values of the file, by dotted key such as `learning.learning_rate`.
    """
    if name_or_path in shipped_names():
        return parse_scenario(shipped_text(name_or_path), f"{name_or_path}{_SUFFIX}", settings=settings)
    if _is_path(name_or_path):
        return read_scenario(Path(name_or_path), settings=settings)
    raise ScenarioError(
        f"There is no scenario {name_or_path!r}. {_better_name(name_or_path)} A file of your own needs a path, "
        "or a name that ends in .toml."
    )


def _is_path(text: str) -> bool:
    """Whether the text means a file rather than a misspelt name."""
    path = Path(text)
    if not text or path.suffix == _SUFFIX or path.name != text:
        return bool(text)
    try:
        return path.exists()
    except OSError:  # e.g. a name too long for a file
        return False


def _better_name(name: str) -> str:
    close = get_close_matches(name, shipped_names(), n=1)
    return f"Did you mean {close[0]!r}?" if close else f"Choose one of {', '.join(shipped_names())}."
