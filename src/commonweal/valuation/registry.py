"""All contribution measures, by the name that a scenario gives them. To add one, add its file and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from commonweal.valuation.measure import Measure

# "module of this package:name of its Measure", in the order in which messages list them.
_ENTRIES = (
    "exact:QUANTITY",
    "exact:MARGINAL",
    "exact:SHAPLEY",
    "adaptive:ADAPTIVE",
    "leverage:LEVERAGE",
    "permutations:TMC",
    "permutations:GTG",
    "path:PATH",
)


def _load(entry: str) -> Measure:
    module, _, attribute = entry.partition(":")
    measure = getattr(import_module(f"commonweal.valuation.{module}"), attribute)
    assert isinstance(measure, Measure), f"{entry} is not a Measure"
    return measure


def _by_name(measures: list[Measure]) -> Mapping[str, Measure]:
    found = {measure.name: measure for measure in measures}
    assert len(found) == len(measures), "two measures have the same name"
    return MappingProxyType(found)


MEASURES: Mapping[str, Measure] = _by_name([_load(entry) for entry in _ENTRIES])
