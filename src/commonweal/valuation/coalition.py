"""The values of coalitions: calls the user's function once for each, remembers the results, and keeps to a limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from commonweal.errors import InputError

Coalition = frozenset[str]
"""The names of the clients that take part."""

CoalitionValue = Callable[[Coalition], float]
"""v(S): the value of the model of the clients in S, in units of accuracy (or of any other measure)."""


@runtime_checkable
class Fetching(Protocol):
    """A coalition value that has to ask distant clients, and can ask about many coalitions at once."""

    def fetch(self, coalitions: Sequence[frozenset[str]]) -> None:
        """Get the values of all these coalitions; they will be needed immediately afterwards."""
        ...


Members = NDArray[np.float64]
"""One row per coalition and one column per client: 1.0 if the client is in the coalition, otherwise 0.0."""


LARGEST_VALUE = 1e100
"""Beyond this, squares of values leave the range of doubles."""


class Game:
    """The clients and their `coalition_value`, each coalition evaluated at most once.

    `coalition_value` is called with a frozenset of client names. A Game can itself be used as such a function, so
    several measures can share one game and the values that it remembers.
    """

    def __init__(
        self, clients: Sequence[str], coalition_value: CoalitionValue, *, evaluation_limit: int | None = None
    ) -> None:
        if evaluation_limit is not None and evaluation_limit < 0:
            raise InputError(f"evaluation limit must be >= 0, got {evaluation_limit}; give None for no limit")
        self.clients = checked_clients(clients)
        self.evaluation_limit = evaluation_limit
        self._coalition_value = coalition_value
        self._known: dict[frozenset[str], float] = {}
        self._everyone = frozenset(self.clients)

    @property
    def evaluation_count(self) -> int:
        """How many distinct coalitions have been evaluated."""
        return len(self._known)

    def is_affordable(self, coalition: frozenset[str]) -> bool:
        """Whether v(coalition) is known or may still be evaluated."""
        limit = self.evaluation_limit
        return limit is None or self.evaluation_count < limit or coalition in self._known

    def __call__(self, coalition: frozenset[str]) -> float:
        """v(coalition), remembered if it is known."""
        known = self._known.get(coalition)
        if known is not None:
            return known
        if not coalition <= self._everyone:
            strangers = sorted(coalition - self._everyone)
            raise InputError(f"a coalition can contain only clients of the game, got {strangers}; add them as clients")
        if not self.is_affordable(coalition):
            raise InputError(
                f"at most {self.evaluation_limit} coalitions may be evaluated, got one more; raise the evaluation limit"
            )
        given = self._coalition_value(coalition)
        try:
            value = float(given)
        except (TypeError, ValueError):
            value = math.nan
        if not abs(value) <= LARGEST_VALUE:
            named = [client for client in self.clients if client in coalition]
            raise InputError(
                f"coalition_value must return a finite number of at most {LARGEST_VALUE:g} in size, got {given!r} for "
                f"coalition {named}; correct the function or leave the client out"
            )
        self._known[coalition] = value
        return value

    def values(self, members: Members) -> NDArray[np.float64]:
        """v of each row of `members`, fetched all at once if the function can do that."""
        coalitions = [frozenset(self.clients[i] for i in np.flatnonzero(row)) for row in members]
        if isinstance(self._coalition_value, Fetching):
            unknown = [coalition for coalition in dict.fromkeys(coalitions) if coalition not in self._known]
            self._coalition_value.fetch(unknown if self.evaluation_limit is None else unknown[: self._left()])
        return np.array([self(coalition) for coalition in coalitions])

    def _left(self) -> int:
        """How many more coalitions may be evaluated."""
        assert self.evaluation_limit is not None
        return max(self.evaluation_limit - self.evaluation_count, 0)


def all_coalitions(client_count: int) -> Members:
    """All 2^N coalitions; row c contains client i if bit i of c is set."""
    numbers = np.arange(1 << client_count)
    return ((numbers[:, None] >> np.arange(client_count)) & 1).astype(np.float64)


def checked_clients(clients: Sequence[str]) -> tuple[str, ...]:
    """The clients as a tuple: at least one, no name twice."""
    if isinstance(clients, str):
        raise InputError(f"clients must be a sequence of names, got the single text {clients!r}; wrap it in a list")
    names = tuple(clients)
    if not names:
        raise InputError("a game needs at least one client, got none; name the active clients")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"client names must be distinct, got {twice} more than once; rename them")
    return names
