"""Test workers share the cores: a library that spreads over all of them spends its time waiting for its own threads.

On two busy cores the estimators' tests took four times the processor time with two threads each.
"""

from __future__ import annotations

import os

LIMITS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def limit() -> None:
    """Here and in every command started from here; before numpy is imported, unless somebody said otherwise."""
    for name, value in LIMITS.items():
        os.environ.setdefault(name, value)


def unlimited() -> dict[str, str]:
    """A user's environment: what is computed with as many threads as there are cores must be the same."""
    return {name: value for name, value in os.environ.items() if name not in LIMITS}
