"""The common encoding of all sites, from their summaries alone.

An encoding has blocks, each of which makes columns of the model's input from one column of the table:

    number     (x − mean) / scale, mean and scale (the standard deviation) over all sites' rows; 0 where x is missing
    category   one column per label: 1 where the row has it, else 0; the last one is for all other labels if `other`
    missing    1 where the value is missing, else 0; only for columns with missing values in some summary
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from commonweal.errors import InputError
from commonweal.tables.received import refuse_damaged
from commonweal.tables.settings import TableSettings
from commonweal.tables.summary import CATEGORY_LIMIT, CLASS_LIMIT, WHOLE_NUMBER_CLASSES
from commonweal.tables.values import label_of, label_order, number_of

Summary = Mapping[str, Any]
_CONSTANT = 1e-12  # a standard deviation below this share of the mean is rounding


def agree(settings: TableSettings, summaries: Mapping[str, Summary]) -> dict[str, Any]:
    """The encoding that all sites use, in JSON types. The order in which summaries arrived does not matter."""
    sites = sorted(summaries)
    if len(sites) < 2:
        raise InputError(
            f"There is one site only, {sites[0]!r}: a federation needs at least two."
            if sites
            else "There are no sites: a federation needs at least two."
        )
    for site in sites:
        refuse_damaged(site, summaries[site], settings)
    notes: list[str] = []
    blocks: list[dict[str, Any]] = []
    for name in _common_columns(settings, sites, summaries):
        blocks += _blocks(name, {site: _column(summaries[site], name) for site in sites}, notes)
    if not blocks:
        raise InputError(
            "No column is left to learn from: each has the same value in all rows of the first round. Add columns."
        )
    return {
        "features": blocks,
        **_target(settings, {site: summaries[site]["target"] for site in sites}),
        "dates": _dates({site: summaries[site].get("dates") for site in sites}),
        "notes": notes,
    }


def _common_columns(settings: TableSettings, sites: Sequence[str], summaries: Mapping[str, Summary]) -> list[str]:
    """The columns in the order of the settings, or else of the first site; all sites must have the same."""
    names = {site: [column["name"] for column in summaries[site]["columns"]] for site in sites}
    for site in sites:
        for one, other in ((sites[0], site), (site, sites[0])):
            lacking = [name for name in names[one] if name not in names[other]]
            if lacking:
                raise InputError(
                    f"{other!r} has no column {lacking[0]!r}, but {one!r} has. All sites need the same columns: rename "
                    f"or add it there, or leave it out everywhere with ignore = [{lacking[0]!r}]."
                )
    return names[sites[0]]


def _column(summary: Summary, name: str) -> Mapping[str, Any]:
    return next(column for column in summary["columns"] if column["name"] == name)


def _blocks(name: str, columns: Mapping[str, Mapping[str, Any]], notes: list[str]) -> list[dict[str, Any]]:
    """The blocks of one column, given its summary at each site."""
    kinds: dict[str, str] = {}  # kind -> the first site where the column has it
    for site, column in columns.items():
        if column["kind"] != "empty":
            kinds.setdefault(column["kind"], site)
    if len(kinds) > 1:
        label = next(iter(columns[kinds["category"]]["labels"]))
        raise InputError(
            f"Column {name!r} holds numbers at {kinds['number']!r}, but text at {kinds['category']!r}, such as "
            f"{label!r}. Correct it there, or list the column in categorical."
        )
    blocks: list[dict[str, Any]] = []
    used = [column for column in columns.values() if column["kind"] != "empty"]
    missing_count = sum(column["missing"] for column in columns.values())
    if "number" in kinds:
        mean, scale = _mean_and_scale(used)
        if scale > _CONSTANT * abs(mean):
            blocks.append({"kind": "number", "column": name, "mean": mean, "scale": scale})
    elif "category" in kinds:
        block = _category_block(name, used, notes)
        if len(block["labels"]) + block["other"] > 1:
            blocks.append(block)
    if missing_count and used:
        blocks.append({"kind": "missing", "column": name})
    if not used:
        notes.append(f"Column {name!r} is left out: it is missing in all training rows of the first round.")
    elif not blocks:
        notes.append(f"Column {name!r} is left out: it has the same value in all training rows of the first round.")
    return blocks


def _category_block(name: str, columns: Sequence[Mapping[str, Any]], notes: list[str]) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    for column in columns:
        counts.update(column["labels"])
    frequent = sorted(counts, key=lambda label: (-counts[label], label))[:CATEGORY_LIMIT]
    rest = sum(column["other"] for column in columns) + counts.total() - sum(counts[label] for label in frequent)
    if rest:
        notes.append(
            f"Column {name!r} has more than {CATEGORY_LIMIT} categories: the most frequent {len(frequent)} are kept, "
            f"and {rest} rows with rarer ones count as one category, other."
        )
    alone = sum(1 for label in frequent if sum(label in column["labels"] for column in columns) == 1)
    if alone:
        notes.append(f"Column {name!r} has {alone} of {len(frequent)} categories that occur at one site only.")
    return {
        "kind": "category",
        "column": name,
        "labels": sorted(frequent, key=label_order),
        "other": bool(rest),
    }


def _mean_and_scale(parts: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Mean and standard deviation of all sites' numbers: Σ(x − m)² = Σ_sites [Σ(x − m_s)² + n_s (m_s − m)²].

    Exact but for the roundings of the summaries and of the result, and so the same in any order of sites.
    """
    filled = [part for part in parts if part["count"]]
    count = sum(part["count"] for part in filled)
    mean = sum(Fraction(part["sum"]) for part in filled) / count
    squares = sum(
        Fraction(part["squares"]) + part["count"] * (Fraction(part["sum"]) / part["count"] - mean) ** 2
        for part in filled
    )
    return float(mean), math.sqrt(squares / count)


