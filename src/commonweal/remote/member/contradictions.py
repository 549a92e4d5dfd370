"""Contradictions that a member found: between two things that the operator signed, or with what others were shown.

They are kept for good, one file each in `contradictions/`, since they prove something only together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from commonweal.atomic_write import write_atomically
from commonweal.remote.member.store import MemberStore

CONTRADICTION = "CONTRADICTION"  # how the line in the log begins
CONTRADICTIONS = "contradictions"
MOST_KEPT = 100


class Contradictions:
    """The contradictions in a member's folder. Call it only while the folder is locked."""

    def __init__(self, store: MemberStore) -> None:
        self._folder = store.path / CONTRADICTIONS

    def keep(self, text: str, evidence: Mapping[str, Any]) -> str:
        """Write a contradiction to the disk, once; returns the line for the member's log."""
        content = json.dumps({"text": text, "evidence": evidence}, indent=1, ensure_ascii=False).encode()
        files = self._files()
        same = next((file for file in files if file.read_bytes() == content), None)
        if same is None and len(files) >= MOST_KEPT:
            return f"{CONTRADICTION}: {text}. Not kept, since there are {len(files)} in {CONTRADICTIONS}"
        if same is None:
            self._folder.mkdir(exist_ok=True)
            same = self._folder / f"{len(files) + 1:04d}.json"
            write_atomically(same, content, what="a contradiction")
        return f"{CONTRADICTION}: {text}. Kept in {CONTRADICTIONS}/{same.name}"

    def in_words(self) -> str:
        """What the coordinator is told of them; empty if there is none."""
        files = self._files()
        if not files:
            return ""
        try:
            text = str(json.loads(files[-1].read_bytes())["text"])
        except (OSError, ValueError, KeyError, TypeError):
            text = files[-1].name
        return f"{text} (contradiction {len(files)} that this member found)"

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("[0-9]*.json"))
