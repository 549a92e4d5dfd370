"""A table task in words, for reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from commonweal.tables.encoding import feature_count
from commonweal.tables.settings import TableSettings

_SHOWN = 12


def describe(settings: TableSettings, agreed: Mapping[str, Any]) -> dict[str, str]:
    """What -> how, e.g. "model" -> "logistic regression"."""
    columns = list(dict.fromkeys(block["column"] for block in agreed["features"]))
    rate = "" if settings.learning_rate is None else f" with learning rate {settings.learning_rate:g}"
    ended = settings.site and f", one client for each value of {settings.site!r}"
    return {
        "table": f"{settings.table}{ended or ''}" if settings.table else "one file for each client",
        "target": _target(settings, agreed),
        "features": f"{_listed(columns)} ({feature_count(agreed)} inputs of the model)",
        "model": _model(settings, agreed),
        "training": (
            f"gradient descent{rate} on batches of {settings.batch_size} rows, "
            f"{settings.local_epochs} {'pass' if settings.local_epochs == 1 else 'passes'} over a client's rows per "
            f"iteration{f', l2 {settings.l2:g}' if settings.l2 else ''}"
        ),
        "arrival": (
            f"by {settings.date!r}, in periods of equal length" if settings.date else "in random order, in equal parts"
        )
        + f"; {settings.validation_share:.0%} of the rows are for validation",
    }


def _target(settings: TableSettings, agreed: Mapping[str, Any]) -> str:
    if agreed["kind"] == "regression":
        mean, scale = agreed["target"]["mean"], agreed["target"]["scale"]
        return f"{settings.target!r}, a number (mean {mean:.4g}, standard deviation {scale:.4g})"
    return f"{settings.target!r}, {len(agreed['classes'])} classes: {_listed(agreed['classes'])}"


def _model(settings: TableSettings, agreed: Mapping[str, Any]) -> str:
    if settings.model == "linear":
        return "linear regression" if agreed["kind"] == "regression" else "logistic regression"
    return f"multi-layer perceptron with hidden layers of {', '.join(map(str, settings.hidden))} units"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"
