"""Which samples of its pool reach a client in a round.

s(n,t) ~ Poisson(λ_n), the next s samples of the pool's order, fewer when the pool runs dry. Any round can be computed
at any time: it depends on (seed, client, round) and the pool alone, so nothing needs to be remembered.
"""

from __future__ import annotations

from dataclasses import dataclass

from commonweal.data.samples import Indices
from commonweal.seeds import stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """The fresh samples of one round, as indices into the source."""

    training: Indices
    validation: Indices
    drawn_count: int  # fresh samples that arrived: training and validation together
    wanted_count: int  # fresh samples that would have arrived from a pool without end

    @property
    def is_dry(self) -> bool:
        return self.drawn_count < self.wanted_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """A client's pool and how it is drawn from."""

    client: str
    pool: Indices
    samples_per_round: float  # λ
    validation_share: float
    seed: int
    copied_share: float = 0.0  # of the samples declared; these are not drawn from the pool

    def declared_count(self, round_number: int) -> int:
        """s(n,t): the samples the client would declare as new, with a pool without end."""
        return int(stream(self.seed, "arrival", self.client, round_number).poisson(self.samples_per_round))

    def fresh_count(self, round_number: int) -> int:
        """Those of s(n,t) that are not copies; the copies are a whole number, ties to even."""
        declared = self.declared_count(round_number)
        return declared - round(declared * self.copied_share)

    def in_round(self, round_number: int) -> Arrival:
        """The fresh samples of the round; rounds count from 1."""
        if round_number < 1:
            raise ValueError(f"rounds count from 1, got {round_number}")
        start = sum(self.fresh_count(earlier) for earlier in range(1, round_number))
        wanted = self.fresh_count(round_number)
        drawn = self.pool[start : start + wanted]
        training, validation = self._split(drawn, round_number)
        return Arrival(training=training, validation=validation, drawn_count=len(drawn), wanted_count=wanted)

    def _split(self, drawn: Indices, round_number: int) -> tuple[Indices, Indices]:
        """⌊share · s + U⌋ samples go to validation, U uniform on [0, 1): share · s on average, for every s.

        Which ones is a keyed shuffle.
        """
        generator = stream(self.seed, "split", self.client, round_number)
        validation_count = int(self.validation_share * len(drawn) + generator.random())
        order = generator.permutation(len(drawn))
        return drawn[order[validation_count:]], drawn[order[:validation_count]]
