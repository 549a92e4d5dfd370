"""Messages as Flower carries them.

The fields travel as one JSON text. Arrays are NumPy's, never pickles. Anything else is refused when it is unpacked.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from commonweal.errors import FederationError
from commonweal.remote.messages.answer_limit import AnswerLimit
from commonweal.remote.messages.message import Message, fields_text

_MOST_DIGITS = 1000
_FIELDS = "fields"
_SIGNATURE = "seal"  # the name in messages of earlier versions


class UnreadableError(FederationError):
    """Nothing can be read of a message; `text` is what stands in the place of its fields."""

    def __init__(self, fault: str, text: str) -> None:
        super().__init__(fault)
        self.text = text


def to_content(message: Message) -> RecordDict:
    """A message as a Flower message's content."""
    content = RecordDict({_FIELDS: ConfigRecord({"json": fields_text(message.fields), _SIGNATURE: message.signature})})
    for name, group in message.groups.items():
        content[name] = ArrayRecord({key: Array(np.asarray(array, order="C")) for key, array in group.items()})
    return content


def from_content(content: RecordDict) -> Message:
    """The message in a Flower message's content, or a `FederationError`: the sender may have sent anything."""
    message = question_in(content)
    if message.fault:
        raise FederationError(message.fault)
    return message


def question_in(content: RecordDict) -> Message:
    """As `from_content`, but what cannot be read is left out and told as the message's `fault`.

    A member takes in what the operator signed before it refuses the rest. Fields that are not plain are read as text,
    and so are all values of a field that is there more than once. If nothing can be read, it raises `UnreadableError`.
    """
    text = ""
    try:
        plain = content.config_records[_FIELDS]
        text, signature = str(plain["json"]), plain.get(_SIGNATURE)
        given = json.loads(text, object_pairs_hook=_table, parse_int=_whole_number)
        if not isinstance(given, dict):
            raise TypeError("fields must be a table")
    except Exception as error:  # Flower raises many kinds of errors for malformed records
        raise UnreadableError(_fault(f"{type(error).__name__}: {error}"), text) from None
    faults = [f"a nested field {ascii(name)[:80]}" for name, value in given.items() if not _is_plain(value)]
    fields = {name: value if _is_plain(value) else _text(value, text) for name, value in given.items()}
    if not isinstance(signature, str):
        faults.append("a signature that is no text")
        signature = ""
    groups = {}
    for name, record in content.array_records.items():
        try:
            groups[name] = {key: np.array(array.numpy()) for key, array in record.items()}  # writable copies
        except Exception as error:  # so does NumPy
            faults.append(f"{type(error).__name__}: {error}")
    return Message(fields=fields, groups=groups, signature=signature, fault=_fault(faults[0]) if faults else "")


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A table of JSON; Python would keep only the last of several values under one name."""
    values: dict[str, list[Any]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return {name: given[0] if len(given) == 1 else {"repeated": given} for name, given in values.items()}


def _fault(found: str) -> str:
    return f"A message must consist of plain fields and arrays, got {found}."


def _text(value: object, whole: str) -> str:
    """The value as text; all of the fields if it is nested so deeply that it cannot be written: none must be lost."""
    try:
        return json.dumps(value)
    except RecursionError:
        return whole


def _whole_number(digits: str) -> int | float:
    """Python refuses to read integers of more than 4,300 digits, and one must not make the rest unreadable."""
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


def fault_of_content(content: RecordDict, limit: AnswerLimit) -> str | None:
    """Why an answer is refused for its sizes, before any of it is decoded; None if it is not."""
    try:
        fields = content.config_records.get(_FIELDS, ConfigRecord())
        sizes = {name: [len(array.data) for array in group.values()] for name, group in content.array_records.items()}
        for name, record in content.items():
            if name != _FIELDS and name not in sizes:
                sizes[name] = [record.count_bytes()]  # a record without arrays
        return limit.fault_of(len(str(fields.get("json", ""))), sizes)
    except Exception as error:  # Flower raises many kinds of errors for malformed records
        return f"its answer could not be read: {type(error).__name__}"


def _is_plain(value: object) -> bool:
    """Whether a value is a string, a number or a list of strings: deeper nesting could exceed the recursion limit."""
    if isinstance(value, list):
        return all(isinstance(each, str) for each in value)
    return value is None or isinstance(value, str | int | float)
