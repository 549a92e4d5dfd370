"""Packages of the extras: imported late, and missed politely."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from commonweal.errors import InputError

_WAY_OUT = "pip install 'commonweal[simulation]'"


@contextmanager
def needed_for(what: str, extra: str = "simulation") -> Iterator[None]:
    """Imports in this block belong to the extra: without it, say so instead of an ImportError."""
    try:
        yield
    except ImportError as error:
        raise InputError(
            f"{what} needs packages of an extra, got no {error.name or error}; pip install 'commonweal[{extra}]'"
        ) from None


def is_installed(package: str) -> bool:
    """Whether it could be imported; it is not."""
    return find_spec(package) is not None


def file_of_package(package: str, *parts: str) -> Path:
    """A data file inside an installed package, found without importing the package (scikit-learn takes a second)."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"built-in samples come with packages of an extra, got no {package}; {_WAY_OUT}")
    file = Path(spec.submodule_search_locations[0]).joinpath(*parts)
    if not file.is_file():
        raise InputError(
            f"{package} must bring {'/'.join(parts)}, got a version without it; {_WAY_OUT} with the versions of "
            "constraints.txt"
        )
    return file
