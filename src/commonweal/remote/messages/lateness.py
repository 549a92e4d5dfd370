"""How late a member answers: by how much later than half of those who were asked the same question.

Training takes what it takes, so time that everybody needs is nobody's fault. Somebody who answers just before the end
of `answer_seconds`, message after message, would slow the round down for all others. So each member's lateness is added
up over a round, and is limited.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

TOO_LATE = "in this round it kept the others waiting for longer than late_seconds allows"


def half_time(times: Mapping[str, float], asked_count: int) -> float:
    """When half of those asked had answered; infinite if they have not."""
    needed = math.ceil(asked_count / 2)
    return sorted(times.values())[needed - 1] if 0 < needed <= len(times) else math.inf


def lateness(times: Mapping[str, float], asked_count: int) -> dict[str, float]:
    """Seconds by which each answer came after half of them, from the seconds that each took."""
    half = half_time(times, asked_count)
    return {client: max(0.0, seconds - half) for client, seconds in times.items()}


@dataclass(kw_only=True)
class Waiting:
    """One question to several members: whom a transport still waits for. Times are seconds since it was put."""

    seconds: float  # for everybody
    late_seconds: Mapping[str, float]  # for each member that was asked, beyond half of the answers
    times: dict[str, float] = field(default_factory=dict)  # of answers

    def is_over(self, client: str, now: float) -> bool:
        """Whether a member that has not answered counts as absent."""
        return now >= self.seconds or self.is_too_late(client, now)

    def is_too_late(self, client: str, now: float) -> bool:
        """Whether it has used up its lateness. In time for everybody is in time, if nobody else waits for it."""
        return now > half_time(self.times, len(self.late_seconds)) + self.late_seconds[client]


@dataclass(kw_only=True)
class RoundLateness:
    """The lateness of each member in a round."""

    limit: float
    used: dict[str, float] = field(default_factory=dict)

    def left(self, client: str) -> float:
        return max(0.0, self.limit - self.used.get(client, 0.0))

    def add(self, times: Mapping[str, float], asked_count: int) -> None:
        for client, late in lateness(times, asked_count).items():
            self.used[client] = self.used.get(client, 0.0) + late
