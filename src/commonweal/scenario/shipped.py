"""The scenarios that come with the package: the paper's, and small ones to start from."""

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
FIRST = "quickstart"  # where a newcomer starts


def shipped_names() -> tuple[str, ...]:
    """The one to start with, then the others in alphabetical order."""
    folder = files("commonweal.scenario") / "shipped_files"
    names = (entry.name.removesuffix(_SUFFIX) for entry in folder.iterdir() if entry.name.endswith(_SUFFIX))
    return tuple(sorted(names, key=lambda name: (name != FIRST, name)))


def shipped_text(name: str) -> str:
    """The commented TOML of a shipped scenario."""
    if name not in shipped_names():
        raise ScenarioError(f"a shipped scenario must be one of {', '.join(shipped_names())}, {_but_got(name)}")
    file = files("commonweal.scenario") / "shipped_files" / f"{name}{_SUFFIX}"
    return file.read_text(encoding="utf-8")


def load(name_or_path: str, *, settings: Mapping[str, object] = _NONE) -> Scenario:
    """The shipped scenario of this name, else the one in the file at this path.

    A name goes first; a file of the same name is reached as ./quickstart. `settings` take the place of values in the
    file, by dotted key such as `learning.learning_rate`.
    """
    if name_or_path in shipped_names():
        return parse_scenario(shipped_text(name_or_path), f"{name_or_path}{_SUFFIX}", settings=settings)
    if _is_path(name_or_path):
        return read_scenario(Path(name_or_path), settings=settings)
    raise ScenarioError(
        f"a scenario must be the path of a TOML file or one of {', '.join(shipped_names())}, {_but_got(name_or_path)}"
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


def _but_got(name: str) -> str:
    close = get_close_matches(name, shipped_names(), n=1)
    way_out = f"did you mean {close[0]!r}?" if close else "choose one of those"
    return f"got {name!r}; {way_out}"
