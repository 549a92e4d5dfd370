"""Results on disk: one Parquet file per replication, written whole, and all rows together in results.parquet.

The metadata of a file say how it was made: scenario, code, seed, data, kind of processor. A result set has one scenario
per experiment, one version of the code, one version of the data and, unless asked otherwise, one kind of processor.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from commonweal.atomic_write import write_atomically
from commonweal.errors import InputError, StorageError
from commonweal.records import ContributionRule
from commonweal.scenario.document import digest, to_document
from commonweal.scenario.spec import Scenario
from commonweal.study.behaviour import is_earlier_format, same_behaviour
from commonweal.study.mu_sets import Mus, includes
from commonweal.study.rows import SCHEMA, schema_of

if TYPE_CHECKING:  # it imports torch, which reading results does not need
    from commonweal.study.replication import Replication

FORMAT = "commonweal.results/1"
RESULTS = "results.parquet"
_FOLDER = "replications"
_METADATA = b"commonweal"
_FOLDER_NAME_LIMIT = 150  # characters; file systems allow 255 bytes
_NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e[-+]?\d+)?)")
_DIFFERENT = {"code": "different code", "scenario": "a different scenario", "data": "different data"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a result was made from, apart from its seed."""

    experiment: str
    scenario_digest: str  # without seed, μ and contribution rule, which vary within a result set
    code_version: str
    data_fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReplication:
    """What is known about a replication without reading its rows."""

    origin: Origin
    replication: int
    seed: int
    mus: Mapping[ContributionRule, Mus]
    round_count: int  # planned
    cpu_kind: str
    computed_round_count: int
    seconds: float
    processor_seconds: float
    peak_memory_bytes: int
    # The experiment's scenario as a document; None in files of earlier versions.
    scenario: Mapping[str, object] | None = field(default=None, compare=False)

    def covers(self, mus: Mapping[ContributionRule, Mus]) -> bool:
        """Whether it has the outcome at all these μ."""
        return all(rule in self.mus and includes(self.mus[rule], asked) for rule, asked in mus.items())


def scenario_digest(scenario: Scenario) -> str:
    """The digest of what all replications and policies have in common."""
    rules = replace(scenario.mechanism.rules, mu=math.inf, contribution_rule="clip")
    return digest(replace(scenario, seed=0, mechanism=replace(scenario.mechanism, rules=rules)))


def write_replication(directory: Path, result: Replication) -> StoredReplication:
    """Write the file of one replication, in place of an earlier one of the same seed."""
    task = result.task
    stored = StoredReplication(
        origin=Origin(
            experiment=task.experiment,
            scenario_digest=scenario_digest(task.scenario),
            code_version=result.code_version,
            data_fingerprint=result.data_fingerprint,
        ),
        replication=task.replication,
        seed=task.scenario.seed,
        mus=task.mus,
        round_count=task.scenario.round_count,
        cpu_kind=result.cpu_kind,
        computed_round_count=result.computed_round_count,
        seconds=result.seconds,
        processor_seconds=result.processor_seconds,
        peak_memory_bytes=result.peak_memory_bytes,
        scenario=to_document(replace(task.scenario, seed=task.scenario.seed - task.replication + 1)),
    )
    path = _path(directory, task.experiment, task.replication)
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, result.rows, [stored])
    return stored


def stored_replications(directory: Path) -> Iterator[StoredReplication]:
    """All replications of the set: those with a file of their own, then those that only results.parquet has."""
    for path in _paths(directory):
        stored = _read_stored(path)
        expected = [_path(directory, one.origin.experiment, one.replication) for one in stored]
        if expected != [path]:
            found = " and ".join(f"replication {one.replication} of {one.origin.experiment}" for one in stored)
            raise StorageError(
                f"{str(path)!r} holds {found or 'no replication'}, which does not match its name. Move that file away."
            )
        yield stored[0]
    yield from _only_together(directory)


def unpack_results(directory: Path) -> None:
    """Give every replication a file of its own; whoever publishes results may leave these files out."""
    missing = list(_only_together(directory))
    if not missing:
        return
    rows = _read_rows(directory / RESULTS)
    for one in missing:
        own = rows.filter(
            (pc.field("experiment") == one.origin.experiment) & (pc.field("replication") == one.replication)
        )
        unused = [name for name in own.column_names if name not in SCHEMA.names and own[name].null_count == len(own)]
        path = _path(directory, one.origin.experiment, one.replication)
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, own.drop_columns(unused), [one])


