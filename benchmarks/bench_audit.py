"""How long does an audit of many rounds take?

Audits made figures of 1,000 rounds and 20 clients, on one core, under the paper's mechanism: from reading the file to
the finished report, without drawing. Of another mechanism, FLI, the time is shown. Exits with an error if a promise
below is broken.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from benchmarks.promises import Promise, conclude

from commonweal.audit.audit import RoundsAudit
from commonweal.audit.bounds import observed_bounds
from commonweal.audit.game import AuditedRound
from commonweal.decision.mechanisms import make_mechanism
from commonweal.figures_file import read_figures
from commonweal.records import Rules

ROUNDS, CLIENTS = 1000, 20
MOST_SECONDS = 60.0


def made_figures(path: Path, *, seed: int = 1) -> None:
    """Clients differ in what a gain is worth to them, and vary over rounds; about a third of profits are losses."""
    rng = np.random.default_rng(seed)
    worth, spent = rng.uniform(0.5, 1.5, CLIENTS), rng.uniform(0.01, 0.06, CLIENTS)
    lines = ["round,client,profit,cost,contribution"]
    for number in range(1, ROUNDS + 1):
        costs = spent * rng.uniform(0.8, 1.2, CLIENTS)
        profits = worth * rng.normal(0.06, 0.06, CLIENTS) - costs
        contributions = rng.normal(0.03, 0.03, CLIENTS)
        for client in range(CLIENTS):
            lines.append(
                f"{number},bank {client},{profits[client]:.6f},{costs[client]:.6f},{contributions[client]:.6f}"
            )
    path.write_text("\n".join(lines) + "\n")


def seconds(path: Path, rules: Rules) -> float:
    """Processor time of the audit, and what it found."""
    start = time.process_time()
    rounds = [AuditedRound(number=number, figures=figures) for number, figures in read_figures(path)]
    audit = RoundsAudit(mechanism=make_mechanism(rules), rounds=rounds, bounds=observed_bounds(rounds))
    report = audit.report(path.name)
    taken = time.process_time() - start
    found = ", ".join(f"{lie.name} {lie.gain.value:+.4f}" for lie in report.lies if lie.liar_count == 1)
    print(f"{report.mechanism_text}: {taken:.1f} s; {found}", flush=True)
    return taken


def main() -> int:
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rounds.csv"
        made_figures(path)
        promises = [
            Promise(
                text=f"seconds for {ROUNDS:,} rounds of {CLIENTS} clients, paper, mu {mu:g}",
                found=seconds(path, Rules(mu=mu)),
                less_than=MOST_SECONDS,
            )
            for mu in (0.05, 0.5)
        ]
        seconds(path, Rules(mu=np.inf, mechanism="fli"))
    return conclude(promises)


if __name__ == "__main__":
    sys.exit(main())
