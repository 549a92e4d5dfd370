"""The folder that a reader gets."""

from __future__ import annotations

import pytest

from commonweal.errors import StorageError
from commonweal.report import write
from tests.report import run_reports

NAMES = (
    "accuracy", "contributions", "decision-maps", "durations", "mean",
    "payments", "profits", "transfers", "tsfi", "tsw",
)  # fmt: skip


def test_everything_is_there(hospitals_folder):
    found = sorted(str(path.relative_to(hospitals_folder)) for path in hospitals_folder.rglob("*") if path.is_file())
    figures = [f"figures/{name}.{kind}" for name in NAMES for kind in ("png", "svg")]
    assert found == sorted([*figures, "history.json", "report.html"])


@pytest.mark.slow
def test_writing_again_says_what_was_written_and_changes_nothing(tmp_path):
    pair = run_reports.pair()
    first = write.write_all(pair, tmp_path)
    before = {path: path.read_bytes() for path in first}
    assert write.write_all(pair, tmp_path) == first
    assert {path: path.read_bytes() for path in first} == before
    assert sorted(first) == sorted(path for path in tmp_path.rglob("*") if path.is_file())


def test_a_folder_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(StorageError, match=r"Cannot write the report: the folder .*nowhere' does not exist"):
        write.write_all(run_reports.pair(), tmp_path / "nowhere")


def test_a_file_in_the_place_of_the_figures_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(write, "plots", lambda _: ())  # drawing takes seconds
    (tmp_path / "figures").write_text("mine")
    with pytest.raises(StorageError, match=r"Cannot write plots to .*figures': file exists"):
        write.write_all(run_reports.pair(), tmp_path)
    assert (tmp_path / "figures").read_text() == "mine"