def _only_together(directory: Path) -> Iterator[StoredReplication]:
    """Replications in results.parquet without a file of their own.

    A broken results.parquet beside such files is ignored: it is made from them again.
    """
    if not (directory / RESULTS).exists():
        return
    try:
        together = _read_stored(directory / RESULTS)
    except StorageError:
        if not _paths(directory):
            raise
        return
    for one in together:
        if not _path(directory, one.origin.experiment, one.replication).exists():
            yield one


def write_results(directory: Path, *, order: Sequence[str] = ()) -> Path:
    """Write all rows together, by experiment and replication.

    Experiments named in `order` come first, each followed by its variations; the others follow by name.
    """
    stored = sorted(
        stored_replications(directory), key=lambda one: (*_place(one.origin.experiment, order), one.replication)
    )
    tables = [_read_rows(_path(directory, one.origin.experiment, one.replication)) for one in stored]
    rows = pa.concat_tables(tables, promote_options="default") if tables else SCHEMA.empty_table()
    _write(directory / RESULTS, rows, stored)
    return directory / RESULTS


def read_results(directory: Path) -> tuple[list[StoredReplication], pa.Table]:
    """What `write_results` wrote."""
    path = directory / RESULTS
    if not path.exists():
        way_out = (
            "`commonweal reproduce` writes it when it completes: run the command that made these replications again"
            if _paths(directory)
            else "run `commonweal reproduce` into this folder first"
        )
        raise StorageError(f"There is no {RESULTS} in {str(directory)!r}: {way_out}.")
    return _read_stored(path), _read_rows(path)


def result_folders(directory: Path) -> list[Path]:
    """The folders inside that of a result set, inner ones first."""
    folder = directory / _FOLDER
    return [*sorted(inner for inner in folder.glob("*") if inner.is_dir()), folder]


def check_one_origin(
    stored: Iterable[StoredReplication], wanted: Sequence[Origin], directory: Path, *, cpu_kind: str
) -> None:
    """Refuse to add results to those of another version; `cpu_kind` is that of the wanted origins' code version."""
    by_experiment = {origin.experiment: origin for origin in wanted}
    code_versions = {origin.code_version for origin in wanted}
    for one in stored:
        theirs, ours = one.origin, by_experiment.get(one.origin.experiment)
        is_same_code = any(
            same_behaviour(theirs.code_version, version, same_cpu_kind=one.cpu_kind == cpu_kind)
            for version in code_versions
        )
        differing = [
            name
            for name, differs in (
                ("code", not is_same_code),
                ("scenario", ours is not None and theirs.scenario_digest != ours.scenario_digest),
                ("data", ours is not None and theirs.data_fingerprint != ours.data_fingerprint),
            )
            if differs
        ]
        if differing:
            raise InputError(_other_origin(one, differing, directory))


def check_one_cpu_kind(kinds: Iterable[str], directory: Path) -> None:
    """Refuse to mix kinds of processors, whose results may differ in the last bits."""
    found = sorted(set(kinds))
    if len(found) > 1:
        raise InputError(
            f"The results in {str(directory)!r} come from different kinds of processors, which round differently: "
            f"{' and '.join(found)}. Choose another folder, or accept mixed processors (mixed_cpus)."
        )


def _other_origin(one: StoredReplication, differing: Sequence[str], directory: Path) -> str:
    what = f"Replication {one.replication} of {one.origin.experiment} in {str(directory)!r} was computed with"
    if differing == ["code"] and is_earlier_format(one.origin.code_version):
        return (
            f"{what} an earlier version of commonweal, whose results cannot be combined with those of this version. "
            "The results can still be read. To continue them, use the earlier version; to use this version, choose "
            "another folder."
        )
    return (
        f"{what} {' and '.join(_DIFFERENT[name] for name in differing)}, and results of different versions must not "
        "be mixed. Choose another folder, or move those results away."
    )


def _place(experiment: str, order: Sequence[str]) -> tuple[int, list[tuple[float, str]]]:
    """The sort key of an experiment; numbers in names are compared as numbers."""
    base = experiment.partition("[")[0]
    parts = _NUMBER.split(experiment)  # texts and numbers in turn
    name = [(0.0, part) if place % 2 == 0 else (float(part), "") for place, part in enumerate(parts)]
    return order.index(base) if base in order else len(order), name


def _path(directory: Path, experiment: str, replication: int) -> Path:
    return directory / _FOLDER / _folder_name(experiment) / f"{replication:05d}.parquet"


