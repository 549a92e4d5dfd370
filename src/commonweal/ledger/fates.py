"""Harm and the end of a federation in a round's entry: what they rest on, so that anyone can judge again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from commonweal.errors import LedgerError
from commonweal.ledger.canonical import Document
from commonweal.records import HarmEvidence, RoundRecord
from commonweal.valuation.harm import FEWEST_SCORERS, VERSION, harm_evidence

_WITHOUT_MARGIN = "harm/1"


def fates_document(record: RoundRecord) -> Document:
    """The fields of the entry; none if nobody is harmful and the federation is not finished."""
    document: dict[str, Any] = {}
    if record.harm:
        found = [
            {
                "client": one.client,
                "is_eliminated": one.client in record.decision.harmful,
                "rounds": list(one.round_numbers),
                "effects": [{"scorer": scorer, "sum": effect} for scorer, effect in one.by_scorer.items()],
                "test_count": one.test_count,
                "margin": one.margin,
            }
            for one in record.harm
        ]
        document["harm"] = {"version": VERSION, "found": found}
    if record.ending is not None:
        document["ending"] = {"ends": record.decision.finished}
    return document


def harm_of(body: Mapping[str, Any]) -> dict[str, HarmEvidence]:
    """The evidence that a settled round states, with the test made again. Python's own errors if it is damaged."""
    if "harm" not in body:
        return {}
    version = body["harm"]["version"]
    if version not in (_WITHOUT_MARGIN, VERSION):
        raise LedgerError(
            f"Unknown version {version!r} of the test for harm: this version of commonweal knows {_WITHOUT_MARGIN} and "
            f"{VERSION}."
        )
    found = {}
    for row in body["harm"]["found"]:
        if str(row["client"]) in found:
            raise ValueError(f"{row['client']!r} twice")
        if type(row["is_eliminated"]) is not bool:
            raise ValueError(f"is_eliminated {row['is_eliminated']!r}")
        effects = {str(each["scorer"]): each["sum"] for each in row["effects"]}
        is_sound = len(effects) == len(row["effects"]) >= FEWEST_SCORERS and row["client"] not in effects
        if not is_sound or not all(type(each) in (int, float) and math.isfinite(each) for each in effects.values()):
            raise ValueError(f"effects of {row['client']!r}")
        numbers, test_count = row["rounds"], row["test_count"]
        margin = 0.0 if version == _WITHOUT_MARGIN else row["margin"]
        if not numbers or not all(type(each) is int for each in (*numbers, test_count)) or test_count < 1:
            raise ValueError(f"rounds {numbers!r} and {test_count!r} tests")
        if type(margin) not in (int, float) or not -math.inf < margin <= 0:
            raise ValueError(f"margin {margin!r}")
        found[str(row["client"])] = harm_evidence(row["client"], numbers, effects, test_count, margin)
    return found


def harmful_in(body: Mapping[str, Any]) -> tuple[str, ...]:
    """The clients that a settled round eliminated as harmful."""
    return tuple(row["client"] for row in body.get("harm", {"found": []})["found"] if row["is_eliminated"] is True)


def is_finished(body: Mapping[str, Any]) -> bool:
    """Whether the federation ended with a settled round because no further one was expected to pay."""
    return "ending" in body and body["ending"]["ends"] is True
