"""The runner gives the same rows with any number of workers, computes nothing twice and mixes no versions."""

from __future__ import annotations

import json
import math
import os
import signal
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from commonweal.errors import CommonwealError, FederationError, InputError, StorageError
from commonweal.paper.make_study import make_study
from commonweal.records import ContributionRule
from commonweal.scenario.spec import Scenario
from commonweal.study import replication
from commonweal.study.experiments import load_experiments, parse_settings
from commonweal.study.local_workers import replicate_locally
from commonweal.study.mu_sets import Mus, union
from commonweal.study.replication import Replication, ReplicationTask
from commonweal.study.result_set import (
    RESULTS,
    StoredReplication,
    read_results,
    stored_replications,
    write_replication,
    write_results,
)
from commonweal.study.rows import SCHEMA
from commonweal.study.runner import Request, Workers, carry_out, plan, result_directory
from tests import one_thread
from tests.first_few import first_few
from tests.study.small_federation import small_federation, small_federation_text

GRID = (0.0, 0.05, math.inf)
ONE_WORKER = partial(replicate_locally, worker_count=1)
TWO_WORKERS = partial(replicate_locally, worker_count=2)


def request(
    *,
    replications: int = 2,
    mus: Mapping[ContributionRule, Mus] | None = None,
    scenarios: Mapping[str, Scenario] | None = None,
) -> Request:
    two = {"small-mnist": small_federation(rounds=2), "label-noise": small_federation(rounds=2, algorithm="fedbn")}
    return Request(
        scenarios=two if scenarios is None else scenarios,
        replication_count=replications,
        mus={"clip": GRID} if mus is None else mus,
        data_directory=None,
        experiment_order=("small-mnist", "label-noise"),
    )


def fulfil(asked: Request, directory: Path, workers: Workers = ONE_WORKER) -> list[tuple[str, int]]:
    """Carry out a request; returns the replications that were computed for it."""
    computed = []

    def note(stored: StoredReplication) -> None:
        computed.append((stored.origin.experiment, stored.replication))

    with result_directory(directory):
        carry_out(asked, plan(asked, directory), directory, workers, on_result=note)
    return computed


def rows(directory: Path) -> pa.Table:
    return pq.read_table(directory / RESULTS).replace_schema_metadata(None)


def children(process: int) -> set[int]:
    """The workers of a process, without joblib's trackers."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            if parent == process and b"LokyProcess" in (stat.parent / "cmdline").read_bytes():
                found.add(int(stat.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


@pytest.fixture(scope="module")
def two_of_each(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result set by one worker. Do not change it."""
    directory = tmp_path_factory.mktemp("two-of-each")
    assert len(fulfil(request(), directory)) == 4
    return directory


@pytest.fixture
def copied(two_of_each: Path, tmp_path: Path) -> Path:
    for path in two_of_each.rglob("*.parquet"):
        copy = tmp_path / "set" / path.relative_to(two_of_each)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    return tmp_path / "set"


