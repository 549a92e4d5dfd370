"""A session on disk after each round: one file, replaced as a whole, from which it continues as if never interrupted.

The file is a NumPy archive without pickles: completed rounds as JSON, bootstrap draws and the state of the client set
as arrays. Decisions and their stability are not stored but made again from figures and draws: the same figures give
the same decision.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from commonweal.atomic_write import write_atomically
from commonweal.decision.mechanism import RoundDecider
from commonweal.decision.mechanisms import make_mechanism
from commonweal.errors import StorageError
from commonweal.federation.client_set import State
from commonweal.federation.evidence import measured_evidence
from commonweal.federation.round_result import ClientMeasurement, RoundResult
from commonweal.records import Estimate, Event, Figures, RoundGains, RoundRecord, Rules
from commonweal.records.rounds import RULES_VERSION

FORMAT = "commonweal.checkpoint/2"
CHECKPOINT = "checkpoint.npz"  # among the results
_MISMATCHES = {
    "scenario": "was written for a different scenario. Give the scenario, mu, seed and rounds that the run was started "
    "with, or start again in another folder.",
    "data": "was written for different data: the scenario is the same, but its data or its task is not. Give the "
    "data that the run was started with, or start again in another folder.",
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

    def save(self, results: Sequence[RoundResult], state: State) -> None:
        """Replace the file."""
        rounds = [_to_document(result) for result in results]
        document = {
            "format": FORMAT,
            "identity": self.identity,
            "parts": dict(self.parts),
            "rules_version": results[0].record.decision.rules.version if results else RULES_VERSION,
            "rounds": rounds,
        }
        arrays: dict[str, Any] = {f"state/{name}": array for name, array in state.items()}
        for number, result in enumerate(results):
            arrays[f"profit_draws/{number}"] = result.profit_draws
            arrays[f"contribution_draws/{number}"] = result.contribution_draws
            for name, draws in (("gain_draws", result.gain_draws), ("expected_draws", result.expected_draws)):
                if draws is not None:
                    arrays[f"{name}/{number}"] = draws
            if result.effects is not None:
                arrays[f"effects/{number}"] = result.effects
        arrays["document"] = np.frombuffer(json.dumps(document).encode(), np.uint8)
        content = io.BytesIO()
        np.savez(content, **arrays)
        write_atomically(
            self.path, content.getvalue(), what="the state after a round", way_out="free some space there, then resume"
        )

    def load(self, rules: Rules) -> tuple[list[RoundResult], State]:
        """The completed rounds, decided by the version of rules that they were decided by, and the clients' state."""
        try:
            with self.path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            document = json.loads(arrays.pop("document").tobytes())
            if document["format"] != FORMAT:
                raise StorageError(
                    f"Checkpoint {str(self.path)!r} has the format {document['format']!r}; this version reads "
                    f"{FORMAT}. Continue with the version that wrote it, or start again in another folder."
                )
            if document["identity"] != self.identity:
                raise StorageError(f"Checkpoint {str(self.path)!r} {self._mismatch(document.get('parts', {}))}")
            decider = RoundDecider(make_mechanism(replace(rules, version=document.get("rules_version", 1))))
            results = [
                _from_document(
                    given,
                    decider,
                    profit_draws=arrays.pop(f"profit_draws/{number}"),
                    contribution_draws=arrays.pop(f"contribution_draws/{number}"),
                    gain_draws=arrays.pop(f"gain_draws/{number}", None),
                    expected_draws=arrays.pop(f"expected_draws/{number}", None),
                    effects=arrays.pop(f"effects/{number}", None),
                )
                for number, given in enumerate(document["rounds"])
            ]
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise StorageError(
                f"Cannot read checkpoint {str(self.path)!r}: {error}. Start again in another folder."
            ) from None
        return results, {name.removeprefix("state/"): array for name, array in arrays.items()}

    def _mismatch(self, written: Mapping[str, str]) -> str:
        """What differs, if it is only one part; checkpoints of earlier versions have no parts."""
        different = [name for name, part in self.parts.items() if name in written and written[name] != part]
        return _MISMATCHES.get(different[0], self.mismatch) if len(different) == 1 else self.mismatch


def _to_document(result: RoundResult) -> dict[str, Any]:
    decision, gains = result.record.decision, result.record.gains
    return {
        "round_number": result.record.round_number,
        "figures": asdict(decision.figures),
        "grace": decision.grace,
        "absent": result.record.absent,
        "withdrawn": result.record.withdrawn,
        "measured": {client: asdict(measured) for client, measured in result.measured.items()},
        "iteration_accuracies": result.iteration_accuracies,
        "coalition_values": [[coalition, asdict(value)] for coalition, value in result.coalition_values],
        "events": [asdict(event) for event in result.events],
        "signatures": dict(result.signatures),
        "withdrawals": dict(result.withdrawals),
        "gains": None if gains is None else gains.to_document(result.record.round_number),
    }


def _from_document(document: Mapping[str, Any], decider: RoundDecider, **arrays: Any) -> RoundResult:
    measured = {client: _measurement(given) for client, given in document["measured"].items()}
    state = decider.state
    decision = decider.decide(
        Figures(**document["figures"]),
        grace=document["grace"],
        sample_counts={client: one.sample_count for client, one in measured.items()},
    )
    return RoundResult(
        record=RoundRecord(
            round_number=document["round_number"],
            decision=decision,
            absent=tuple(document["absent"]),
            withdrawn=tuple(document["withdrawn"]),
            gains=RoundGains.from_document(document["gains"]) if document.get("gains") else None,
            evidence=measured_evidence(
                decision,
                decider.mechanism,
                state,
                measured,
                profit_draws=arrays["profit_draws"],
                contribution_draws=arrays["contribution_draws"],
                expected_draws=arrays["expected_draws"],
            ),
        ),
        measured=measured,
        iteration_accuracies=tuple(document["iteration_accuracies"]),
        coalition_values=tuple(
            (tuple(coalition), Estimate(**value)) for coalition, value in document["coalition_values"]
        ),
        events=tuple(Event(**event) for event in document["events"]),
        signatures=document["signatures"],
        withdrawals=document["withdrawals"],
        **arrays,
    )


def _measurement(document: Mapping[str, Any]) -> ClientMeasurement:
    estimates = {
        name: None if document.get(name) is None else Estimate(**document[name])
        for name in ("accuracy", "utility", "alone", "measured_profit", "actual_profit")
    }
    return ClientMeasurement(**{**document, **estimates})
