"""A small scenario, its undisturbed run, and running processes of it."""

from __future__ import annotations

import contextlib
import json
import subprocess

from tests.cli.conftest import COMMAND, run_here
from tests.made_once import made_once

ROUND_COUNT = 4
SMALL = f"""
name = "small"
description = "four rounds of three clients"
rounds = {ROUND_COUNT}
seed = 3
[mechanism]
mu = 0.2
contribution = "shapley"
[learning]
algorithm = "fedbn"
iteration_limit = 3
[defaults]
source = "mnist-5k"
samples_per_round = 60
cost_per_sample = 2e-4
[[clients]]
name = "north"
[[clients]]
name = "south"
defect = {{ kind = "label-noise", probability = 0.5 }}
[[clients]]
name = "west"
"""


def undisturbed(tmp_path_factory):
    """The folder of a finished run; not to be changed. What it printed is in `said`, beside it."""

    def run(folder):
        (folder / "said").write_text(finished_run(folder, "--out", "run").stdout)

    return made_once(tmp_path_factory, "undisturbed-run", run) / "run"


def finished_run(folder, *arguments):
    (folder / "small.toml").write_text(SMALL)
    done = run_here(["run", "small.toml", *arguments], folder)
    assert done.returncode == 0, done.stderr
    return done


@contextlib.contextmanager
def running(folder, *arguments):
    """The command in a process of its own, which does not outlive the block."""
    with subprocess.Popen(
        [COMMAND, *map(str, arguments)], cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_round(process, number):
    """Read the run's lines until this round is safe."""
    for line in process.stderr:
        if line.startswith(f"round {number}/"):
            return
    raise AssertionError(f"the run ended before round {number}")


def results(directory):
    """All files of a run by content, except those with times in them: checkpoint and ledger."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.suffix not in (".npz", ".db")
    }


def entries(directory):
    """The ledger's entries: kind, body and postings, so no times and nothing that depends on them."""
    done = run_here(["ledger", "show", "ledger.db", "--json"], directory)
    assert done.returncode == 0, done.stderr
    contents = [json.loads(line)["content"] for line in done.stdout.splitlines()]
    return [(content["kind"], content["body"], content["postings"]) for content in contents]


def settled_rounds(directory):
    """Settled rounds without the clients' signatures, which name the ledger."""
    stripped = []
    for kind, body, postings in entries(directory):
        if kind == "round":
            inputs = [{name: value for name, value in row.items() if name != "signature"} for row in body["inputs"]]
            stripped.append((body | {"inputs": inputs}, postings))
    return stripped
