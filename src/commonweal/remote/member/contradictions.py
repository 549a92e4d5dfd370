"""Contradictions that a member found: between two things that the operator signed, or with what others were shown.

They are kept for good, one file each in `contradictions/`, since they prove something only together. There is room for
each kind, so that many of one kind, which may cost the operator nothing, do not keep out another.

contradictions-logged.txt   the number of the last one that was logged: after a crash, the next question logs the others
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from commonweal.atomic_write import make_directory, write_atomically
from commonweal.ledger.canonical import hash_of
from commonweal.remote.member.store import MemberStore

CONTRADICTION = "CONTRADICTION"  # how the line in the log begins
CONTRADICTIONS, LOGGED = "contradictions", "contradictions-logged.txt"
MOST_KEPT = 100  # of a kind


class Contradictions:
    """The contradictions in a member's folder. Call it only while the folder is locked."""

    def __init__(self, store: MemberStore) -> None:
        self._folder = store.path / CONTRADICTIONS
        self._mark = store.path / LOGGED

    def keep(self, text: str, evidence: Mapping[str, Any], *, kind: str = "other", most: int = MOST_KEPT) -> str:
        """Write a contradiction to the disk, once; returns the line for the member's log.

        Up to `most` of its kind are kept.
        """
        document = {"kind": kind, "text": text, "evidence": evidence}
        content = json.dumps(document, indent=1, ensure_ascii=False).encode(errors="surrogatepass")
        files, count = self._files(), 0
        for file in files:
            before = _read(file)
            if (before.get("text"), before.get("evidence")) == (text, json.loads(content)["evidence"]):
                return _line(text, file)
            count += before.get("kind") == kind
        if count >= most:
            return f"{CONTRADICTION}: {text}. Not kept, since there are {count} of this kind in {CONTRADICTIONS}"
        number = 1 + max(
            self._logged(), *map(_number, files), 0
        )  # not their count: the member may have moved some away
        new = self._folder / f"{number:04d}-{hash_of(content)[:16]}.json"
        make_directory(self._folder)
        write_atomically(new, content, what="a contradiction")
        return _line(text, new)

    def unlogged(self) -> list[str]:
        """The lines of those that were kept and not logged: the program was killed in between."""
        logged = self._logged()
        return [_line(_text(file), file) for file in self._files() if _number(file) > logged]

    def mark_logged(self) -> None:
        """Call it when the lines of all that are kept have been logged."""
        last = max(map(_number, self._files()), default=0)
        if last > self._logged():
            write_atomically(self._mark, f"{last}\n".encode(), what="which contradictions were logged")

    def _logged(self) -> int:
        with suppress(OSError, ValueError):
            return int(self._mark.read_text())
        return 0

    def in_words(self) -> str:
        """What the coordinator is told of them; empty if there is none."""
        files = self._files()
        if not files:
            return ""
        return f"{_text(files[-1])} (contradiction {len(files)} that this member found)"

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("[0-9]*.json"), key=lambda file: (_number(file), file.name))


def _line(text: str, file: Path) -> str:
    return f"{CONTRADICTION}: {text}. Kept in {CONTRADICTIONS}/{file.name}"


def _text(file: Path) -> str:
    return str(_read(file).get("text", file.name))


def _number(file: Path) -> int:
    digits = file.stem.partition("-")[0]
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else 0


def _read(file: Path) -> dict[str, Any]:
    """A contradiction; nothing if the file is damaged."""
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}
