"""Does quickstart tell the same story whatever the seed?

    python -m benchmarks.quickstart_seeds [--seeds 10]

The bank that mislabels and the one that is costly must be eliminated, and no other one: to the last round, or until the
federation is finished. Nobody may be eliminated by a decision that fewer than half of the draws confirm.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace

import torch
from benchmarks.promises import Promise, conclude

from commonweal.federation.session import run_rounds
from commonweal.scenario.shipped import load
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.simulated_task import task_of

MUST_GO = {"summit", "lakeside"}
SHARE = 0.8  # of the seeds
SMALLEST_STABILITY = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Elimination:
    """One client, and the share of the draws that confirm its fate."""

    client: str
    round_number: int
    stability: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    torch.set_num_threads(1)
    told, stabilities = 0, []
    for seed in range(1, options.seeds + 1):
        eliminations, ended = _run(seed)
        told += {one.client for one in eliminations} == MUST_GO
        stabilities += [one.stability for one in eliminations]
        gone = ", ".join(f"{one.client} in round {one.round_number} ({one.stability:.0%})" for one in eliminations)
        print(f"seed {seed}: eliminated {gone or 'nobody'}; {ended}", flush=True)
    story = f"share of {options.seeds} seeds that tell the story"
    return conclude(
        [
            Promise(text=story, found=told / options.seeds, at_least=SHARE),
            Promise(text="smallest stability of an elimination", found=min(stabilities), at_least=SMALLEST_STABILITY),
        ]
    )


def _run(seed: int) -> tuple[list[Elimination], str]:
    scenario = replace(load("quickstart"), seed=seed)
    eliminations, ended = [], "to the last round"
    with InProcessClients(scenario, task_of(scenario, None)) as clients:
        for result in run_rounds(clients, scenario):
            record = result.record
            for client in record.decision.eliminated:
                stability = record.stability_of(client)
                assert stability is not None, "figures are forecast, so fates have a stability"
                eliminations.append(
                    Elimination(
                        client=client,
                        round_number=record.round_number,
                        stability=stability.same_count / stability.draw_count,
                    )
                )
            if record.ending is not None:
                ended = f"finished after round {record.round_number}"
    return eliminations, ended


if __name__ == "__main__":
    sys.exit(main())
