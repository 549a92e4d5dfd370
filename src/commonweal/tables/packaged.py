"""Tables that come with packages from PyPI, so that a fresh machine has a real one with sites."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from commonweal.errors import InputError
from commonweal.tables.reading import Table, read_table


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagedTable:
    """A file of a package, and the columns of it that are kept."""

    package: str
    parts: tuple[str, ...]
    columns: tuple[str, ...]


PACKAGED = {
    # The RAND Health Insurance Experiment (public domain): person-years at six sites. The targets are `binexp`, whether
    # there was any medical spending, and `meddol`, how much in dollars. Visits and other spending of the same year are
    # left out, since they would give the targets away. Ignore one target when the other is learned.
    "statsmodels:randhie": PackagedTable(
        package="statsmodels",
        parts=("datasets", "randhie", "src", "randhie.csv"),
        columns=(
            *("site", "year", "coins", "black", "income", "xage", "female", "educdec", "num", "mhi", "disea"),
            *("physlm", "ghindx", "child", "fchild", "idp", "lpi", "fmde", "meddol", "binexp"),
        ),
    )
}


def is_packaged(name: str) -> bool:
    """Whether the name is of the form package:table, for a package that has such tables."""
    return name.partition(":")[0] in {table.package for table in PACKAGED.values()} and ":" in name


def path_of(name: str) -> Path:
    """Where the file is, found without importing the package."""
    if name not in PACKAGED:
        raise InputError(f"There is no packaged table {name!r}. There is {', '.join(map(repr, PACKAGED))}.")
    table = PACKAGED[name]
    spec = find_spec(table.package)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"The table {name!r} needs {table.package}: pip install {table.package}")
    path = Path(spec.submodule_search_locations[0]).joinpath(*table.parts)
    if not path.is_file():
        raise InputError(
            f"The installed version of {table.package} has no file {'/'.join(table.parts)}. Install version 0.14 or "
            f"0.15: pip install '{table.package}>=0.14,<0.16'"
        )
    return path


def read_packaged(name: str, missing: Collection[str] = ()) -> Table:
    """The table, with the columns that are kept."""
    table = read_table(path_of(name), missing)
    columns = {column: table.column(column) for column in PACKAGED[name].columns}
    return replace(table, name=name, columns=columns)