def test_the_number_of_workers_changes_no_bit(
    two_of_each: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in one_thread.LIMITS:  # nor does the number of their threads
        monkeypatch.setenv(name, "2")
    assert len(fulfil(request(), tmp_path, TWO_WORKERS)) == 4
    assert rows(tmp_path).equals(rows(two_of_each))
    assert rows(tmp_path).column("experiment").unique().to_pylist() == ["small-mnist", "label-noise"]


def test_a_repeated_request_computes_nothing(copied: Path) -> None:
    before = (copied / RESULTS).read_bytes()
    assert fulfil(request(), copied) == []
    assert fulfil(request(replications=1, mus={"clip": (0.05,)}), copied) == []
    assert (copied / RESULTS).read_bytes() == before


def test_more_replications_leave_the_others_as_they_are(copied: Path) -> None:
    before = {path: path.read_bytes() for path in copied.glob("replications/*/*")}
    assert fulfil(request(replications=3), copied) == [("small-mnist", 3), ("label-noise", 3)]
    assert before == {path: path.read_bytes() for path in before}
    assert rows(copied).filter(pc.field("replication") == 3).column("seed").unique().to_pylist() == [6]
    assert {(one.origin.experiment, one.seed - one.replication) for one in stored_replications(copied)} == {
        ("small-mnist", 3), ("label-noise", 3),
    }  # fmt: skip


def test_results_that_were_published_without_their_single_files_are_continued(two_of_each: Path, copied: Path) -> None:
    for path in copied.glob("replications/*/*"):
        path.unlink()
    assert len(list(stored_replications(copied))) == 4
    assert fulfil(request(replications=3), copied) == [("small-mnist", 3), ("label-noise", 3)]
    for path in two_of_each.glob("replications/*/*"):
        assert pq.read_table(copied / path.relative_to(two_of_each)).equals(pq.read_table(path), check_metadata=True)
    assert rows(copied).filter(pc.field("replication") < 3).equals(rows(two_of_each))


def test_a_broken_results_file_alone_is_refused_and_beside_single_files_made_again(copied: Path) -> None:
    whole = rows(copied)
    (copied / RESULTS).write_bytes((copied / RESULTS).read_bytes()[:1000])
    assert fulfil(request(), copied) == []
    assert rows(copied).equals(whole)
    (copied / RESULTS).write_bytes((copied / RESULTS).read_bytes()[:1000])
    for path in copied.glob("replications/*/*"):
        path.unlink()
    with pytest.raises(StorageError, match=r"Cannot read .*results\.parquet"):
        plan(request(), copied)


@pytest.mark.parametrize(
    ("wider", "now_there"),
    first_few(
        1,
        [
            ({"raw": GRID}, {"clip": GRID, "raw": GRID}),
            ({"clip": (0.0, 0.1)}, {"clip": (0.0, 0.05, 0.1, math.inf)}),
            ({"clip": "all"}, {"clip": "all"}),
        ],
    ),
)
def test_more_mu_are_added_to_those_that_were_there(
    wider: Mapping[ContributionRule, Mus], now_there: Mapping[ContributionRule, Mus], copied: Path, tmp_path: Path
) -> None:
    """Only replications without it are computed again; the set is then as if everything was asked for at once."""
    one = request(scenarios={"label-noise": request().scenarios["label-noise"]}, replications=1, mus=wider)
    others = [path for path in copied.glob("replications/*/*") if "label-noise/00001" not in str(path)]
    before, kept = rows(copied), [path.read_bytes() for path in others]
    assert fulfil(one, copied) == [("label-noise", 1)]
    assert [path.read_bytes() for path in others] == kept
    assert fulfil(one, copied) == []
    assert fulfil(replace(one, mus={"clip": GRID}), copied) == [], "what was there still is"
    assert [held.mus for held in stored_replications(copied) if held.origin.experiment == "label-noise"] == [
        now_there, {"clip": GRID},
    ]  # fmt: skip
    now = rows(copied)
    if wider != {"clip": "all"}:  # intervals take the place of values
        assert {tuple(row.values()) for row in before.to_pylist()} <= {tuple(row.values()) for row in now.to_pylist()}
    fulfil(replace(one, mus=now_there), tmp_path / "at-once")
    assert rows(tmp_path / "at-once").equals(
        now.filter((pc.field("experiment") == "label-noise") & (pc.field("replication") == 1))
    )


def test_the_whole_axis_has_every_grid(small_results: Path) -> None:
    (stored, *_) = stored_replications(small_results)
    assert stored.covers({"clip": GRID, "raw": "all"})
    assert stored.covers({"raw": (0.123,)})


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ((0.0, 1.0), (0.5, 1.0), (0.0, 0.5, 1.0)),
        ((0.0,), "all", "all"),
        ("all", (math.inf,), "all"),
        ((0.0,), (-0.0,), (0.0,)),
    ],
)
def test_union_of_values_of_mu(one: Mus, other: Mus, both: Mus) -> None:
    assert union(one, other) == both


def test_values_of_mu_survive_the_file(tmp_path: Path) -> None:
    mus = (0.0, 1e-50, 0.1 + 0.2, 1e50, math.inf)
    asked = request(scenarios={"label-noise": small_federation(rounds=1)}, replications=1, mus={"raw": mus})
    assert len(fulfil(asked, tmp_path)) == 1
    (stored,), _ = read_results(tmp_path)
    assert stored.mus == {"raw": mus}
    assert fulfil(asked, tmp_path) == []


