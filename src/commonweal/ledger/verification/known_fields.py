"""Check that an entry has only fields that are known: what no program reads could mean anything to a person.

`BODIES` lists the fields of each kind of entry, in all versions together. A new field is one more word here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from commonweal.ledger.terms import Terms
from commonweal.ledger.verification.replay import Findings

_SHOWN = 5  # unknown fields of an entry that are reported one by one

VALUE = object()  # no object in it: text, a number, true, false, null, or a list of these
ANYTHING = object()  # checked elsewhere, or with names of its own: clients, parameters of a mechanism


def _values(names: str) -> dict[str, object]:
    return dict.fromkeys(names.split(), VALUE)


_TERMS = dict.fromkeys((each.name for each in fields(Terms)), ANYTHING)  # `Terms` refuses other fields
_MEMBERS = [_values("client key")]
_EARLIER = [_values("signature") | {"report": ANYTHING}]  # signed by its client as a whole
_REPORT = _values("number attempt model opening_model baseline measured settings") | {"earlier": _EARLIER}

BODIES: Mapping[str, Mapping[str, object]] = {
    "opening": _values("operator") | {"terms": _TERMS},
    "terms": {"terms": _TERMS},
    "amendment": _values("book amendment terms_before first_round")
    | {"terms": _TERMS, "members": _MEMBERS, "signatures": [_values("client signature")]},
    "admission": {"members": _MEMBERS},
    "round": _values("round rules_version grace absent silent resting terms")
    | {
        "measured_by": ANYTHING,
        "rules": _values("mu contribution_rule loss_rule liability_cap mechanism seed") | {"parameters": ANYTHING},
        "inputs": [
            _values("client profit contribution sample_count cost signature expected_profit")
            | {"report": _REPORT, "further": ANYTHING}
        ],
        "decision": _values("retained eliminated objective budget shares payoffs transfers external charges"),
        "plan": _values("active")
        | {
            "instructions": _values("participants iteration_limit")
            | {"data_shares": ANYTHING, "model_shares": ANYTHING}
        },
        "gains": {
            "table": _values("format round version bounded newcomers")
            | {"rows": [_values("client gain sample_count squared_change")]},
            "pooled": ANYTHING,
            "expected": ANYTHING,
        },
        "evidence": [_values("client profit_error contribution_error same_count draw_count")],
        "harm": _values("version")
        | {
            "found": [
                _values("client is_eliminated rounds test_count margin") | {"effects": [_values("scorer sum")]},
            ]
        },
        "ending": _values("ends"),
        "unused_reports": [_values("client signature") | {"report": ANYTHING}],
    },
    "realisation": _values("reference amount"),
    "reversal": _values("entry reason"),
    "withdrawal": _values("client round signature"),
    "late-report": _values("client round signature") | {"report": ANYTHING},  # signed by its client as a whole
    "charge": _values("client round amount"),
    "exclusion": _values("client rounds"),
    "key-rotation": _values("operator proof"),
}


def check_fields(number: int, document: Mapping[str, Any], findings: Findings) -> None:
    body = BODIES.get(str(document.get("kind")), ANYTHING)  # an unknown kind is a finding of its own
    known = _values("format number previous at kind") | {"body": body, "postings": ANYTHING}
    unknown = list(unknown_fields(document, known))
    for path in unknown[:_SHOWN]:
        findings.add(number, "entries have only known fields", "a field that this version knows", path)
    if len(unknown) > _SHOWN:
        found = f"{len(unknown) - _SHOWN} more"
        findings.add(number, "entries have only known fields", "fields that this version knows", found)


def unknown_fields(value: Any, known: object, path: str = "") -> Iterator[str]:
    """The paths of fields that are not in `known`. Values of other types than expected are found by other checks."""
    if isinstance(known, Mapping) and isinstance(value, dict):
        for name, inner in value.items():
            place = f"{path}.{name}" if path else name
            if name in known:
                yield from unknown_fields(inner, known[name], place)
            else:
                yield place
    elif isinstance(known, Sequence) and isinstance(value, list):
        for row in value:
            yield from unknown_fields(row, known[0], f"{path}[{_name_of(row)}]")
    elif known is VALUE and _has_objects(value):
        yield path


def _name_of(row: Any) -> str:
    return str(row.get("client", "")) if isinstance(row, dict) else ""


def _has_objects(value: Any) -> bool:
    waiting = [value]  # not by recursion: lists may be nested more deeply than Python can follow
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            return True
        waiting += each if isinstance(each, list) else []
    return False
