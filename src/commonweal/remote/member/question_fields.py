"""What the fields and arrays of a question may be. Everything is checked here, before anything is done with it.

A question comes from another machine. What is malformed is refused in one sentence, whatever it is.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, get_args

import numpy as np

from commonweal.ledger.member_documents import ROUND_LIMIT
from commonweal.records import FiguresRule
from commonweal.remote.messages.message import (
    CLOSE,
    EVALUATE,
    GRADIENT,
    OPEN,
    RECEIPT,
    REPORT,
    SUMMARISE,
    TRAIN,
    Message,
)

MOST_ROUNDS = 10_000
MOST_MODELS = 10_000
SIGNED = ("statement", "trail", "ledger_head", "receipt")  # by the operator; any question may bring them
_LONGEST_ATTEMPT, _LONGEST_NAME, _LONGEST_HASH = 64, 1000, 1000  # characters
_HASH = re.compile(r"[0-9a-f]{64}")

Rule = tuple[Callable[[Any], bool], str]  # whether a value is sound, and what it must be


def table_in(value: object) -> dict[str, Any] | None:
    """The JSON object in a text; None if it is none."""
    try:
        found = json.loads(value) if isinstance(value, str) else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _is_table(value: object) -> bool:
    return table_in(value) is not None


def _is_whole(least: int, most: float = math.inf) -> Callable[[object], bool]:
    return lambda value: type(value) is int and least <= value <= most


def _is_name(longest: int, *, least: int = 1) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and least <= len(value) <= longest and value.isprintable()


def _is_text(value: object) -> bool:
    """A text of any length that can be written to a file."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def _is_hash(value: object) -> bool:
    return isinstance(value, str) and _HASH.fullmatch(value) is not None


def _is_hashes(value: object) -> bool:
    return isinstance(value, list) and len(value) <= MOST_MODELS and all(map(_is_hash, value))


def _is_learning(value: object) -> bool:
    table = table_in(value) or {}
    rate = table.get("learning_rate")
    return (
        isinstance(table.get("algorithm"), str)
        and isinstance(table.get("parameters"), dict)
        and _is_whole(1)(table.get("iteration_limit"))
        and isinstance(rate, int | float)
        and type(rate) is not bool
        and abs(rate) < 1e300
    )


def _is_rates(value: object) -> bool:
    table = table_in(value) or {}
    return set(table) == {"gain", "sample", "round"} and all(
        type(rate) in (int, float) and 0 <= rate < 1e300 for rate in table.values()
    )


def _is_ranges(value: object) -> bool:
    """A JSON list of pairs, in a text."""
    try:
        given = json.loads(value) if isinstance(value, str) else None
    except (ValueError, RecursionError):
        return False
    is_round = _is_whole(1, ROUND_LIMIT)
    return isinstance(given, list) and all(
        isinstance(pair, list) and len(pair) == 2 and all(map(is_round, pair)) for pair in given
    )


_FLAG: Rule = (lambda value: type(value) is bool, "true or false")
_TABLE: Rule = (_is_table, "the text of a JSON object")
_ROUND: Rule = (_is_whole(1, ROUND_LIMIT), f"a whole number from 1 to {ROUND_LIMIT:,}")
_HASHES: Rule = (_is_hashes, "a list of hashes")
_ANY_TEXT: Rule = (_is_text, "a text")
_SIGNED_TEXT: Rule = (lambda value: isinstance(value, str), "a text")  # its content is doubted and kept, if need be

SETTING_RULES: Mapping[str, Rule] = {
    "seed": (_is_whole(0), "a whole number"),
    "rounds": (_is_whole(1, MOST_ROUNDS), f"from 1 to {MOST_ROUNDS}"),
    "settings": _TABLE,
    "metric": (_is_name(_LONGEST_NAME), "a name"),
    "lower_is_better": _FLAG,
    "utility": (lambda value: value in ("gain", "advantage"), "gain or advantage"),
    "figures": (lambda value: value in get_args(FiguresRule), "measured, paired, pooled or forecast"),
    "smooth": _FLAG,
    "learning": (_is_learning, "the text of a JSON object with algorithm, learning_rate, parameters, iteration_limit"),
}
"""Of the fields that the first question of a ledger fixes (see `pinned_settings`)."""

