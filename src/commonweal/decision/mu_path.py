"""The μ path of a round, in terms of its clients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import cached_property
from html import escape
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

import numpy as np

from commonweal.decision.envelope import Envelope
from commonweal.decision.exact import BoolArray
from commonweal.decision.validation import check_mu
from commonweal.errors import IncompletePathError, InputError
from commonweal.records import Decision, MuRange

_T = TypeVar("_T")
_SHOWN_PIECES = 50


class MuPath:
    """Which set is retained at which μ: `breakpoints`, `at(mu)`, `stays(client)`, `pieces()`."""

    def __init__(
        self, *, clients: tuple[str, ...], envelope: Envelope, decision_at: Callable[[float], Decision]
    ) -> None:
        self.clients = clients
        self._envelope = envelope
        self._decision_at = decision_at

    def __repr__(self) -> str:
        clients = f"{len(self.clients)} client{'s' * (len(self.clients) != 1)}"
        breakpoints = f"{len(self.breakpoints)} breakpoint{'s' * (len(self.breakpoints) != 1)}"
        if not self.complete:
            return f"<MuPath of {clients}, cut off after {breakpoints}>"
        lines = [f"  mu {range_}: retains {', '.join(kept) or 'nobody'}" for range_, kept in self._shown_pieces()]
        return "\n".join([f"<MuPath of {clients}, {breakpoints}", *lines]) + ">"

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        if not self.complete:
            return f"<p>{escape(repr(self))}</p>"
        rows = "".join(
            f"<tr><td>{escape(str(range_))}</td><td>{escape(', '.join(kept))}</td></tr>"
            for range_, kept in self._shown_pieces()
        )
        more = f"<p>{len(self.pieces())} ranges in all.</p>" if len(self.pieces()) > _SHOWN_PIECES else ""
        return f"<table><thead><tr><th>mu</th><th>retained</th></tr></thead><tbody>{rows}</tbody></table>{more}"

    def _shown_pieces(self) -> tuple[tuple[MuRange, tuple[str, ...]], ...]:
        return self.pieces()[:_SHOWN_PIECES]

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """Where the retained set changes: the doubles nearest to the exact rationals."""
        return tuple(float(b) for b in self._envelope.breakpoints)

    @property
    def exact_breakpoints(self) -> tuple[Fraction, ...]:
        return self._envelope.breakpoints

    @property
    def complete(self) -> bool:
        """False if the limit on breakpoints was reached: then nothing is known beyond the last of them."""
        return self._envelope.complete

    @property
    def solve_count(self) -> int:
        return self._envelope.solve_count

    @property
    def proven_gap(self) -> float:
        """The largest gap of any solve; 0 means that the whole path is proven."""
        return self._envelope.proven_gap

    def at(self, mu: float) -> Decision:
        """The decision at μ; where the path was cut off, it is solved for this μ."""
        return self._decision_at(check_mu(mu))

    def stays(self, client: str) -> tuple[MuRange, ...]:
        """The ranges of μ in which the client is retained, in rising order."""
        if client not in self._index:
            raise InputError(f"client must be one of the clients of the round, got {client!r}; choose one of them")
        self._require_complete()
        position = self._index[client]
        return tuple(range_ for range_, stays in _joined((p, bool(r[position])) for p, r in self._pieces()) if stays)

    def pieces(self) -> tuple[tuple[MuRange, tuple[str, ...]], ...]:
        """Each range of μ with the clients retained in it, from 0 to infinity."""
        self._require_complete()
        return tuple(
            _joined(
                (piece, tuple(c for c, stays in zip(self.clients, retained.tolist(), strict=True) if stays))
                for piece, retained in self._pieces()
            )
        )

    @cached_property
    def _index(self) -> dict[str, int]:
        return {client: position for position, client in enumerate(self.clients)}

    def _require_complete(self) -> None:
        if not self.complete:
            raise IncompletePathError(
                "ranges of mu are available only from a complete path, but this one stops after "
                f"{len(self.breakpoints)} breakpoints at mu = {self.breakpoints[-1] if self.breakpoints else 0:g}; "
                "raise the limit"
            )

    def _pieces(self) -> Iterator[tuple[MuRange, BoolArray]]:
        """The μ axis in order: open or half-open pieces, points where a third set wins a tie, and infinity."""
        envelope = self._envelope
        lower: Fraction = Fraction(0)
        includes_lower = True
        for index, (upper, at) in enumerate(zip(envelope.breakpoints, envelope.at, strict=True)):
            left, right = envelope.between[index], envelope.between[index + 1]
            left_wins = np.array_equal(at, left)
            if lower < upper or left_wins:
                yield (
                    MuRange(exact_lower=lower, exact_upper=upper, closed_below=includes_lower, closed_above=left_wins),
                    left,
                )
            includes_lower = not left_wins and np.array_equal(at, right)
            if not left_wins and not includes_lower:
                yield MuRange(exact_lower=upper, exact_upper=upper, closed_below=True, closed_above=True), at
            lower = upper
        yield (
            MuRange(exact_lower=lower, exact_upper=math.inf, closed_below=includes_lower, closed_above=False),
            envelope.between[-1],
        )
        yield (
            MuRange(exact_lower=math.inf, exact_upper=math.inf, closed_below=True, closed_above=True),
            np.ones(len(self.clients), np.bool_),
        )


def _joined(pieces: Iterable[tuple[MuRange, _T]]) -> Iterator[tuple[MuRange, _T]]:
    """The pieces, with neighbouring ones of the same kind joined into one."""
    for kind, run in groupby(pieces, key=itemgetter(1)):
        ranges = [range_ for range_, _ in run]
        yield (
            MuRange(
                exact_lower=ranges[0].exact_lower,
                exact_upper=ranges[-1].exact_upper,
                closed_below=ranges[0].closed_below,
                closed_above=ranges[-1].closed_above,
            ),
            kind,
        )
