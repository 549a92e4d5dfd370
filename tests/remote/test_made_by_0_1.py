"""A federation that version 0.1.0 ran until it was killed in round 3 continues, to the same ledger."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from commonweal.cli.main import app
from commonweal.errors import CommonwealError, StorageError
from commonweal.remote.member.store import MemberStore
from tests.remote.toy import NAMES, open_toy, settled

MADE = Path(__file__).parent / "made_by_0_1"


@pytest.fixture
def toy(tmp_path):
    with zipfile.ZipFile(MADE / "federation.zip") as archive:
        archive.extractall(tmp_path)
    for key in [*tmp_path.glob("members/*/node-key"), *tmp_path.glob("operator-keys/*.pem")]:
        key.chmod(0o600)
    return open_toy(tmp_path)


def test_it_continues_where_it_was_killed(toy):
    run_report, said = toy.coordinate()
    assert said[0] == "resuming after round 2"
    expected = json.loads((MADE / "settled.json").read_text())
    assert {str(number): entry for number, entry in settled(toy.out).items()} == expected
    assert [round_.record.decision.eliminated for round_ in run_report.rounds] == [("south",), (), (), ("west",)]
    for name in NAMES:
        assert "DOUBTFUL" not in (toy.home(name) / "log.txt").read_text()


def test_statements_of_the_first_version_are_the_start_of_those_that_follow(toy):
    """They have all lines each, some in other words; later ones continue them with what is new."""
    folder = toy.home("north") / "statements"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert sorted(before) == ["round-0001.json", "round-0002.json"]
    toy.coordinate()
    files = sorted(folder.glob("*.json"))
    assert [path.name for path in files] == [f"round-000{number}.json" for number in (1, 2, 3, 4)]
    assert {name: (folder / name).read_bytes() for name in before} == before
    (other,) = (folder / "doubtful").iterdir()
    assert other.name.startswith("other-round-0002-"), "told again after the update, in today's words"
    documents = [json.loads(path.read_text())["document"] for path in files]
    kinds = [document["format"] for document in documents]
    assert kinds == ["commonweal.statement/1"] * 2 + ["commonweal.statement-part/1"] * 2
    assert len(documents[3]["lines"]) == 1
    assert documents[3]["after"]["count"] == len(documents[1]["lines"]) + 2
    against = [word for file in files for word in ("--against", str(file))]
    verified = CliRunner().invoke(app, ["ledger", "verify", str(toy.out / "ledger.db"), *against])
    assert verified.exit_code == 0, verified.output


def test_a_members_folder_is_read(toy):
    state = MemberStore(toy.home("north")).load()
    assert state.under_way.round_number == 3
    assert 0 < state.baseline < 1
    assert MemberStore(toy.home("north")).get(state.memory)["seen"].tolist() == [2, 2]


def test_a_members_folder_in_another_format_is_refused_with_advice(toy):
    file = toy.home("north") / "state.json"
    file.write_text(file.read_text().replace("commonweal.home/1", "commonweal.home/9"))
    with pytest.raises(StorageError, match=r"format commonweal\.home/1.* use the version of commonweal that wrote it"):
        MemberStore(toy.home("north")).load()


def test_a_checkpoint_in_another_format_is_refused_with_advice(toy):
    file = toy.out / "checkpoint.npz"
    with np.load(file) as archive:
        arrays = {name: archive[name] for name in archive.files}
    np.savez(file, **{f"{name}-of-another-version": array for name, array in arrays.items()})
    with pytest.raises(CommonwealError, match="checkpoint") as refusal:
        toy.coordinate()
    assert str(file) in str(refusal.value)
    assert not toy.transport.sent, "nobody was asked anything"
