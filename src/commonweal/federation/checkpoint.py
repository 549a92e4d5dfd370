"""A session on disk after each round: one file, replaced as a whole, from which it continues as if never interrupted.

The file is a NumPy archive without pickles: completed rounds as JSON, bootstrap draws and the state of the client set
as arrays. Decisions and their stability are not stored but made again from figures and draws: the same figures give
the same decision.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
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
from commonweal.ledger.reports import ReportBasis
from commonweal.records import (
    Ending,
    Estimate,
    Event,
    Figures,
    HarmEvidence,
    PairedGain,
    RoundGains,
    RoundRecord,
    Rules,
)
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
            for name in ("effects", "expected_draws"):
                if (array := getattr(result, name)) is not None:
                    arrays[f"{name}/{number}"] = array
        arrays["document"] = np.frombuffer(json.dumps(document).encode(), np.uint8)
        content = io.BytesIO()
        np.savez(content, **arrays)
        write_atomically(
            self.path, content.getvalue(), what="the state after a round", way_out="free some space there, then resume"
        )

    def load(self, rules: Rules | Callable[[int], Rules]) -> tuple[list[RoundResult], State]:
        """The completed rounds, decided by the version of rules that they were decided by, and the clients' state.

        `rules` may be a function of the round, since rules may have been amended.
        """
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
            version, decider = document.get("rules_version", 1), None
            results = [
                _from_document(
                    given,
                    decider := _decider(rules, given["round_number"], version, decider),
                    profit_draws=arrays.pop(f"profit_draws/{number}"),
                    contribution_draws=arrays.pop(f"contribution_draws/{number}"),
                    effects=arrays.pop(f"effects/{number}", None),
                    expected_draws=arrays.pop(f"expected_draws/{number}", None),
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


def _decider(
    rules: Rules | Callable[[int], Rules], round_number: int, version: int, before: RoundDecider | None
) -> RoundDecider:
    """Decides a round by its rules, with the state after the round before."""
    own = rules(round_number) if callable(rules) else rules
    decider = RoundDecider(make_mechanism(replace(own, version=version)))
    if before is not None:
        decider.state = before.state
    return decider


def _to_document(result: RoundResult) -> dict[str, Any]:
    decision = result.record.decision
    return {
        "round_number": result.record.round_number,
        "figures": asdict(decision.figures),
        "grace": decision.grace,
        "harmful": decision.harmful,
        "finished": decision.finished,
        "harm": [asdict(evidence) for evidence in result.record.harm],
        "ending": None if result.record.ending is None else asdict(result.record.ending),
        "absent": result.record.absent,
        "withdrawn": result.record.withdrawn,
        "measured": {client: asdict(measured) for client, measured in result.measured.items()},
        "iteration_accuracies": result.iteration_accuracies,
        "coalition_values": [[coalition, asdict(value)] for coalition, value in result.coalition_values],
        "events": [asdict(event) for event in result.events],
        "signatures": dict(result.signatures),
        "bases": {c: {**basis.to_document(), "terms": basis.terms} for c, basis in result.bases.items()},
        "withdrawals": dict(result.withdrawals),
        "gains": None if result.record.gains is None else asdict(result.record.gains),
    }


def _from_document(document: Mapping[str, Any], decider: RoundDecider, **arrays: Any) -> RoundResult:
    measured = {client: _measurement(given) for client, given in document["measured"].items()}
    state = decider.state
    decision = decider.decide(
        Figures(**document["figures"]),
        grace=document["grace"],
        sample_counts={client: one.sample_count for client, one in measured.items()},
        harmful=document.get("harmful", ()),
        finished=document.get("finished", False),
    )
    return RoundResult(
        record=RoundRecord(
            round_number=document["round_number"],
            decision=decision,
            absent=tuple(document["absent"]),
            withdrawn=tuple(document["withdrawn"]),
            evidence=measured_evidence(
                decision,
                decider.mechanism,
                state,
                measured,
                profit_draws=arrays["profit_draws"],
                contribution_draws=arrays["contribution_draws"],
                expected_draws=arrays["expected_draws"],
            ),
            gains=_gains(document.get("gains")),
            harm=tuple(map(_harm, document.get("harm", ()))),
            ending=None if document.get("ending") is None else Ending(**document["ending"]),
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
        **arrays,
    )


def _gains(document: Mapping[str, Any] | None) -> RoundGains | None:
    if document is None:
        return None
    table = {client: PairedGain(**row) for client, row in document["table"].items()}
    return RoundGains(**{**document, "table": table, "newcomers": tuple(document["newcomers"])})


def _harm(document: Mapping[str, Any]) -> HarmEvidence:
    return HarmEvidence(**{**document, "round_numbers": tuple(document["round_numbers"])})


def _measurement(document: Mapping[str, Any]) -> ClientMeasurement:
    estimates = {
        name: None if document.get(name) is None else Estimate(**document[name])
        for name in ("accuracy", "utility", "alone", "actual_profit", "measured_profit")
    }
    return ClientMeasurement(**{**document, **estimates})
