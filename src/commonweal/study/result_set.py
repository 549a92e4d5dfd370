"""Results on disk: one Parquet file a replication, written whole, and all of them together in results.parquet.

A file's metadata say what it was made of: scenario, code, seed, data, kind of processor. A result set is of one
scenario for each experiment, one code, one data set and, unless asked otherwise, one kind of processor.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from commonweal.atomic_write import write_atomically
from commonweal.errors import StorageError
from commonweal.paper.experiments import EVERY_ONE
from commonweal.records import ContributionRule
from commonweal.scenario.document import digest
from commonweal.scenario.spec import Scenario
from commonweal.study.mu_sets import Mus
from commonweal.study.row_schema import SCHEMA

if TYPE_CHECKING:  # it brings torch, which reading results does not need
    from commonweal.study.replication import Replication

FORMAT = "commonweal.results/1"
RESULTS = "results.parquet"
_FOLDER = "replications"
_METADATA = b"commonweal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a result was made of, apart from its seed."""

    experiment: str
    scenario_digest: str  # without seed, μ and contribution rule: those are the replications' and the policies'
    code_version: str
    data_fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReplication:
    """What is known of a replication without its rows."""

    origin: Origin
    replication: int
    seed: int
    mus: Mapping[ContributionRule, Mus]
    round_count: int  # planned
    cpu_kind: str
    held_count: int
    seconds: float
    processor_seconds: float
    peak_memory_bytes: int

    def covers(self, mus: Mapping[ContributionRule, Mus]) -> bool:
        """Whether it has the outcome at all these μ."""
        return all(rule in self.mus and _includes(self.mus[rule], asked) for rule, asked in mus.items())


def scenario_digest(scenario: Scenario) -> str:
    """Of all that replications and policies have in common."""
    rules = replace(scenario.mechanism.rules, mu=math.inf, contribution_rule="clip")
    return digest(replace(scenario, seed=0, mechanism=replace(scenario.mechanism, rules=rules)))


def joined(one: Mus, other: Mus) -> Mus:
    """All μ of both."""
    return "all" if one == "all" or other == "all" else tuple(sorted({*one, *other}))


def write_replication(directory: Path, result: Replication) -> StoredReplication:
    """Put the file of one replication into the set, in place of an earlier one of the same seed."""
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
        held_count=result.held_count,
        seconds=result.seconds,
        processor_seconds=result.processor_seconds,
        peak_memory_bytes=result.peak_memory_bytes,
    )
    path = _path(directory, task.experiment, task.replication)
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, result.rows, [stored])
    return stored


def stored_replications(directory: Path) -> Iterator[StoredReplication]:
    """All replications of the set, by experiment in the paper's order and number."""
    for path in _paths(directory):
        stored = _read_stored(path)
        expected = [_path(directory, one.origin.experiment, one.replication) for one in stored]
        if expected != [path]:
            found = " and ".join(f"replication {one.replication} of {one.origin.experiment}" for one in stored)
            raise StorageError(
                f"a file of a replication must be named after it, got {found or 'none'} in {str(path)!r}; move that "
                "file away"
            )
        yield stored[0]


def write_results(directory: Path) -> Path:
    """All rows together, by experiment in the paper's order and number of the replication."""
    stored = list(stored_replications(directory))
    tables = [_read_rows(_path(directory, one.origin.experiment, one.replication)) for one in stored]
    rows = pa.concat_tables(tables) if tables else SCHEMA.empty_table()
    _write(directory / RESULTS, rows, stored)
    return directory / RESULTS


def read_results(directory: Path) -> tuple[list[StoredReplication], pa.Table]:
    """What `write_results` wrote."""
    path = directory / RESULTS
    if not path.exists():
        way_out = (
            "it is written when `commonweal reproduce` ends: run the command again that made the replications there"
            if _paths(directory)
            else f"run `commonweal reproduce EXPERIMENT --out {directory}` first"
        )
        raise StorageError(
            f"claims are tested on the results of `commonweal reproduce`, got no {RESULTS} in {str(directory)!r}; "
            f"{way_out}"
        )
    return _read_stored(path), _read_rows(path)


def result_folders(directory: Path) -> list[Path]:
    """Those that may be inside the folder of a result set, the inner ones first."""
    folder = directory / _FOLDER
    return [*(folder / experiment for experiment in EVERY_ONE), folder]


