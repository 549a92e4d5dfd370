"""The folder that a reader gets."""

from __future__ import annotations

import shutil

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


def test_writing_the_same_run_again_says_what_was_written_and_changes_no_byte(hospitals_folder, tmp_path):
    shutil.copytree(hospitals_folder, tmp_path, dirs_exist_ok=True)
    written = write.write_all(run_reports.hospitals(), tmp_path)
    assert sorted(written) == sorted(path for path in tmp_path.rglob("*") if path.is_file())
    for path in written:
        assert path.read_bytes() == (hospitals_folder / path.relative_to(tmp_path)).read_bytes(), path
        assert b"<dc:date>" not in path.read_bytes()


def test_a_folder_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(StorageError, match=r"Cannot write the report: the folder .*nowhere' does not exist"):
        write.write_all(run_reports.pair(), tmp_path / "nowhere")


def test_a_file_in_the_place_of_the_figures_is_refused(tmp_path, monkeypatch, words_only):
    monkeypatch.setattr(write, "plots", lambda _: ())  # drawing takes seconds
    (tmp_path / "figures").write_text("mine")
    with pytest.raises(StorageError, match=r"Cannot write plots to .*figures': file exists"):
        write.write_all(run_reports.pair(), tmp_path)
    assert (tmp_path / "figures").read_text() == "mine"