def test_data_are_read_once_for_all_experiments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    read = []
    load = replication.load_source
    monkeypatch.setattr(replication, "load_source", lambda name, directory: read.append(name) or load(name, directory))
    replication._source.cache_clear()
    planned = plan(replace(request(), data_directory=Path("data")), tmp_path)
    assert sorted(read) == ["mnist-5k", "uci-digits"]
    assert planned.tasks[0].data_directory == Path.cwd() / "data", "workers may be elsewhere"


def test_all_experiments_grow_together(tmp_path: Path) -> None:
    tasks = plan(request(replications=3), tmp_path).tasks
    assert [(task.experiment, task.replication) for task in tasks] == [
        (experiment, number) for number in (1, 2, 3) for experiment in ("small-mnist", "label-noise")
    ]


def diverging() -> Scenario:
    scenario = small_federation(rounds=2)
    return replace(scenario, learning=replace(scenario.learning, learning_rate=1e30))


@pytest.mark.parametrize("workers", [ONE_WORKER, TWO_WORKERS])
def test_an_error_of_a_worker_arrives_unchanged_and_ends_the_others(workers: Workers, tmp_path: Path) -> None:
    asked = request(scenarios={"small-mnist": small_federation(rounds=2), "label-noise": diverging()}, replications=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(FederationError, match=r"Training diverged: .*Lower learning_rate \(now 1e\+30\)"):
            fulfil(asked, tmp_path / "set", workers)
    assert not children(os.getpid())
    stored = list(stored_replications(tmp_path / "set"))
    assert {one.origin.experiment for one in stored} <= {"small-mnist"}
    assert not (tmp_path / "set/replications/label-noise").exists()


@pytest.mark.soak
def test_a_failure_here_ends_the_workers(tmp_path: Path) -> None:
    def full(stored: StoredReplication) -> None:
        raise InputError("the disk is full")

    asked = request(replications=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match="the disk is full"), result_directory(tmp_path):
            carry_out(asked, plan(asked, tmp_path), tmp_path, TWO_WORKERS, on_result=full)
    assert not children(os.getpid())
    assert len(list(stored_replications(tmp_path))) == 1


@pytest.mark.soak
def test_a_killed_worker_is_reported_and_finished_replications_are_kept(two_of_each: Path, tmp_path: Path) -> None:
    """As the system does when memory runs out."""

    def kill_one(stored: StoredReplication) -> None:
        os.kill(min(children(os.getpid())), signal.SIGKILL)

    asked = request(replications=40)  # so that there are workers left to kill after the first result
    with (
        pytest.raises(InputError, match=r"One of the 2 workers was killed.*with fewer workers"),
        result_directory(tmp_path),
    ):
        carry_out(asked, plan(asked, tmp_path), tmp_path, TWO_WORKERS, on_result=kill_one)
    assert not children(os.getpid())
    fulfil(request(), tmp_path)
    found = rows(tmp_path)
    assert found.filter(pc.field("replication") <= 2).equals(rows(two_of_each))


def test_a_worker_with_other_code_is_refused(copied: Path) -> None:
    asked = request(replications=3)

    def elsewhere(tasks: Sequence[ReplicationTask]):
        for result in ONE_WORKER(tasks[:1]):
            yield replace(result, code_version="0123456789abcdef")

    with pytest.raises(
        InputError, match=r"The worker that computed replication 3 of small-mnist has different code \(0123456789ab"
    ):
        fulfil(asked, copied, elsewhere)
    assert len(list(stored_replications(copied))) == 4


def test_a_worker_with_another_processor_is_refused_unless_accepted(copied: Path) -> None:
    asked = request(replications=3)

    def elsewhere(tasks: Sequence[ReplicationTask]):
        for result in ONE_WORKER(tasks[:1]):
            yield replace(result, cpu_kind="Abacus family 1")

    with pytest.raises(
        InputError, match=r"different kinds of processors.*Abacus family 1 and .*accept mixed processors"
    ):
        fulfil(asked, copied, elsewhere)
    with pytest.raises(InputError, match="different kinds of processors"):
        plan(asked, copied, cpu_kind="Abacus family 1")
    assert plan(request(), copied, cpu_kind="Abacus family 1").tasks == (), "nothing is to be computed"
    assert fulfil(replace(asked, mixed_cpus=True), copied, elsewhere) == [("small-mnist", 3)]
    with pytest.raises(InputError, match="different kinds of processors"):
        plan(request(), copied)


def rewrite(path: Path, **changes: object) -> None:
    """Change the metadata of its replication."""
    table = pq.read_table(path)
    document = json.loads(table.schema.metadata[b"commonweal"])
    document["replications"][0] |= changes
    pq.write_table(table.replace_schema_metadata({b"commonweal": json.dumps(document).encode()}), path)


@pytest.mark.parametrize(
    ("changes", "evidence"),
    [
        ({"mus": ["clip"]}, "label-noise/00001.parquet': 'list' object has no attribute 'items'. Remove that file"),
        ({"mus": {"clip": "some"}}, "could not convert string to float: 's'. Remove that file"),
        ({"mus": {"clip": None}}, "Cannot read"),
        ({"seconds": "soon"}, "could not convert string to float: 'soon'. Remove that file"),
        ({"replication": 7}, "00001.parquet' holds replication 7 of label-noise, which does not match its name. Move"),
        ({"code_version": "0" * 16 + "-" + "1" * 47}, "was computed with different code, and"),
        ({"code_version": "0" * 64}, "with an earlier version of commonweal, whose results cannot be combined"),
        ({"scenario_digest": "another"}, "with a different scenario, and"),
        ({"data_fingerprint": "another"}, "with different data, and"),
        ({"data_fingerprint": "another", "scenario_digest": "x"}, "with a different scenario and different data, and"),
    ],
)
def test_broken_metadata_and_other_versions_are_refused(
    changes: dict[str, object], evidence: str, copied: Path
) -> None:
    path = copied / "replications/label-noise/00001.parquet"
    rewrite(path, **changes)
    with pytest.raises(CommonwealError) as caught:
        plan(request(), copied)
    assert evidence in str(caught.value)
    if isinstance(caught.value, InputError):
        assert f"Replication 1 of label-noise in '{copied}' was computed with" in str(caught.value)
        assert "choose another folder" in str(caught.value).lower()


@pytest.mark.parametrize("length", [0, 4, 3000, -1, -4, -9])
def test_a_truncated_file_is_named_with_advice(length: int, copied: Path) -> None:
    path = copied / "replications/small-mnist/00002.parquet"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(StorageError) as caught:
        plan(request(), copied)
    assert str(caught.value).startswith(f"Cannot read '{path}': ")
    assert "Remove that file and run `commonweal reproduce` again; only that replication will" in str(caught.value)
    path.unlink()
    (copied / RESULTS).unlink()
    assert fulfil(request(), copied) == [("small-mnist", 2)]


def test_corrupt_bytes_inside_a_file_are_noticed(copied: Path) -> None:
    """The end of the file, where readers look first, is intact."""
    path = copied / "replications/small-mnist/00002.parquet"
    content = bytearray(path.read_bytes())
    content[200] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(StorageError, match=r"Cannot read .*00002\.parquet"):
        write_results(copied)
    (copied / RESULTS).write_bytes((copied / RESULTS).read_bytes()[:1000])
    with pytest.raises(StorageError, match=r"results\.parquet': .*\. Remove .*; its rows will be collected again"):
        read_results(copied)


def test_files_without_checksums_are_read(copied: Path) -> None:
    """As earlier versions wrote them."""
    before = rows(copied)
    for path in copied.glob("replications/*/*"):
        pq.write_table(pq.read_table(path), path)
    assert fulfil(request(), copied) == []
    assert rows(copied).equals(before)


def test_another_format_is_refused(copied: Path) -> None:
    path = copied / "replications/small-mnist/00001.parquet"
    metadata = {b"commonweal": json.dumps({"format": "commonweal.results/9"}).encode()}
    pq.write_table(pq.read_table(path).replace_schema_metadata(metadata), path)
    with pytest.raises(StorageError, match=r"'commonweal\.results/9', but this version reads commonweal\.results/1"):
        plan(request(), copied)
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(StorageError, match="Cannot read"):
        plan(request(), copied)


def test_a_folder_that_stays_empty_is_removed(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for name in ("there", "new/inner"):
        with result_directory(tmp_path / name):
            assert (tmp_path / name).is_dir()
    assert list(tmp_path.iterdir()) == [tmp_path / "there"]


def test_only_our_own_unfinished_files_are_removed(tmp_path: Path) -> None:
    ours = [tmp_path / ".1.unfinished", tmp_path / "replications/label-noise/.2.unfinished"]
    theirs = tmp_path / "other/.3.unfinished"
    for path in (*ours, theirs):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("half")
    with result_directory(tmp_path):
        assert not any(path.exists() for path in ours)
    assert theirs.exists()


def test_variations_are_experiments_and_give_what_separate_runs_give_to_the_bit(tmp_path: Path) -> None:
    text = small_federation_text(rounds=1)
    (tmp_path / "mine.toml").write_text(text)
    (tmp_path / "written.toml").write_text(
        text.replace("iteration_limit = 2", "iteration_limit = 2\nlearning_rate = 0.2")
    )
    settings = parse_settings(["learning.learning_rate=0.05,0.2"])
    varied = load_experiments([str(tmp_path / "mine.toml")], settings)
    both = {**varied, **load_experiments([str(tmp_path / "written.toml")], {})}
    asked = request(scenarios=both, replications=1)
    assert len(fulfil(asked, tmp_path / "set")) == 3
    found = rows(tmp_path / "set")
    low, high, written = (
        found.filter(pc.field("experiment") == name).drop_columns("experiment")
        for name in ("mine[learning_rate=0.05]", "mine[learning_rate=0.2]", "written")
    )
    assert high.equals(written)
    assert not high.equals(low)
    assert fulfil(asked, tmp_path / "set") == [], "they are found again"
    study = make_study(tmp_path / "set", None).study
    assert [one.name for one in study.experiments] == list(both)
    assert {one.description for one in study.experiments} == {"Four clients on built-in digits, one with bad labels."}
    assert study.title != "The paper's experiments, reproduced"
    assert not study.findings
    assert not study.alternative_findings


def made_up(experiment: str, number: int = 1) -> Replication:
    """A replication without rows."""
    task = ReplicationTask(
        experiment=experiment,
        replication=number,
        scenario=small_federation(),
        mus={"clip": (0.0,)},
        data_directory=None,
    )
    return Replication(
        task=task,
        rows=SCHEMA.empty_table(),
        code_version="0",
        data_fingerprint="0",
        cpu_kind="none",
        computed_round_count=1,
        seconds=1.0,
        processor_seconds=1.0,
        peak_memory_bytes=1,
    )


@pytest.mark.parametrize(
    "name", [".", "..", "../outside", "a/b", "mine[source=a b,x.y=1e-05]", "ä" * 60, "x" * 1000, "%2E"]
)
def test_any_name_is_found_again_below_the_folder_of_replications(name: str, tmp_path: Path) -> None:
    write_replication(tmp_path, made_up(name))
    (folder,) = (tmp_path / "replications").iterdir()
    assert [path.name for path in folder.iterdir()] == ["00001.parquet"]
    assert [one.origin.experiment for one in stored_replications(tmp_path)] == [name]


def test_experiments_follow_the_order_asked_for_with_their_variations_then_the_others_by_name(tmp_path: Path) -> None:
    ordered = ["b", "b[rate=0.5]", "b[rate=1e+1]", "a", "c[n=9]", "c[n=10]"]
    for name in sorted(ordered):
        for number in (2, 1):
            write_replication(tmp_path, made_up(name, number))
    write_results(tmp_path, order=("b", "a"))
    stored, _ = read_results(tmp_path)
    assert [(one.origin.experiment, one.replication) for one in stored] == [(n, r) for n in ordered for r in (1, 2)]


def test_results_of_earlier_versions_are_read_but_not_continued(copied: Path) -> None:
    for path in [copied / RESULTS, *copied.glob("replications/*/*")]:
        table = pq.read_table(path)
        document = json.loads(table.schema.metadata[b"commonweal"])
        del document["scenarios"]
        for one in document["replications"]:
            one["code_version"] = "0" * 64
        pq.write_table(table.replace_schema_metadata({b"commonweal": json.dumps(document).encode()}), path)
    study = make_study(copied, None).study
    assert [one.name for one in study.experiments] == ["small-mnist", "label-noise"]
    assert {one.description for one in study.experiments} == {""}, "the shipped ones are others"
    with pytest.raises(InputError, match=r"an earlier version of commonweal.*can still be read.*choose another folder"):
        plan(request(replications=3), copied)


def test_missing_results_are_reported(copied: Path, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"There is no results\.parquet in .*: run `commonweal reproduce` into this"):
        read_results(tmp_path)
    (copied / RESULTS).unlink()
    with pytest.raises(StorageError, match="run the command that made these replications again"):
        read_results(copied)