def check_one_origin(stored: Iterable[StoredReplication], wanted: Sequence[Origin], directory: Path) -> None:
    """Refuse to add results to those of another version."""
    by_experiment = {origin.experiment: origin for origin in wanted}
    code_versions = {origin.code_version for origin in wanted}
    for one in stored:
        theirs, ours = one.origin, by_experiment.get(one.origin.experiment)
        differing = [
            name
            for name, differs in (
                ("code", theirs.code_version not in code_versions),
                ("scenario", ours is not None and theirs.scenario_digest != ours.scenario_digest),
                ("data", ours is not None and theirs.data_fingerprint != ours.data_fingerprint),
            )
            if differs
        ]
        if differing:
            raise StorageError(
                "a result set is of one scenario for each experiment, one code and one data set, got results of other "
                f"{' and '.join(differing)} for replication {one.replication} of {theirs.experiment} in "
                f"{str(directory)!r}; give another --out, or move those results away"
            )


def check_one_cpu_kind(kinds: Iterable[str], directory: Path) -> None:
    """Refuse to mix kinds of processors, whose results may differ in the last bits."""
    found = sorted(set(kinds))
    if len(found) > 1:
        raise StorageError(
            f"results come from one kind of processor, since others round differently, got {' and '.join(found)} in "
            f"{str(directory)!r}; give another --out, or accept the mixture with --mixed-cpus"
        )


def _includes(held: Mus, asked: Mus) -> bool:
    return held == "all" or (asked != "all" and set(asked) <= set(held))


def _path(directory: Path, experiment: str, replication: int) -> Path:
    return directory / _FOLDER / experiment / f"{replication:05d}.parquet"


def _paths(directory: Path) -> list[Path]:
    return [path for folder in result_folders(directory)[:-1] for path in sorted(folder.glob("[0-9]*.parquet"))]


def _write(path: Path, rows: pa.Table, stored: Sequence[StoredReplication]) -> None:
    document = {"format": FORMAT, "replications": [_to_document(one) for one in stored]}
    metadata = {_METADATA: json.dumps(document, allow_nan=False).encode()}
    content = io.BytesIO()
    pq.write_table(rows.replace_schema_metadata(metadata), content, compression="zstd", write_page_checksum=True)
    write_atomically(
        path, content.getvalue(), what="the results", way_out="make room there, then run the same command again"
    )


def _read_rows(path: Path) -> pa.Table:
    try:
        rows = pq.read_table(io.BytesIO(path.read_bytes()), page_checksum_verification=True)
        return rows.replace_schema_metadata(None).cast(SCHEMA)
    except (OSError, pa.ArrowException, ValueError) as error:
        raise _unreadable(path, error) from None


def _read_stored(path: Path) -> list[StoredReplication]:
    try:
        document = json.loads((pq.read_schema(path).metadata or {})[_METADATA])
        found = document["format"]
        if found == FORMAT:
            return [_from_document(one) for one in document["replications"]]
    except (OSError, pa.ArrowException, ValueError, LookupError, TypeError, AttributeError) as error:
        raise _unreadable(path, error) from None
    raise StorageError(
        f"results must be in the format {FORMAT}, got {found!r} in {str(path)!r}; use the version that wrote it, or "
        "give another --out"
    )


def _unreadable(path: Path, error: Exception) -> StorageError:
    reason = str(error).partition("\n")[0] or type(error).__name__
    lost = "the rows in it are put together anew" if path.name == RESULTS else "only what it held is computed anew"
    return StorageError(
        f"a result file must be whole, got {reason} for {str(path)!r}; remove that file and run `commonweal reproduce` "
        f"again: {lost}"
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
        "held_count": stored.held_count,
        "seconds": stored.seconds,
        "processor_seconds": stored.processor_seconds,
        "peak_memory_bytes": stored.peak_memory_bytes,
    }


def _from_document(document: Mapping[str, Any]) -> StoredReplication:
    return StoredReplication(
        origin=Origin(**{field.name: str(document[field.name]) for field in fields(Origin)}),
        replication=int(document["replication"]),
        seed=int(document["seed"]),
        mus={rule: mus if mus == "all" else tuple(map(float, mus)) for rule, mus in document["mus"].items()},
        round_count=int(document["round_count"]),
        cpu_kind=str(document["cpu_kind"]),
        held_count=int(document["held_count"]),
        seconds=float(document["seconds"]),
        processor_seconds=float(document["processor_seconds"]),
        peak_memory_bytes=int(document["peak_memory_bytes"]),
    )


def _mu_text(mu: float) -> str:
    """As JSON has no infinity."""
    return "inf" if math.isinf(mu) else repr(mu)