def _target(settings: TableSettings, targets: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    kind = settings.kind or _target_kind(settings, targets)
    if kind == "regression":
        mean, scale = _mean_and_scale([target["moments"] for target in targets.values()])
        if scale <= _CONSTANT * abs(mean):
            raise InputError(
                f"The target {settings.target!r} is {mean:g} in all training rows of the first round: there is nothing "
                "to learn. Choose another target."
            )
        return {"kind": kind, "target": {"mean": mean, "scale": scale}, "classes": None}
    found = sorted({label for target in targets.values() for label in target["labels"]}, key=label_order)
    classes = [label_of(label) for label in settings.classes] or found
    strange = [label for label in found if label not in classes]
    if strange:
        raise InputError(
            f"The target {settings.target!r} has the class {strange[0]!r}, which is not in classes. Add it there."
        )
    if len(classes) < 2:
        raise InputError(
            f"The target {settings.target!r} is {found[0]!r} in all training rows of the first round, but "
            "classification needs two classes. Choose another target; if others follow later, name all of them in "
            "classes."
        )
    if len(classes) > CLASS_LIMIT:
        raise InputError(
            f"The target {settings.target!r} has {len(classes)} classes; at most {CLASS_LIMIT} are possible. Choose "
            'another target, or kind = "regression" if it is a number.'
        )
    return {"kind": kind, "target": None, "classes": classes}


def _target_kind(settings: TableSettings, targets: Mapping[str, Mapping[str, Any]]) -> str:
    """Classification for text, and for whole numbers with at most 20 different values over all sites."""
    with_text = [site for site, target in targets.items() if target["moments"] is None]
    quantities = [site for site, target in targets.items() if target["labels"] is None]
    if with_text and quantities:
        label = next(label for label in targets[with_text[0]]["labels"])
        raise InputError(
            f"The target {settings.target!r} holds numbers at {quantities[0]!r}, but text at {with_text[0]!r}, such as "
            f"{label!r}. Correct it there."
        )
    if quantities:
        return "regression"
    labels = {label for target in targets.values() for label in target["labels"]}
    is_quantity = len(labels) > WHOLE_NUMBER_CLASSES and all(number_of(label) is not None for label in labels)
    if is_quantity and not with_text:
        return "regression"
    return "classification"


def _dates(dates: Mapping[str, Mapping[str, Any] | None]) -> dict[str, Any] | None:
    """The earliest and the latest date of all sites; rounds are periods of equal length between them."""
    spans = {site: span for site, span in dates.items() if span is not None}
    if not spans:
        return None
    kinds = {span["kind"]: site for site, span in reversed(spans.items())}
    if len(kinds) > 1:
        raise InputError(
            f"The date column holds dates at {kinds['date']!r}, but plain numbers at {kinds['number']!r}. "
            "Write all of them as dates such as 2024-01-31."
        )
    return {
        "first": min(span["first"] for span in spans.values()),
        "last": max(span["last"] for span in spans.values()),
        "kind": next(iter(kinds)),
    }
