"""Messages as Flower carries them.

The fields travel as one JSON text. Arrays are NumPy's, never pickles. Anything else is refused when it is unpacked.
"""

from __future__ import annotations

import json

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from commonweal.errors import FederationError
from commonweal.remote.messages.answer_limit import AnswerLimit
from commonweal.remote.messages.message import Message, fields_text

_FIELDS = "fields"
_SIGNATURE = "seal"  # the name in messages of earlier versions


def to_content(message: Message) -> RecordDict:
    """A message as a Flower message's content."""
    content = RecordDict({_FIELDS: ConfigRecord({"json": fields_text(message.fields), _SIGNATURE: message.signature})})
    for name, group in message.groups.items():
        content[name] = ArrayRecord({key: Array(np.asarray(array, order="C")) for key, array in group.items()})
    return content


def from_content(content: RecordDict) -> Message:
    """The message in a Flower message's content, or a `FederationError`: the sender may have sent anything."""
    try:
        plain = content.config_records[_FIELDS]
        fields, signature = json.loads(str(plain["json"])), plain[_SIGNATURE]
        groups = {
            name: {key: np.array(array.numpy()) for key, array in record.items()}  # writable copies
            for name, record in content.array_records.items()
        }
        if not isinstance(fields, dict) or not isinstance(signature, str) or not all(map(_is_plain, fields.values())):
            raise TypeError("fields must be a table of plain values, and the signature a text")
    except Exception as error:  # Flower and NumPy raise many kinds of errors for malformed records
        raise FederationError(
            f"A message must consist of fields and arrays, got {type(error).__name__}: {error}."
        ) from None
    return Message(fields=fields, groups=groups, signature=signature)


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
