"""What a site tells of its rows: counts, sums, sums of squares, and labels with counts. See the package's docstring."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from commonweal.errors import InputError
from commonweal.tables.arrival import Positions
from commonweal.tables.site_rows import SiteRows
from commonweal.tables.values import label_order

CATEGORY_LIMIT = 100  # per column; rarer ones are grouped as "other"
CLASS_LIMIT = 100
WHOLE_NUMBER_CLASSES = 20  # a target of whole numbers with more values is a quantity
_FEW_TEXTS = 10  # a column with fewer different texts never looks like an identifier


class IdentifierError(InputError):
    """A column looks like names, which would leave the site as labels of categories."""

    def __init__(self, message: str, *, column: str) -> None:
        super().__init__(message)
        self.column = column


def summarise(site: SiteRows, round_count: int) -> dict[str, Any]:
    """The summary of the training rows of the first round.

    If rows arrive by date, the periods are not agreed on yet: the first round is then that of the site's own period.
    """
    is_used = (site.rounds(round_count) == 1) & ~site.is_validation
    rows = site.rows[is_used]
    summary: dict[str, Any] = {
        "row_count": len(rows),
        "columns": [{"name": name, **_column(site, name, rows)} for name in site.features()],
        "target": _target(site, rows),
    }
    if site.days is not None:
        summary["dates"] = {
            "first": float(site.days[0]),
            "last": float(site.days[-1]),
            "kind": "date" if site.are_dates else "number",
        }
    return summary


def moments(numbers: NDArray[np.float64]) -> dict[str, Any]:
    """Count, sum, and the sum of squared deviations from the mean, Σ(x − x̄)².

    The plain sum of squares says the same, but loses all digits if the mean is large compared with the deviations.
    """
    total = math.fsum(numbers)
    mean = total / len(numbers) if len(numbers) else 0.0
    return {"count": len(numbers), "sum": total, "squares": math.fsum((numbers - mean) ** 2)}


def _column(site: SiteRows, name: str, rows: Positions) -> dict[str, Any]:
    is_categorical = name in site.settings.categorical
    column = site.table.column(name)
    present = rows[~column.is_missing[rows]]
    missing = {"missing": len(rows) - len(present)}
    if not len(present):
        return {"kind": "empty", **missing}
    if not is_categorical and _are_numbers(site, name, present):
        return {"kind": "number", **moments(column.numbers[present]), **missing}
    labels = column.label_counts(present)
    if not is_categorical and len(labels) > max(_FEW_TEXTS, len(present) / 2):
        raise IdentifierError(
            f"{site.table.name}: column {name!r} has {len(labels)} different texts in {len(present)} rows, like a name "
            "or an identifier, and they would be sent as labels. List the column in ignore, or in categorical if "
            "these are categories that others may see.",
            column=name,
        )
    frequent = sorted(labels, key=lambda label: (-labels[label], label))[:CATEGORY_LIMIT]
    return {
        "kind": "category",
        "labels": _sorted({label: labels[label] for label in frequent}),
        "other": len(present) - sum(labels[label] for label in frequent),
        **missing,
    }


def _target(site: SiteRows, rows: Positions) -> dict[str, Any]:
    """Labels, moments, or both: whatever the agreement on the kind of the target still needs."""
    name, kind = site.settings.target, site.settings.kind
    if kind == "regression":
        return {"labels": None, "moments": moments(site.numbers(name, rows))}
    labels = site.table.column(name).label_counts(rows)
    if kind is None and not site.settings.classes and _are_numbers(site, name, rows):
        numbers = site.numbers(name, rows)
        is_class = len(labels) <= WHOLE_NUMBER_CLASSES and bool(np.all(numbers == np.floor(numbers)))
        return {"labels": _sorted(labels) if is_class else None, "moments": moments(numbers)}
    if len(labels) > CLASS_LIMIT:
        raise InputError(
            f"{site.table.name}: the target {name!r} has {len(labels)} classes in {len(rows)} rows; at most "
            f'{CLASS_LIMIT} are possible. Choose another target, or kind = "regression" if it is a number.'
        )
    return {"labels": _sorted(labels), "moments": None}


def _are_numbers(site: SiteRows, name: str, rows: Positions) -> bool:
    """Whether all these values are numbers. Text among values that are mostly numbers is refused."""
    texts = rows[site.table.column(name).is_text[rows]]
    if not len(texts):
        return True
    if 2 * len(texts) < len(rows):
        others = len(rows) - len(texts)
        raise site.not_a_number(name, int(texts.min()), f", unlike {others} other values of this column")
    return False


def _sorted(labels: Mapping[str, int]) -> dict[str, int]:
    return {label: labels[label] for label in sorted(labels, key=label_order)}
