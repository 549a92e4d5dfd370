"""What we assume about a game before any coalition is evaluated: how similar the values of two coalitions are.

The values of all coalitions are one draw of a Gaussian process. For coalitions S and T of N clients, with x = ±1 for
clients inside and outside, its covariance is

    k(S, T) =   100                                                 a level
              + linear · x_S·x_T / N                                what each client adds on its own
              + size · min(|S|, |T|) / N                            what the number of clients adds
              + likeness^|S △ T| · growth^(|S| + |T|) / norm        everything else

with norm = mean of growth^(2s) over s = 0..N. The closer likeness is to 1, the smoother the last term is; with
growth < 1 it varies less as coalitions grow, as accuracy does when it saturates. It is a product over clients, so
its Shapley value is an integral over q of a product of factors linear in q (Owen's multilinear extension): a
polynomial of degree N − 1, which Gauss-Legendre quadrature integrates exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from commonweal.valuation.coalition import Members

Floats = NDArray[np.float64]

LEVEL = 100.0
JITTER = 1e-9
"""Added to the diagonal because of rounding; relative to a game with a variance of about 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GamePrior:
    """The covariance's parameters, and the variance `noise` of each value, in units of the game's variance."""

    likeness: float = 0.9
    growth: float = 0.85
    linear: float = 0.3
    size: float = 1.0
    noise: float = 0.0

    def covariance(self, left: Members, right: Members) -> Floats:
        """k(S, T) for each row S of `left` and T of `right`, without noise."""
        client_count = left.shape[1]
        left_sizes, right_sizes = left.sum(axis=1)[:, None], right.sum(axis=1)[None, :]
        common = left @ right.T
        differing = left_sizes + right_sizes - 2 * common
        powers = self.likeness ** np.arange(client_count + 1)
        smooth = powers[differing.astype(np.intp)] * self.growth**left_sizes * self.growth**right_sizes
        covariance: Floats = (
            LEVEL
            + self.linear * (1.0 - 2.0 * differing / client_count)
            + self.size * np.minimum(left_sizes, right_sizes) / client_count
            + smooth / self._norm(client_count)
        )
        return covariance

    def observed_covariance(self, members: Members) -> Floats:
        """k of the evaluated coalitions; the first two are ∅ and A, which count as free of noise."""
        covariance = self.covariance(members, members)
        noise = np.full(len(members), self.noise + JITTER)
        noise[:2] = JITTER
        covariance[np.diag_indices(len(members))] += noise
        return covariance

    def shapley_covariance(self, members: Members) -> Floats:
        """Covariance of each client's Shapley value (rows) with v(T) for each row T of `members` (columns)."""
        client_count = members.shape[1]
        sizes = members.sum(axis=1)
        nodes, weights = _quadrature(client_count)
        apart, both = self.likeness * self.growth, self.growth**2
        # A client's factor at q = 0 and 1: 1 and `apart` when it is not in T, `apart` and `both` when it is.
        outside = (1.0 - nodes) + nodes * apart
        inside = (1.0 - nodes) * apart + nodes * both
        product = weights[:, None] * outside[:, None] ** (client_count - sizes) * inside[:, None] ** sizes
        gain_outside = (apart - 1.0) * (product / outside[:, None]).sum(axis=0)
        gain_inside = (both - apart) * (product / inside[:, None]).sum(axis=0)
        smooth = np.where(members.T == 1.0, gain_inside, gain_outside) / self._norm(client_count)
        linear = self.linear * 2.0 * (2.0 * members.T - 1.0) / client_count
        covariance: Floats = smooth + linear + self.size * sizes / client_count**2
        return covariance

    def shapley_variance(self, client_count: int) -> float:
        """Variance of one client's Shapley value."""
        nodes, weights = _quadrature(client_count)
        apart, both = self.likeness * self.growth, self.growth**2
        one, other = nodes[:, None], nodes[None, :]
        factor = (1 - one) * (1 - other) + apart * (one * (1 - other) + other * (1 - one)) + both * one * other
        integral = float(weights @ factor ** (client_count - 1) @ weights)
        smooth = (1.0 - 2.0 * apart + both) * integral / self._norm(client_count)
        return smooth + 4.0 * self.linear / client_count + self.size / client_count**2

    def _norm(self, client_count: int) -> float:
        return float(np.mean(self.growth ** (2.0 * np.arange(client_count + 1))))


def _quadrature(client_count: int) -> tuple[Floats, Floats]:
    """Nodes and weights on 0..1, exact for polynomials of degree N − 1 (and more)."""
    nodes, weights = np.polynomial.legendre.leggauss(client_count // 2 + 1)
    return (nodes + 1.0) / 2.0, weights / 2.0
