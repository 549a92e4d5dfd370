"""Test workers share the cores: a library that spreads over all of them spends its time waiting for its own threads.

On two busy cores the estimators' tests took four times the processor time with two threads each.
"""

from __future__ import annotations

import os

LIMITS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def limit() -> None:
    """Limit threads in this process and the commands it starts, unless set already; call it before importing numpy."""
    for name, value in LIMITS.items():
        os.environ.setdefault(name, value)


def unlimited() -> dict[str, str]:
    """A user's environment, without limits: results must be the same with as many threads as there are cores."""
    return {name: value for name, value in os.environ.items() if name not in LIMITS}
