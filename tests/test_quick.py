"""`make quick` notices every way in which our tests start processes or train."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CHILD = """
import multiprocessing, os, subprocess, sys
import pytest, torch
from tests import quick
from tests.learning.small import make_task, one_batch
from commonweal.learning.fast import FastLearner
from commonweal.learning.plain import PlainLearner

task = make_task()
weight = torch.ones(1, requires_grad=True)

def train(learner):
    learner(task.layout).train(task.vector, task.images, task.labels, one_batch(len(task.images)), 0.1)

attempts = {
    "starts a process": [
        lambda: subprocess.run([sys.executable, "--version"], check=True),
        lambda: os.fork() or os._exit(0),
        lambda: multiprocessing.get_context("fork").Process(target=print).start(),
        lambda: multiprocessing.get_context("spawn").Process(target=print).start(),
    ],
    "trains a network": [
        lambda: train(FastLearner),
        lambda: train(PlainLearner),
        lambda: weight.sum().backward(),
        lambda: torch.autograd.grad(weight.sum(), weight),
    ],
}
quick.watch()
train(FastLearner)  # outside tests everything is allowed
quick.during_a_test(True)
for reason, functions in attempts.items():
    for number, attempt in enumerate(functions):
        with pytest.raises(pytest.skip.Exception, match=reason):
            attempt()
        print(reason, number)
"""


def test_attempts_to_start_a_process_or_to_train_skip_the_test():
    root = Path(__file__).parent.parent
    path = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        cwd=root,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 8, done.stdout