_RULES: Mapping[str, Rule] = {
    **SETTING_RULES,
    "number": (_is_name(100), "a random number as text"),
    "client": (_is_name(_LONGEST_NAME), "a name"),
    "book": (_is_hash, "named by 64 hexadecimal digits"),
    "round": _ROUND,
    "attempt": (_is_name(_LONGEST_ATTEMPT), f"named by 1 to {_LONGEST_ATTEMPT} printable characters"),
    "models": _HASHES,
    "agreed": _TABLE,
    "terms": (_is_name(_LONGEST_HASH, least=0), "the hash of the ledger's terms"),
    "has_baseline": _FLAG,
    "settled_round": (_is_whole(0, ROUND_LIMIT), f"a whole number from 0 to {ROUND_LIMIT:,}"),
    "settled_attempt": (_is_name(_LONGEST_ATTEMPT, least=0), f"up to {_LONGEST_ATTEMPT} printable characters"),
    "settled_model": (lambda value: value == "" or _is_hash(value), "a hash, or empty"),
    "settled_report": _ANY_TEXT,
    "settled_rounds": (_is_ranges, "the text of a JSON list of first and last rounds"),
    "iteration": (_is_whole(1), "a whole number from 1"),
    "whole": _HASHES,
    "parts": _HASHES,
    "opening_model": (_is_hash, "a hash"),  # with `terms`, where a late report is owed
    "adopted": (_is_hash, "a hash"),
    "valuation": (_is_whole(1, ROUND_LIMIT), f"a whole number from 1 to {ROUND_LIMIT:,}"),
    "gains": _TABLE,
    "rates": (_is_rates, "the text of a JSON object with gain, sample and round, numbers of at least 0"),
    "entry": (_is_hash, "the hash of the entry that calls this member silent"),
    "receipt": _ANY_TEXT,
    "statement": (lambda value: isinstance(value, str) and value != "", "a text"),
    "trail": _SIGNED_TEXT,
    "ledger_head": _SIGNED_TEXT,
    "outcome": _SIGNED_TEXT,
}

SETTING_DEFAULTS: Mapping[str, Any] = {"figures": "measured", "smooth": False}  # coordinators of 0.1 lack these
_SETTINGS = tuple(name for name in SETTING_RULES if name not in SETTING_DEFAULTS)
_OPENED = (*_SETTINGS, "round", "attempt", "models")
_SETTLED = ("settled_round", "settled_attempt", "settled_model")
_ENVELOPE = ("number", "client", "book")
_NEEDED: Mapping[str, tuple[str, ...]] = {
    SUMMARISE: _SETTINGS,
    OPEN: (*_OPENED, *_SETTLED, "has_baseline", "agreed", "terms"),
    TRAIN: (*_OPENED, "iteration"),
    EVALUATE: (*_OPENED, "whole", "parts"),
    GRADIENT: _OPENED,
    REPORT: (*_OPENED, "adopted", "valuation"),
    RECEIPT: ("round", "receipt"),
    CLOSE: ("round", "statement", "outcome", *_SETTLED),
}
_ONE_MODEL = (OPEN, TRAIN, GRADIENT)
_NAMES = {"book": "A ledger", "round": "A round", "attempt": "An attempt"}


def fault_of_envelope(kind: str, fields: Mapping[str, Any]) -> str:
    """Why a question cannot be told whose it is and what about; empty if it can."""
    if kind not in _NEEDED:
        return f"There is no question {_shown(kind)}."
    return _first_fault(_ENVELOPE, _ENVELOPE, fields)


def fault_of_rounds(kind: str, fields: Mapping[str, Any]) -> str:
    """Why a question cannot be told whether it goes back; empty if it can."""
    needed = ("round", "settled_round", "settled_attempt") if kind in (OPEN, CLOSE) else ()
    return _first_fault(needed, needed, fields)


def fault_of(kind: str, question: Message) -> str:
    """What is malformed in a question; empty if nothing is. Its envelope is sound."""
    fields, needed = question.fields, _NEEDED[kind]
    # What else comes with a statement or a receipt is not used; before the first round there is no round or attempt.
    used = (*needed, "models", *SIGNED) if kind in (SUMMARISE, RECEIPT, CLOSE) else (*needed, *_RULES)
    checked = tuple(dict.fromkeys(used))
    if fault := _first_fault(checked, needed, fields):
        return fault
    if kind in _ONE_MODEL and len(fields["models"]) != 1:
        return f"A question {kind} needs one model, got {len(fields['models'])}."
    if kind == EVALUATE:
        return _fault_of_evaluation(question)
    return ""


def _first_fault(names: tuple[str, ...], needed: tuple[str, ...], fields: Mapping[str, Any]) -> str:
    for name in names:
        if name in fields or name in needed:
            is_sound, rule = _RULES[name]
            value = fields.get(name)
            if not is_sound(value):
                got = _shown(value) if name in fields else "nothing"
                return f"{_NAMES.get(name, name)} must be {rule}, got {got}."
    return ""


def _fault_of_evaluation(question: Message) -> str:
    whole, parts = question.fields["whole"], question.fields["parts"]
    if not whole and not parts:
        return "A question for an evaluation must name a model, got none."
    if not {*whole, *parts} <= set(question.fields["models"]):
        return "A question for an evaluation must name all its models under `models`, got others."
    if not parts:
        return ""
    rows = question.groups.get("rows", {}).get("rows")
    if (
        not isinstance(rows, np.ndarray)
        or rows.dtype.kind not in "fiu"
        or rows.ndim != 2
        or rows.shape[1] != len(parts)
        or not (np.isfinite(rows).all() and (rows >= 0).all() and (rows > 0).any(axis=1).all())
    ):
        return f"The weights of local models must be rows of {len(parts)} numbers from 0, with one above 0 in each."
    return ""


def _shown(value: object) -> str:
    return ascii(value)[:80]
