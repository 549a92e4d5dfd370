"""A session on disk after each round, from which it continues as if never interrupted.

rounds/round-0001.npz   one file for each completed round, written once
checkpoint.npz          the state of the client set, and which round files belong to it; replaced as a whole

A round counts from the moment when checkpoint.npz names it. Each round file holds the hash of the one before it, and
checkpoint.npz that of the last one; a file that a killed process left after that is written anew.

The files are NumPy archives without pickles: rounds as JSON, bootstrap draws and the state of the client set as arrays.
Decisions and their stability are not stored but made again from figures and draws: the same figures give the same
decision.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from commonweal.atomic_write import UNFINISHED, write_atomically
from commonweal.decision.mechanism import RoundDecider
from commonweal.decision.mechanisms import make_mechanism
from commonweal.errors import StorageError, os_reason
from commonweal.federation.client_set import State
from commonweal.federation.evidence import measured_ending, measured_evidence
from commonweal.federation.round_result import ClientMeasurement, RoundResult
from commonweal.ledger.reports import ReportBasis, SignedReport
from commonweal.records import (
    Ending,
    Estimate,
    Event,
    Figures,
    HarmEvidence,
    Instructions,
    PairedGain,
    RoundGains,
    RoundRecord,
    Rules,
)
from commonweal.records.rounds import RULES_VERSION

FORMAT = "commonweal.checkpoint/3"
_IN_ONE_FILE = "commonweal.checkpoint/2"  # with all rounds; read, but no longer written
_ROUND_FORMAT = "commonweal.checkpoint-round/1"
CHECKPOINT = "checkpoint.npz"  # among the results
ROUNDS = "rounds"  # the folder of the round files, beside it
_DRAWS = ("profit_draws", "contribution_draws")
_OPTIONAL = ("effects", "expected_draws")
_MISMATCHES = {
    "scenario": "was written for a different scenario. Give the scenario, mu, seed and rounds that the run was started "
    "with, or start again in another folder.",
    "data": "was written for different data: the scenario is the same, but its data or its task is not. Give the "
    "data that the run was started with, or start again in another folder.",
    "mechanism": "was written with another content of the mechanism's file. Restore the file that the run was started "
    "with, or start again in another folder.",
}  # by the only part that differs


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFile:
    """Where a session is kept, and what it belongs to."""

    path: Path
    identity: str  # of the scenario and data, or of a federation file; only the same can continue from it
    mismatch: str = (
        "was written for a different scenario or different data. Give the scenario, mu, seed, rounds and data that the "
        "run was started with, or start again in another folder."
    )  # completes "Checkpoint X ..."
    parts: Mapping[str, str] = field(default_factory=dict)  # the digests that `identity` is made of, by name

    _saved: list[str] = field(default_factory=list, init=False, repr=False, compare=False)  # hashes of round files

    def save(self, results: Sequence[RoundResult], state: State) -> None:
        """Write the rounds that are new since the last time, then replace the checkpoint."""
        saved = self._saved[: len(results)]
        for number, result in enumerate(results[len(saved) :], start=len(saved)):
            content = archive(
                {"format": _ROUND_FORMAT, "previous": saved[-1] if saved else "", "round": _to_document(result)},
                {name: array for name in (*_DRAWS, *_OPTIONAL) if (array := getattr(result, name)) is not None},
            )
            self._write(self._round_file(number), content)
            saved.append(_hash(content))
        document = {
            "format": FORMAT,
            "identity": self.identity,
            "parts": dict(self.parts),
            "rules_version": results[0].record.decision.rules.version if results else RULES_VERSION,
            "round_count": len(results),
            "last_round": saved[-1] if saved else "",
        }
        self._write(self.path, archive(document, {f"state/{name}": array for name, array in state.items()}))
        self._saved[:] = saved

    def load(self, rules: Rules | Callable[[int], Rules]) -> tuple[list[RoundResult], State]:
        """The completed rounds, decided by the version of rules that they were decided by, and the clients' state.

        `rules` may be a function of the round, since rules may have been amended.
        """
        try:
            document, arrays = opened(self.path.read_bytes())
            if document["format"] not in (FORMAT, _IN_ONE_FILE):
                raise StorageError(
                    f"Checkpoint {str(self.path)!r} has the format {document['format']!r}; this version reads "
                    f"{FORMAT}. Continue with the version that wrote it, or start again in another folder."
                )
            if document["identity"] != self.identity:
                raise StorageError(f"Checkpoint {str(self.path)!r} {self._mismatch(document.get('parts', {}))}")
            version, decider = document.get("rules_version", 1), None
            if document["format"] == _IN_ONE_FILE:
                self._saved.clear()  # the next checkpoint writes a file for each round
                rounds = [(given, _taken(arrays, f"/{number}")) for number, given in enumerate(document["rounds"])]
            else:
                rounds = self._rounds(document["round_count"], document["last_round"])
            results = [
                _from_document(given, decider := _decider(rules, given["round_number"], version, decider), **own)
                for given, own in rounds
            ]
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise StorageError(
                f"Cannot read checkpoint {str(self.path)!r}: {error}. Start again in another folder."
            ) from None
        return results, {name.removeprefix("state/"): array for name, array in arrays.items()}

    def _rounds(self, count: int, last: str) -> list[tuple[Mapping[str, Any], dict[str, Any]]]:
        """The rounds that belong to a checkpoint, each with its arrays."""
        found, hashes = [], list[str]()
        for number in range(count):
            content = self._round_file(number).read_bytes()
            try:
                document, arrays = opened(content)
                if document["format"] != _ROUND_FORMAT or document["previous"] != (hashes[-1] if hashes else ""):
                    raise ValueError("it does not follow the one before it")
                found.append((document["round"], _taken(arrays)))
            except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
                raise ValueError(
                    f"round file {str(self._round_file(number))!r} is damaged or another ({error})"
                ) from None
            hashes.append(_hash(content))
        if (hashes[-1] if hashes else "") != last:
            raise ValueError(f"round file {str(self._round_file(count - 1))!r} is not the one that belongs to it")
        self._saved[:] = hashes
        return found

    def _round_file(self, place: int) -> Path:
        return self.path.with_name(ROUNDS) / f"round-{place + 1:04d}.npz"

    def _write(self, path: Path, content: bytes) -> None:
        what, way_out = "the state after a round", "free some space there, then resume"
        try:
            path.parent.mkdir(exist_ok=True)
        except OSError as error:
            raise StorageError(f"Cannot write {what} to {str(path)!r}: {os_reason(error)}.") from None
        write_atomically(path, content, what=what, way_out=way_out)

    def _mismatch(self, written: Mapping[str, str]) -> str:
        """What differs, if it is only one part; checkpoints of earlier versions have no parts."""
        different = [name for name, part in self.parts.items() if name in written and written[name] != part]
        return _MISMATCHES.get(different[0], self.mismatch) if len(different) == 1 else self.mismatch


def _decider(
    rules: Rules | Callable[[int], Rules], round_number: int, version: int, before: RoundDecider | None
) -> RoundDecider:
    """Decides a round by its rules, with the state after the round before."""
    own = rules(round_number) if callable(rules) else rules
    decider = RoundDecider(make_mechanism(replace(own, version=version)))
    if before is not None:
        decider.state = before.state
    return decider


def remove_checkpoint(directory: Path) -> None:
    """Remove the checkpoint of a results folder; the file without which its round files mean nothing goes first."""
    (directory / CHECKPOINT).unlink(missing_ok=True)
    for file in (directory / ROUNDS).glob("round-*.npz"):
        file.unlink(missing_ok=True)
    with suppress(OSError):  # it stays if there is something else in it
        (directory / ROUNDS).rmdir()


def remove_unfinished(directory: Path) -> None:
    """Remove what a process that was killed was about to write."""
    for left_over in (*directory.glob(f".*{UNFINISHED}"), *(directory / ROUNDS).glob(f".*{UNFINISHED}")):
        left_over.unlink(missing_ok=True)


def archive(document: Mapping[str, Any], arrays: Mapping[str, Any]) -> bytes:
    """A NumPy archive of arrays and a document in the types of JSON."""
    content = io.BytesIO()
    np.savez(content, **{**arrays, "document": np.frombuffer(json.dumps(document).encode(), np.uint8)})
    return content.getvalue()


def opened(content: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The document of an archive, and its arrays."""
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    return json.loads(arrays.pop("document").tobytes()), arrays


