"""Temporary folders lie in memory only where there is plenty of it."""

from __future__ import annotations

from tests import in_memory


def test_the_folder_is_used_if_it_has_room(tmp_path, monkeypatch):
    monkeypatch.setattr(in_memory, "FOLDER", tmp_path)
    monkeypatch.setattr(in_memory, "NEEDED_BYTES", 1)
    assert in_memory.folder_in_memory() == tmp_path
    monkeypatch.setattr(in_memory, "NEEDED_BYTES", 2**80)
    assert in_memory.folder_in_memory() is None


def test_a_system_without_it_has_none(tmp_path, monkeypatch):
    monkeypatch.setattr(in_memory, "FOLDER", tmp_path / "none")
    assert in_memory.folder_in_memory() is None
