"""A member's home: all that it must not lose, on its own disk.

Every Flower message is answered by a new process, and SuperNodes are restarted, so nothing is kept in memory.

state.json    where the member stands, replaced whole
arrays/       models and memories, each named by its hash
log.txt       what the member did and told, a line each
statements/   what the operator signed, one file a round
withdraw      a notice that the member leaves after the next round it takes part in
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import re
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from commonweal.atomic_write import UNFINISHED, write_atomically
from commonweal.errors import FederationError
from commonweal.remote.messages.models import Model, fingerprint

FORMAT = "commonweal.home/1"
LOG, STATEMENTS = "log.txt", "statements"
_ARRAY = "array/"
_WAY_OUT = "see that the disk of `home` in the member's file has room and can be written to"


@dataclass(slots=True, kw_only=True)
class OpenRound:
    """A round that is not settled yet; `attempt` tells it from an earlier one that was broken off."""

    round_number: int
    attempt: str
    declared_count: int
    cost_count: int
    memory: str | None  # hash, after the last iteration
    has_notice: bool = False  # the coordinator was told that the member leaves after it
    steps: dict[str, int] = field(default_factory=dict)  # by iteration
    accuracies: dict[str, float] = field(default_factory=dict)  # by the hash of the model


@dataclass(slots=True, kw_only=True)
class MemberState:
    """Where a member stands."""

    book: str | None = None  # of the federation that it belongs to
    baseline: float | None = None  # ε: the accuracy that the next utility is measured from
    memory: str | None = None  # hash, after the last settled round
    withdrew: bool = False  # a round that heard its notice was settled
    under_way: OpenRound | None = None


class MemberStore:
    """The files of one member."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._arrays = path / "arrays"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One question at a time, even if an earlier one is still being worked on."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.path.chmod(0o700)  # its log and its state tell what it keeps to itself
            self._arrays.mkdir(exist_ok=True)
            (self.path / STATEMENTS).mkdir(exist_ok=True)
            descriptor = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise FederationError(
                f"a member's home must be a folder it can write to, got {error.strerror} for {str(self.path)!r}; "
                f"{_WAY_OUT}"
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            for left_over in self.path.rglob(f".*{UNFINISHED}"):  # of a process that was killed
                left_over.unlink(missing_ok=True)
            yield
        finally:
            os.close(descriptor)

    def load(self) -> MemberState:
        """Where the member stood last."""
        try:
            text = (self.path / "state.json").read_text()
        except FileNotFoundError:
            return MemberState()
        try:
            document = json.loads(text)
            if document.pop("format") != FORMAT:
                raise ValueError("another format")
            under_way = document.pop("under_way")
            return MemberState(**document, under_way=None if under_way is None else OpenRound(**under_way))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FederationError(
                f"a member's state must be whole and in the format {FORMAT}, got {error} in {str(self.path)!r}; bring "
                "it back from a copy of the home, or use the version that wrote it"
            ) from None

    def save(self, standing: MemberState) -> None:
        document = {"format": FORMAT, **asdict(standing)}
        write_atomically(
            self.path / "state.json", json.dumps(document, indent=1).encode(), what="a member's state", way_out=_WAY_OUT
        )

    def put(self, arrays: Model) -> str:
        """Keep arrays; their hash finds them again."""
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray) or array.dtype.hasobject:
                raise FederationError(
                    f"what is kept must be plain NumPy arrays, got {type(array).__name__} for {name!r}; let train "
                    "return and remember arrays of numbers"
                )
        digest = fingerprint(arrays)
        if not self._file(digest).exists():
            content = io.BytesIO()
            named: dict[str, Any] = {f"{_ARRAY}{name}": array for name, array in arrays.items()}
            np.savez(content, **named)  # prefixed, since NumPy has names of its own
            write_atomically(self._file(digest), content.getvalue(), what="a model", way_out=_WAY_OUT)
        return digest

    def get(self, digest: str | None) -> Model:
        """The arrays of a hash; none of no hash."""
        if digest is None:
            return {}
        try:
            with np.load(self._file(digest), allow_pickle=False) as archive:
                return {name.removeprefix(_ARRAY): archive[name] for name in archive.files}
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise FederationError(
                f"a member's home must keep what was put there, got {error} for {self._file(digest).name!r}; bring it "
                "back from a copy of the home"
            ) from None

    def lacks(self, digests: Iterable[str]) -> list[str]:
        return [digest for digest in digests if not self._file(digest).exists()]

    def forget_all_but(self, digests: Iterable[str | None]) -> None:
        kept = {self._file(digest) for digest in digests if digest is not None}
        for file in self._arrays.glob("*.npz"):
            if file not in kept:
                file.unlink(missing_ok=True)

    @property
    def wants_to_withdraw(self) -> bool:
        return (self.path / "withdraw").exists()

    def give_notice(self, wanted: bool) -> bool:
        """Say, or no longer say, that the member wants to withdraw; returns whether that is new."""
        notice = self.path / "withdraw"
        standing = self.load()
        if not wanted and (standing.withdrew or (standing.under_way is not None and standing.under_way.has_notice)):
            raise FederationError(
                "a notice can be taken back until a round has heard it, got one that was heard; ask the operator how "
                "to join again"
            )
        was_wanted = notice.exists()
        try:
            if wanted:
                self.path.mkdir(parents=True, exist_ok=True)
                notice.touch()
            else:
                notice.unlink(missing_ok=True)
        except OSError as error:
            raise FederationError(
                f"a member's home must be a folder it can write to, got {error.strerror} for {str(self.path)!r}; "
                f"{_WAY_OUT}"
            ) from None
        return wanted != was_wanted

    def log(self, line: str) -> None:
        """For the member to read; on the disk before anything is sent."""
        moment = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        line = "".join(letter if letter.isprintable() else " " for letter in line)  # some of it is the operator's text
        print(line, flush=True)
        try:
            with (self.path / LOG).open("a") as file:
                file.write(f"{moment} {line}\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise FederationError(
                f"a member's log must be writable, got {error.strerror} for {str(self.path)!r}; {_WAY_OUT}"
            ) from None

    def _file(self, digest: str) -> Path:
        if re.fullmatch(r"[0-9a-f]{64}", digest) is None:
            raise FederationError(f"arrays are named by a hash, got {digest[:80]!r}; ask for what was sent")
        return self._arrays / f"{digest}.npz"
