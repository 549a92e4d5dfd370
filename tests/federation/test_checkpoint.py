"""A round's checkpoint writes what is new, and whenever the process dies, the last complete state is found again."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from commonweal.errors import CommonwealError
from commonweal.federation import checkpoint as module
from commonweal.federation.checkpoint import CHECKPOINT, CheckpointFile, remove_checkpoint
from commonweal.records import Event
from commonweal.remote.coordinator.federation_file import read_federation
from tests.remote.toy import NAMES, make_toy

ROUNDS = 4


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    toy = make_toy(
        tmp_path_factory.mktemp("checkpoint") / "f",
        names=NAMES[:2],
        rounds=ROUNDS,
        mechanism='mu = "inf"',
        learning="iteration_limit = 1",
    )
    toy.coordinate()
    return toy


@pytest.fixture(scope="module")
def rules(toy):
    return read_federation(toy.folder / "federation.toml").mechanism.rules


def opened(path):
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return json.loads(arrays.pop("document").tobytes()), arrays


def file_in(folder):
    """As a new process would open it."""
    return CheckpointFile(path=folder / CHECKPOINT, identity="this run")


@pytest.fixture(scope="module")
def completed(toy, rules):
    """The rounds of a federation, and its state after the last."""
    identity = opened(toy.out / CHECKPOINT)[0]["identity"]
    return CheckpointFile(path=toy.out / CHECKPOINT, identity=identity).load(rules)


def state_after(count):
    return {"count": np.array([count])}


@pytest.fixture
def three(completed, tmp_path):
    """A folder with the checkpoint of three rounds."""
    folder = tmp_path / "out"
    folder.mkdir()
    checkpoint = file_in(folder)
    for count in (1, 2, 3):
        checkpoint.save(completed[0][:count], state_after(count))
    return folder


def written(folder):
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.rglob("*.npz")}


def same(results, expected):
    """Rounds as they were, with what is not derived."""

    def facts(result):
        return result.record, result.profit_draws.tobytes(), result.events, result.signatures

    return list(map(facts, results)) == list(map(facts, expected))


@pytest.mark.parametrize("is_resumed", [False, True])
def test_only_the_new_round_and_the_state_are_written(completed, three, rules, is_resumed):
    results, _ = completed
    checkpoint = file_in(three)
    if is_resumed:
        checkpoint.load(rules)
    else:
        checkpoint.save(results[:3], state_after(3))
    before = written(three)
    checkpoint.save(results, state_after(4))
    assert {path.name for path, stamp in written(three).items() if before.get(path) != stamp} == {
        "round-0004.npz",
        CHECKPOINT,
    }
    found, state = file_in(three).load(rules)
    assert same(found, results)
    assert state["count"].tolist() == [4]


class DiedError(Exception):
    pass


@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("write", [1, 2])
def test_killed_at_any_write_it_continues_from_the_last_complete_state(
    completed, three, rules, monkeypatch, write, is_written
):
    results, _ = completed
    calls, original = [], module.write_atomically

    def dying(path, content, **options):
        calls.append(path.name)
        if len(calls) < write or is_written:
            original(path, content, **options)
        if len(calls) == write:
            raise DiedError

    checkpoint = file_in(three)
    checkpoint.load(rules)
    with monkeypatch.context() as patch:
        patch.setattr(module, "write_atomically", dying)
        with pytest.raises(DiedError):
            checkpoint.save(results[:4], state_after(4))
    assert calls == ["round-0004.npz", CHECKPOINT][:write]
    again = file_in(three)
    found, state = again.load(rules)
    count = 4 if (write, is_written) == (2, True) else 3
    assert same(found, results[:count])
    assert state["count"].tolist() == [count]
    if count == 3:  # the round is run again, and need not be the same to the bit
        other = replace(results[3], events=(Event(kind="absent", client="north", text="the second time"),))
        again.save([*found, other], state_after(4))
        found, state = file_in(three).load(rules)
        assert same(found, [*results[:3], other])


def test_a_checkpoint_in_one_file_continues_in_several(completed, three, rules, tmp_path):
    """As versions up to 0.1 wrote them."""
    results, _ = completed
    rounds, arrays = [], {"state/count": np.array([3])}
    for number in range(3):
        document, own = opened(three / "rounds" / f"round-{number + 1:04d}.npz")
        rounds.append(document["round"])
        arrays |= {f"{name}/{number}": array for name, array in own.items()}
    document, _ = opened(three / CHECKPOINT)
    document = {
        **{name: document[name] for name in ("identity", "parts", "rules_version")},
        "format": "commonweal.checkpoint/2",
        "rounds": rounds,
    }
    folder = tmp_path / "earlier"
    folder.mkdir()
    np.savez(folder / CHECKPOINT, document=np.frombuffer(json.dumps(document).encode(), np.uint8), **arrays)
    checkpoint = file_in(folder)
    found, state = checkpoint.load(rules)
    assert same(found, results[:3])
    assert state["count"].tolist() == [3]
    checkpoint.save([*found, results[3]], state_after(4))
    assert len(list((folder / "rounds").iterdir())) == 4
    found, _ = file_in(folder).load(rules)
    assert same(found, results)


def test_a_restored_checkpoint_ignores_later_round_files(completed, three, rules):
    results, _ = completed
    earlier = (three / CHECKPOINT).read_bytes()
    file_in(three).save(results[:4], state_after(4))
    (three / CHECKPOINT).write_bytes(earlier)
    found, _ = file_in(three).load(rules)
    assert same(found, results[:3])


def cut(path):
    path.write_bytes(path.read_bytes()[:100])


def swap(path):
    other = "round-0003.npz" if path.name != "round-0003.npz" else "round-0002.npz"
    shutil.copy(path.with_name(other), path)


@pytest.mark.parametrize("name", ["round-0001.npz", "round-0002.npz", "round-0003.npz"])
@pytest.mark.parametrize("damage", [lambda path: path.unlink(), cut, swap, lambda path: path.write_bytes(b"")])
def test_a_round_file_that_is_missing_or_another_is_refused(three, rules, name, damage):
    damage(three / "rounds" / name)
    with pytest.raises(CommonwealError, match=r"Cannot read checkpoint .*\. Start again in another folder") as refusal:
        file_in(three).load(rules)
    assert name in str(refusal.value)


def test_another_last_round_is_refused(completed, three, rules):
    """A round file of the same federation that was run again, without the state that belongs to it."""
    checkpoint = (three / CHECKPOINT).read_bytes()
    other = replace(completed[0][2], events=())
    file_in(three).save([*completed[0][:2], replace(other, signatures={})], state_after(3))
    (three / CHECKPOINT).write_bytes(checkpoint)
    with pytest.raises(CommonwealError, match=r"round-0003\.npz' is not the one that belongs to it"):
        file_in(three).load(rules)


def test_a_checkpoint_is_removed_with_its_rounds_and_nothing_else(three):
    (three / "rounds" / "notes.txt").write_text("mine")
    remove_checkpoint(three)
    assert [path.name for path in three.rglob("*")] == ["rounds", "notes.txt"]
    (three / "rounds" / "notes.txt").unlink()
    remove_checkpoint(three)
    assert not list(three.iterdir())
