"""From the paired gains of all rounds so far to the gains that this round's figures are made from.

A version names how they are made, as ledgers record it, so that anyone can compute the gains of a settled round again.
If the same tables would give other gains, the rule needs a new version, and the old one stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from commonweal.errors import InputError
from commonweal.records.gains import PairedGain, RoundGains
from commonweal.valuation.bootstrap import Draws
from commonweal.valuation.forecast import forecast_gains
from commonweal.valuation.pooling import pool

Table = Mapping[str, PairedGain]
Forecast = Callable[[Sequence[Table]], Mapping[str, float]]

FIGURES_VERSIONS: Mapping[str, str] = MappingProxyType({"pooled": "pooled/1", "forecast": "forecast/1"})
"""The present version of each rule, by its name in scenarios."""

_FORECASTS: Mapping[str, Forecast | None] = MappingProxyType({"pooled/1": None, "forecast/1": forecast_gains})


def used_gains(version: str, tables: Sequence[Table]) -> RoundGains:
    """The gains of the round of the last table; `tables` are those of all rounds so far, in order."""
    if version not in _FORECASTS:
        raise InputError(
            f"Unknown version {version!r} of figures: this version of commonweal knows {', '.join(_FORECASTS)}. Use a "
            "newer commonweal."
        )
    forecast = _FORECASTS[version]
    newcomers = newcomers_in(tables)
    return RoundGains(
        version=version,
        table=tables[-1],
        newcomers=newcomers,
        pooled=pool(tables[-1], newcomers).values,
        expected=None if forecast is None else forecast(tables),
    )


def expected_in_draws(
    version: str, tables: Sequence[Table], draws: Sequence[Mapping[str, Draws]], draw_count: int
) -> dict[str, Draws] | None:
    """The expected gains in the first bootstrap draws, each forecast from that draw of all rounds' gains.

    `draws` are the measured gains of each table's clients; a sample has the same weights in all rounds, so the draws of
    different rounds belong together. None if the version makes no forecasts.
    """
    forecast = _FORECASTS[version]
    if forecast is None:
        return None

    def drawn(draw: int) -> list[Table]:
        return [
            {client: replace(row, gain=float(by_client[client][draw])) for client, row in table.items()}
            for table, by_client in zip(tables, draws, strict=True)
        ]

    forecasts = [forecast(drawn(draw)) for draw in range(draw_count)]
    return {client: np.array([one[client] for one in forecasts]) for client in tables[-1]}


def newcomers_in(tables: Sequence[Table]) -> tuple[str, ...]:
    """Clients of the last table that are in no earlier one; in the first table nobody is new among others."""
    earlier = {client for table in tables[:-1] for client in table}
    return tuple(client for client in tables[-1] if client not in earlier) if earlier else ()