def _taken(arrays: dict[str, Any], ending: str = "") -> dict[str, Any]:
    """The arrays of a round, taken out of those of an archive, where `ending` follows their names."""
    draws = {name: arrays.pop(f"{name}{ending}") for name in _DRAWS}
    return draws | {name: arrays.pop(f"{name}{ending}", None) for name in _OPTIONAL}


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _to_document(result: RoundResult) -> dict[str, Any]:
    decision = result.record.decision
    return {
        "round_number": result.record.round_number,
        "figures": decision.figures.to_document(),
        "grace": decision.grace,
        "harmful": decision.harmful,
        "finished": decision.finished,
        "harm": [asdict(evidence) for evidence in result.record.harm],
        "ending": None if result.record.ending is None else asdict(result.record.ending),
        "absent": result.record.absent,
        "silent": result.record.silent,
        "excluded": result.record.excluded,
        "withdrawn": result.record.withdrawn,
        "measured": {client: asdict(measured) for client, measured in result.measured.items()},
        "iteration_accuracies": result.iteration_accuracies,
        "coalition_values": [[coalition, asdict(value)] for coalition, value in result.coalition_values],
        "events": [asdict(event) for event in result.events],
        "signatures": dict(result.signatures),
        "bases": {c: {**basis.to_document(), "terms": basis.terms} for c, basis in result.bases.items()},
        "unused_reports": {c: [each.to_document() for each in every] for c, every in result.unused_reports.items()},
        "withdrawals": dict(result.withdrawals),
        "gains": None if result.record.gains is None else asdict(result.record.gains),
        "settled_at": result.settled_at,
        **({"resting": result.record.resting} if result.record.resting else {}),
        **({"instructions": instructions} if (instructions := result.record.instructions.to_document()) else {}),
    }


