"""From the paired gains of all rounds so far to the gains that this round's figures are made from.

A version names how they are made, as ledgers record it, so that anyone can compute the gains of a settled round again.
If the same tables would give other gains, the rule needs a new version, and the old one stays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from commonweal.errors import InputError
from commonweal.records.gains import PairedGain, RoundGains
from commonweal.valuation.forecast import forecast_gains
from commonweal.valuation.pooling import PooledGains, not_pooled, pool

Table = Mapping[str, PairedGain]
Pool = Callable[[Table, Collection[str]], PooledGains]
Forecast = Callable[[Sequence[Table]], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class _Rule:
    pool: Pool
    forecast: Forecast | None = None


FIGURES_VERSIONS: Mapping[str, str] = MappingProxyType(
    {"paired": "paired/1", "pooled": "pooled/1", "forecast": "forecast/1"}
)
"""The present version of each rule, by its name in scenarios."""

_RULES: Mapping[str, _Rule] = MappingProxyType(
    {"paired/1": _Rule(not_pooled), "pooled/1": _Rule(pool), "forecast/1": _Rule(pool, forecast_gains)}
)


def used_gains(version: str, tables: Sequence[Table]) -> RoundGains:
    """The gains of the round of the last table; `tables` are those of all rounds so far, in order."""
    rule, newcomers = _rule(version), newcomers_in(tables)
    return RoundGains(
        version=version,
        table=tables[-1],
        newcomers=newcomers,
        pooled=rule.pool(tables[-1], newcomers).values,
        expected=None if rule.forecast is None else rule.forecast(tables),
    )


def pooled_again(gains: RoundGains) -> PooledGains:
    """How the rule of these gains pools their table; also for bootstrap draws of it."""
    return _rule(gains.version).pool(gains.table, gains.newcomers)


def _rule(version: str) -> _Rule:
    if version not in _RULES:
        raise InputError(
            f"Unknown version {version!r} of figures: this version of commonweal knows {', '.join(_RULES)}. Use a "
            "newer commonweal."
        )
    return _RULES[version]


def newcomers_in(tables: Sequence[Table]) -> tuple[str, ...]:
    """Clients of the last table that are in no earlier one; in the first table nobody is new among others."""
    earlier = {client for table in tables[:-1] for client in table}
    return tuple(client for client in tables[-1] if client not in earlier) if earlier else ()
