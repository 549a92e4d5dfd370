"""`--mu` where several are taken: a list such as 0,0.05,inf, or all."""

from __future__ import annotations

from typing import Literal

from commonweal.errors import InputError
from commonweal.scenario.override import checked_mu


def parse_mus(given: str) -> tuple[float, ...] | Literal["all"]:
    """In rising order, each once."""
    if given.strip() == "all":
        return "all"
    parts = [part.strip() for part in given.split(",")]
    if not all(parts):
        raise InputError(f"--mu must be numbers with commas between, or all, got {given!r}; write it like 0,0.05,inf")
    return tuple(sorted({checked_mu(part) for part in parts}))