def _from_document(document: Mapping[str, Any], decider: RoundDecider, **arrays: Any) -> RoundResult:
    measured = {client: measurement_of(given) for client, given in document["measured"].items()}
    state = decider.state
    decision = decider.decide(
        Figures(**document["figures"]),
        grace=document["grace"],
        sample_counts={client: one.sample_count for client, one in measured.items()},
        harmful=document.get("harmful", ()),
        finished=document.get("finished", False),
        round_number=document["round_number"],
    )
    return RoundResult(
        record=RoundRecord(
            round_number=document["round_number"],
            decision=decision,
            absent=tuple(document["absent"]),
            silent=tuple(document.get("silent", ())),
            excluded=tuple(document.get("excluded", ())),
            withdrawn=tuple(document["withdrawn"]),
            evidence=measured_evidence(
                decision,
                decider.mechanism,
                state,
                measured,
                round_number=document["round_number"],
                profit_draws=arrays["profit_draws"],
                contribution_draws=arrays["contribution_draws"],
                expected_draws=arrays["expected_draws"],
            ),
            gains=gains_of(document.get("gains")),
            harm=tuple(map(_harm, document.get("harm", ()))),
            ending=None if document.get("ending") is None else Ending(**document["ending"]),
            ending_stability=None
            if document.get("ending") is None
            else measured_ending(decision, measured, arrays["expected_draws"]),
            resting=tuple(document.get("resting", ())),
            instructions=Instructions.from_document(document.get("instructions", {})),
        ),
        measured=measured,
        iteration_accuracies=tuple(document["iteration_accuracies"]),
        coalition_values=tuple(
            (tuple(coalition), Estimate(**value)) for coalition, value in document["coalition_values"]
        ),
        events=tuple(Event(**event) for event in document["events"]),
        signatures=document["signatures"],
        withdrawals=document["withdrawals"],
        bases={c: ReportBasis.from_document(b, b["terms"]) for c, b in document.get("bases", {}).items()},
        unused_reports={
            c: tuple(map(SignedReport.from_document, every)) for c, every in document.get("unused_reports", {}).items()
        },
        settled_at=document.get("settled_at"),
        **arrays,
    )


def gains_of(document: Mapping[str, Any] | None) -> RoundGains | None:
    """The gains of a round from their document."""
    if document is None:
        return None
    table = {client: PairedGain(**row) for client, row in document["table"].items()}
    return RoundGains(**{**document, "table": table, "newcomers": tuple(document["newcomers"])})


def _harm(document: Mapping[str, Any]) -> HarmEvidence:
    return HarmEvidence(**{**document, "round_numbers": tuple(document["round_numbers"])})


def measurement_of(document: Mapping[str, Any]) -> ClientMeasurement:
    """What was measured of a client, from its document."""
    estimates = {
        name: None if document.get(name) is None else Estimate(**document[name])
        for name in ("accuracy", "utility", "alone", "actual_profit", "measured_profit")
    }
    return ClientMeasurement(**{**document, **estimates})