def _folder_name(experiment: str) -> str:
    """The experiment's name as a file name: unsafe characters percent-encoded, long names cut and given a hash."""
    name = quote(experiment, safe=" ,=[]+")
    if len(name) > _FOLDER_NAME_LIMIT:
        name = f"{name[:_FOLDER_NAME_LIMIT]}-{hashlib.sha256(experiment.encode()).hexdigest()[:16]}"
    return name.replace(".", "%2E", 1) if name.startswith(".") else name


def _paths(directory: Path) -> list[Path]:
    return [path for folder in result_folders(directory)[:-1] for path in sorted(folder.glob("[0-9]*.parquet"))]


def _write(path: Path, rows: pa.Table, stored: Sequence[StoredReplication]) -> None:
    scenarios = {one.origin.experiment: one.scenario for one in stored if one.scenario is not None}
    document = {"format": FORMAT, "replications": [_to_document(one) for one in stored], "scenarios": scenarios}
    metadata = {_METADATA: json.dumps(document, allow_nan=False).encode()}
    content = io.BytesIO()
    pq.write_table(rows.replace_schema_metadata(metadata), content, compression="zstd", write_page_checksum=True)
    write_atomically(
        path, content.getvalue(), what="the results", way_out="free some space there, then run the same command again"
    )


def _read_rows(path: Path) -> pa.Table:
    try:
        rows = pq.read_table(io.BytesIO(path.read_bytes()), page_checksum_verification=True)
        return rows.replace_schema_metadata(None).cast(schema_of(rows.column_names))
    except (OSError, pa.ArrowException, ValueError) as error:
        raise _unreadable(path, error) from None


def _read_stored(path: Path) -> list[StoredReplication]:
    try:
        document = json.loads((pq.read_schema(path).metadata or {})[_METADATA])
        found = document["format"]
        if found == FORMAT:
            scenarios = document.get("scenarios", {})
            return [_from_document(one, scenarios.get(one["experiment"])) for one in document["replications"]]
    except (OSError, pa.ArrowException, ValueError, LookupError, TypeError, AttributeError) as error:
        raise _unreadable(path, error) from None
    raise StorageError(
        f"{str(path)!r} has the format {found!r}, but this version reads {FORMAT}. Use the version that wrote it, or "
        "choose another folder."
    )


def _unreadable(path: Path, error: Exception) -> StorageError:
    reason = (str(error).partition("\n")[0] or type(error).__name__).rstrip(".")
    lost = (
        "its rows will be collected again"
        if path.name == RESULTS
        else f"only that replication will be taken from {RESULTS}, or computed again"
    )
    return StorageError(
        f"Cannot read {str(path)!r}: {reason}. Remove that file and run `commonweal reproduce` again; {lost}."
    )


def _to_document(stored: StoredReplication) -> dict[str, Any]:
    origin = stored.origin
    return {
        "experiment": origin.experiment,
        "replication": stored.replication,
        "seed": stored.seed,
        "scenario_digest": origin.scenario_digest,
        "code_version": origin.code_version,
        "data_fingerprint": origin.data_fingerprint,
        "mus": {rule: mus if mus == "all" else [_mu_text(mu) for mu in mus] for rule, mus in stored.mus.items()},
        "round_count": stored.round_count,
        "cpu_kind": stored.cpu_kind,
        "held_count": stored.computed_round_count,
        "seconds": stored.seconds,
        "processor_seconds": stored.processor_seconds,
        "peak_memory_bytes": stored.peak_memory_bytes,
    }


def _from_document(document: Mapping[str, Any], scenario: Mapping[str, object] | None) -> StoredReplication:
    return StoredReplication(
        origin=Origin(**{field.name: str(document[field.name]) for field in fields(Origin)}),
        replication=int(document["replication"]),
        seed=int(document["seed"]),
        mus={rule: mus if mus == "all" else tuple(map(float, mus)) for rule, mus in document["mus"].items()},
        round_count=int(document["round_count"]),
        cpu_kind=str(document["cpu_kind"]),
        computed_round_count=int(document["held_count"]),
        seconds=float(document["seconds"]),
        processor_seconds=float(document["processor_seconds"]),
        peak_memory_bytes=int(document["peak_memory_bytes"]),
        scenario=scenario,
    )


def _mu_text(mu: float) -> str:
    """JSON has no infinity."""
    return "inf" if math.isinf(mu) else repr(mu)
