"""`commonweal init`: a commented scenario to start from, for shipped data, a table or a task of one's own."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from commonweal.atomic_write import new_folder, write_atomically
from commonweal.data.optional_packages import needed_for
from commonweal.errors import InputError
from commonweal.report.text import counted
from commonweal.scenario.lines import key_places
from commonweal.scenario.shipped import FIRST, load, shipped_names, shipped_text
from commonweal.scenario.toml_file import parse_scenario, read_scenario
from commonweal.scenario.toml_text import toml_value
from commonweal.task.starter import NAMES, patients_csv, scenario_text, task_text

DEFAULT_FILE = "scenario.toml"


def init_command(
    file: Annotated[
        str | None, typer.Argument(help=f"The file to write (default: {DEFAULT_FILE}).", show_default=False)
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="NAME", help=f"The shipped scenario to start from (default: {FIRST}).", show_default=False
        ),
    ] = None,
    task: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Create a folder with a task of your own that runs at once.", show_default=False
        ),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            metavar="PATIENTS.csv", help="Write a scenario for your own CSV or Parquet file.", show_default=False
        ),
    ] = None,
    site: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="With --table: the column that names a row's client.", show_default=False),
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="With --table: the column to predict.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists.")] = False,
    show_list: Annotated[bool, typer.Option("--list", help="List the shipped scenarios and exit.")] = False,
) -> None:
    """Write a commented scenario to start from: a shipped one, one for your own table, or one with a task of your own.

    Examples: commonweal init my.toml --from label-noise;
    commonweal init my.toml --table patients.csv --site hospital --target died;
    commonweal init --task my-task
    """
    if show_list:
        if file is not None:
            raise InputError(f"--list writes no file, got {file!r}. Leave one of them out.")
        _list()
        return
    chosen = [name for name, value in (("--from", template), ("--task", task), ("--table", table)) if value is not None]
    if len(chosen) > 1:
        raise InputError(f"{' and '.join(chosen)} cannot be combined. Drop all but one.")
    if table is None and (site is not None or target is not None):
        raise InputError("--site and --target name columns of a table. Add --table FILE.")
    if task is not None:
        if file is not None:
            raise InputError(f"--task writes a folder of its own, got the file {file!r} too. Leave it out.")
        _make_task(task)
        return
    path = Path(DEFAULT_FILE if file is None else file)
    _check_suffix(path)
    if table is not None:
        _write_for_table(path, table, site, target, force=force)
        return
    origin = FIRST if template is None else template
    text = _renamed(shipped_text(origin), path)
    scenario = parse_scenario(text, str(path))  # what is written must be valid
    _write(path, text, force=force)
    typer.echo(
        f"Wrote {path}, a copy of {origin}: {counted(len(scenario.clients), 'client')}, "
        f"{counted(scenario.round_count, 'round')}.\n"
        f"Edit it, then run:\n  {_run_command(path)}"
    )


def _make_task(directory: Path) -> None:
    """A folder with a task, its data and its scenario."""
    with new_folder(directory, "the task's folder") as folder:
        name = toml_value(directory.resolve().name[:60])
        files = {"task.py": task_text(), DEFAULT_FILE: scenario_text(name)}
        files |= {f"data/{client}.csv": patients_csv(position) for position, client in enumerate(NAMES)}
        (folder / "data").mkdir()
        for file, text in files.items():
            (folder / file).write_text(text, encoding="utf-8")
        read_scenario(folder / DEFAULT_FILE)  # never leave a file that cannot be read
    scenario = directory / DEFAULT_FILE
    typer.echo(
        f"Created {directory} with task.py, {DEFAULT_FILE}, and invented data of {len(NAMES)} hospitals.\n"
        f"It runs as it is; change task.py into your own task:\n  {_run_command(scenario)}\n{_rehearsal(scenario)}"
    )


def _write_for_table(path: Path, table: Path, site: str | None, target: str | None, *, force: bool) -> None:
    """A scenario for the user's own table, after a look at it."""
    if site is None or target is None:
        missing = " and ".join(name for name, value in (("--site", site), ("--target", target)) if value is None)
        raise InputError(
            f"--table needs {missing} too. --site names the column that tells which client a row belongs to, --target "
            "the column to predict."
        )
    _check_new(path, force=force)
    with needed_for("a scenario for a table"):
        from commonweal.tables.starter import describe_table

    described = describe_table(table, site=site, target=target, scenario=path)
    parse_scenario(described.scenario, str(path))
    _write(path, described.scenario, force=force)
    typer.echo(f"{table} has {described.sentence}")
    for note in described.notes:
        typer.echo(f"note: {note}")
    typer.echo(f"Wrote {path}. Edit it, or run it as it is:\n  {_run_command(path)}\n{_rehearsal(path)}")


def _run_command(path: Path) -> str:
    return f"commonweal run {shlex.quote(str(path))}"


def _rehearsal(scenario: Path) -> str:
    return (
        "Ask whether its clients should federate at all:\n"
        f"  commonweal advise {shlex.quote(str(scenario))}\n"
        "Rehearse the same federation on Flower, with a process for each member:\n"
        f"  commonweal flower new rehearsal --scenario {shlex.quote(str(scenario))}\n"
        "  commonweal flower rehearse rehearsal"
    )


def _list() -> None:
    width = max(map(len, shipped_names()))
    for name in shipped_names():
        typer.echo(f"{name:<{width}}  {load(name).description}")


def _check_suffix(path: Path) -> None:
    """Without .toml, a file could have the name of a shipped scenario, which `commonweal run` prefers."""
    if path.suffix != ".toml":
        hint = f", or use --from {path} to start from that scenario" if str(path) in shipped_names() else ""
        raise InputError(f"FILE must end in .toml, got {str(path)!r}. Write {f'{path}.toml'!r}{hint}.")


def _renamed(text: str, path: Path) -> str:
    """The scenario, named after its new file."""
    line = key_places(text).line_of(("name",))
    assert line is not None, "every scenario has a name"
    lines = text.split("\n")
    lines[line - 1] = f"name = {json.dumps(path.stem, ensure_ascii=False)}"  # JSON strings are valid in TOML
    return "\n".join(lines)


def _check_new(path: Path, *, force: bool) -> None:
    if not force and path.exists():
        raise InputError(f"{path} exists. Choose another name, or overwrite it with --force.")


def _write(path: Path, text: str, *, force: bool) -> None:
    _check_new(path, force=force)
    write_atomically(path, text.encode(), what="the file", way_out="choose another folder that exists")
