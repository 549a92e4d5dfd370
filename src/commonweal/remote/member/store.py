"""A member's folder (`home` in its file): everything that the member must not lose.

Nothing is kept in memory, since each message may be answered by a new process.

state.json    the member's state; always replaced as a whole
reports/      what the member signed, one file per round (see `report_book`)
arrays/       models and memories, each named by its hash
log.txt       what the member did and reported, one line each
statements/   what the operator signed, one file per round (see `kept_statements`)
account.json  what the statements come to
operator-head.json  the latest entry of the ledger that the operator signed when it opened a round
incoming.json what the operator signed, until it is kept, compared and logged (see `evidence`)
failed/       such files that the program failed to take in
withdraw      exists if the member withdraws after the next round that it takes part in
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

from commonweal.atomic_write import UNFINISHED, make_directory, sync_directory, write_atomically
from commonweal.errors import FederationError, InputError, StorageError
from commonweal.remote.messages.message import printable
from commonweal.task.models import fingerprint
from commonweal.task.records import Model

FORMAT = "commonweal.home/1"
LOG, STATEMENTS, OPERATOR_KEY, ACCOUNT = "log.txt", "statements", "operator.pub.pem", "account.json"
OPERATOR_HEAD, OPERATOR_HEADS, REPORTS = "operator-head.json", "operator-heads", "reports"
TRAILS, DOUBTFUL = "trails", "doubtful"  # the latter also below statements
ERROR = "ERROR"  # in the log: after the time of a line that tells of an error
_ARRAY = "array/"
_WAY_OUT = "Check that the folder named by `home` in the member's file is writable and its disk has space."


@dataclass(slots=True, kw_only=True)
class OpenRound:
    """A round that is not settled yet; `attempt` distinguishes it from one that was interrupted before."""

    round_number: int
    attempt: str
    declared_count: int
    cost_count: int
    memory: str | None  # hash, after the last iteration
    has_notice: bool = False  # the member sent its notice of withdrawal in this round
    alone: str | None = None  # hash of the model that it trains alone, after this round
    alone_memory: str | None = None
    steps: dict[str, int] = field(default_factory=dict)  # by iteration
    last_trained: list[str] = field(default_factory=list)  # hashes in the last iteration: model received, model sent
    accuracies: dict[str, float] = field(default_factory=dict)  # by the hash of the model
    validation_count: int = 0
    opening: str | None = None  # hash of the model that opened the round
    measures: dict[str, str] = field(default_factory=dict)  # hashes of scores or draws, by model, if gains are pooled
    measured_with: dict[str, str] = field(
        default_factory=dict
    )  # by model: hash of the memory that it was measured with
    terms: str | None = None  # hash of the ledger's terms; None: opened by a version that did not sign it
    first_baseline: float | None = None  # of a member without a settled round: the metric of the opening model
    first_alone: str | None = None  # and the hash of the model that it starts from alone


@dataclass(slots=True, kw_only=True)
class MemberState:
    """What a member knows between questions; the names of its fields are those in state.json."""

    book: str | None = None  # identity of the ledger of the federation that it belongs to
    baseline: float | None = None  # ε: the accuracy that the next utility is measured from
    memory: str | None = None  # hash, after the last settled round
    withdrew: bool = False  # a round with its notice was settled
    agreed: dict[str, Any] = field(default_factory=dict)  # what the clients' data have in common
    alone: str | None = None  # hash of the model that it trains alone, after the last settled round
    alone_memory: str | None = None
    settled_round: int = 0  # the last one that was settled with this member; it does not go back behind it
    settled_attempt: str = ""  # and the attempt that settled it
    settled_profit: float | None = None  # and the profit of that, if a statement says it
    pinned: dict[str, Any] = field(default_factory=dict)  # what its first questions fixed (see `pinned_settings`)
    under_way: OpenRound | None = None
    reported: list[OpenRound] = field(default_factory=list)  # earlier openings that were reported: one may be settled
    told_round: int = 0  # the last one whose outcome a statement tells that was kept
    missed_rounds: list[int] = field(default_factory=list)  # those that were settled without it, by such statements
    rates: dict[str, Any] = field(default_factory=dict)  # told by hash of terms; None: profits are private
    notices: list[int] = field(default_factory=list)  # the rounds after which it gave notice to withdraw
    adopted_statements: int | None = None  # how many of those kept were adopted; None: a version that did not count

    def openings(self) -> list[OpenRound]:
        """The rounds, or openings of one, that may turn out to be settled."""
        return [*([] if self.under_way is None else [self.under_way]), *self.reported]

    def arrays(self) -> list[str | None]:
        """The hashes of the arrays that the next question may need."""
        needed = [self.memory, self.alone, self.alone_memory]
        for opening in self.openings():
            needed += [opening.opening, opening.memory, opening.alone, opening.alone_memory, opening.first_alone]
            needed += opening.measures.values()
        return needed


class MemberStore:
    """The files of one member."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._arrays = path / "arrays"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for one question; others wait until it is answered."""
        try:
            for folder in (self.path, self._arrays, self.path / STATEMENTS):
                make_directory(folder, mode=0o700)
            self.path.chmod(0o700)  # log and state hold what the member keeps private
            descriptor = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise self._not_writable(self.path, error) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            for left_over in self.path.rglob(f".*{UNFINISHED}"):  # left by a process that was killed
                left_over.unlink(missing_ok=True)
            yield
        finally:
            os.close(descriptor)

    def load(self) -> MemberState:
        """The state as it was saved last; a new one if there is none."""
        try:
            text = (self.path / "state.json").read_text()
        except FileNotFoundError:
            if any(any((self.path / folder).glob("*.json")) for folder in (STATEMENTS, REPORTS)):
                raise StorageError(
                    f"{self.path / 'state.json'} is missing, but the folder has statements or reports. Without it the "
                    "member would measure from another baseline. Restore the folder from a backup; if there is none, "
                    "name another `home` in the member's file, between rounds, since it does not know what was signed "
                    "here, and keep this one as evidence."
                ) from None
            return MemberState()
        try:
            document = json.loads(text)
            if document.pop("format") != FORMAT:
                raise ValueError("another format")
            under_way, reported = document.pop("under_way"), document.pop("reported", None) or []
            if missed := document.pop("missed_round", None):  # earlier versions kept the last one; statements tell all
                document |= {"missed_rounds": [missed], "adopted_statements": None}
            return MemberState(
                **document,
                under_way=None if under_way is None else OpenRound(**under_way),
                # Earlier versions kept one.
                reported=[OpenRound(**each) for each in ([reported] if isinstance(reported, dict) else reported)],
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StorageError(
                f"Cannot read {self.path / 'state.json'}: it must be complete and in the format {FORMAT}, got {error}. "
                "Restore the folder from a backup, or use the version of commonweal that wrote it."
            ) from None

    def save(self, state: MemberState) -> None:
        document = {"format": FORMAT, **asdict(state)}
        write_atomically(
            self.path / "state.json", json.dumps(document, indent=1).encode(), what="a member's state", way_out=_WAY_OUT
        )

    def put(self, arrays: Model) -> str:
        """Store arrays under their hash, which is returned."""
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray) or array.dtype.hasobject:
                raise InputError(
                    f"train must return and remember plain NumPy arrays of numbers, got {_kind(array)} for {name!r}."
                )
        digest = fingerprint(arrays)
        if not self._file(digest).exists():
            content = io.BytesIO()
            named: dict[str, Any] = {f"{_ARRAY}{name}": array for name, array in arrays.items()}
            np.savez(content, **named)  # prefixed, since NumPy reserves some names
            write_atomically(self._file(digest), content.getvalue(), what="a model", way_out=_WAY_OUT)
        return digest

    def get(self, digest: str | None) -> Model:
        """The arrays with this hash; no arrays if there is no hash."""
        if digest is None:
            return {}
        try:
            with np.load(self._file(digest), allow_pickle=False) as archive:
                return {name.removeprefix(_ARRAY): archive[name] for name in archive.files}
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise StorageError(
                f"Cannot read {self._file(digest)}: {error}. Restore the folder from a backup."
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
        """Give notice that the member withdraws, or take it back; returns whether that changed anything."""
        notice = self.path / "withdraw"
        state = self.load()
        if not wanted and (state.withdrew or (state.under_way is not None and state.under_way.has_notice)):
            raise FederationError(
                "The notice of withdrawal cannot be taken back: it has been sent to the operator. Ask the operator how "
                "to join again."
            )
        was_wanted = notice.exists()
        try:
            if wanted:
                make_directory(self.path)
                notice.touch()
            else:
                notice.unlink(missing_ok=True)
            sync_directory(self.path)
        except OSError as error:
            raise self._not_writable(self.path, error) from None
        return wanted != was_wanted

    def log(self, line: str) -> None:
        """Add a line for the member to read; it is on the disk before anything is sent."""
        moment = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        line = printable(line, limit=len(line))  # part of it may be text from the operator
        print(line, flush=True)
        try:
            is_new = not (self.path / LOG).exists()
            with (self.path / LOG).open("a") as file:
                file.write(f"{moment} {line}\n")
                file.flush()
                os.fsync(file.fileno())
            if is_new:
                sync_directory(self.path)
        except OSError as error:
            raise self._not_writable(self.path / LOG, error) from None

    def _not_writable(self, path: Path, error: OSError) -> StorageError:
        return StorageError(f"Cannot write {path}: {(error.strerror or 'error').lower()}. {_WAY_OUT}")

    def _file(self, digest: str) -> Path:
        if re.fullmatch(r"[0-9a-f]{64}", digest) is None:
            raise FederationError(f"A model must be named by its hash, got {digest[:80]!r}.")
        return self._arrays / f"{digest}.npz"


def _kind(value: object) -> str:
    return f"an array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
