"""Packages of the extras: imported only when needed, with an error message that says how to install them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from commonweal.errors import InputError

_SIMULATION = "pip install 'commonweal[simulation]'"


@contextmanager
def needed_for(what: str, extra: str = "simulation") -> Iterator[None]:
    """Imports in this block belong to the extra; if one is missing, the error says what to install."""
    try:
        yield
    except ImportError as error:
        raise InputError(
            f"{what[:1].upper()}{what[1:]} needs {error.name or error}: pip install 'commonweal[{extra}]'."
        ) from None


def is_installed(package: str) -> bool:
    """Whether the package could be imported; does not import it."""
    return find_spec(package) is not None


def file_of_package(package: str, *parts: str) -> Path:
    """A data file of an installed package, found without importing the package (scikit-learn takes a second)."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"The built-in sources need {package}: {_SIMULATION}.")
    file = Path(spec.submodule_search_locations[0]).joinpath(*parts)
    if not file.is_file():
        raise InputError(
            f"The installed version of {package} has no file {'/'.join(parts)}. Install the version in "
            "constraints.txt: "
            f"{_SIMULATION} -c constraints.txt"
        )
    return file
