"""A federation on disk after a round: one file, replaced whole, from which it goes on as if never interrupted.

The file is a NumPy archive (no pickles): what was held so far as JSON, bootstrap draws and the client set's state as
arrays. Decisions are not stored but made again from their figures: the same figures give the same decision.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from commonweal.atomic_write import write_atomically
from commonweal.decision.decide import decide_figures
from commonweal.errors import CommonwealError, StorageError
from commonweal.federation.client_set import State
from commonweal.federation.round_result import Measured, RoundResult
from commonweal.records import Estimate, Event, Figures, RoundRecord, Rules

FORMAT = "commonweal.checkpoint/2"
CHECKPOINT = "checkpoint.npz"  # among the results


@dataclass(frozen=True, slots=True, kw_only=True)
class Continued:
    """What is continued from a checkpoint, for the message to whoever gave something else."""

    what: str = "a run continues with the scenario and the data it was started with"
    way_out: str = "give the same scenario, mu, seed, rounds and data, or start anew in another folder"


A_RUN = Continued()


def save_checkpoint(path: Path, *, identity: str, held: Sequence[RoundResult], state: State) -> None:
    """Replace the checkpoint. `identity` names scenario and data: others cannot continue from it."""
    document = {"format": FORMAT, "identity": identity, "rounds": [_to_document(held_round) for held_round in held]}
    arrays: dict[str, Any] = {f"state/{name}": array for name, array in state.items()}
    for number, held_round in enumerate(held):
        arrays[f"profit_draws/{number}"] = held_round.profit_draws
        arrays[f"contribution_draws/{number}"] = held_round.contribution_draws
    arrays["document"] = np.frombuffer(json.dumps(document).encode(), np.uint8)
    content = io.BytesIO()
    np.savez(content, **arrays)
    write_atomically(
        path,
        content.getvalue(),
        what="the state after a round",
        way_out="make room there, then continue with --resume",
    )


def load_checkpoint(
    path: Path, *, identity: str, rules: Rules, what: Continued = A_RUN
) -> tuple[list[RoundResult], State]:
    """What was held, and the client set's state."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        document = json.loads(arrays.pop("document").tobytes())
        if document["format"] != FORMAT:
            raise StorageError(
                f"a checkpoint must be in the format {FORMAT}, got {document['format']!r} in {str(path)!r}; continue "
                "with the version that wrote it, or start anew in another folder"
            )
        if document["identity"] != identity:
            raise StorageError(f"{what.what}, got other ones than those of {str(path)!r}; {what.way_out}")
        held = [
            _from_document(
                rounds, rules, arrays.pop(f"profit_draws/{number}"), arrays.pop(f"contribution_draws/{number}")
            )
            for number, rounds in enumerate(document["rounds"])
        ]
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, CommonwealError):
            raise
        raise StorageError(
            f"a checkpoint must be readable, got {error} for {str(path)!r}; start anew in another folder"
        ) from None
    return held, {name.removeprefix("state/"): array for name, array in arrays.items()}


def _to_document(held: RoundResult) -> dict[str, Any]:
    decision = held.record.decision
    return {
        "round_number": held.record.round_number,
        "figures": asdict(decision.figures),
        "grace": decision.grace,
        "absent": held.record.absent,
        "withdrawn": held.record.withdrawn,
        "measured": {client: asdict(measured) for client, measured in held.measured.items()},
        "iteration_accuracies": held.iteration_accuracies,
        "coalition_values": [[coalition, asdict(value)] for coalition, value in held.coalition_values],
        "events": [asdict(event) for event in held.events],
        "signatures": dict(held.signatures),
        "withdrawals": dict(held.withdrawals),
    }


def _from_document(
    document: Mapping[str, Any], rules: Rules, profit_draws: np.ndarray, contribution_draws: np.ndarray
) -> RoundResult:
    decision = decide_figures(Figures(**document["figures"]), rules, grace=document["grace"])
    return RoundResult(
        record=RoundRecord(
            round_number=document["round_number"],
            decision=decision,
            absent=tuple(document["absent"]),
            withdrawn=tuple(document["withdrawn"]),
        ),
        measured={client: _measured(given) for client, given in document["measured"].items()},
        iteration_accuracies=tuple(document["iteration_accuracies"]),
        coalition_values=tuple(
            (tuple(coalition), Estimate(**value)) for coalition, value in document["coalition_values"]
        ),
        events=tuple(Event(**event) for event in document["events"]),
        signatures=document["signatures"],
        withdrawals=document["withdrawals"],
        profit_draws=profit_draws,
        contribution_draws=contribution_draws,
    )


def _measured(document: Mapping[str, Any]) -> Measured:
    estimates = {
        name: None if document[name] is None else Estimate(**document[name]) for name in ("accuracy", "utility")
    }
    return Measured(**{**document, **estimates})
