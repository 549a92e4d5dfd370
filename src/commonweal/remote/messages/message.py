"""What Flower carries between coordinator and member: plain fields and groups of arrays.

The fields travel as one JSON text. Arrays are NumPy's, never pickles. Anything else is refused when it is unpacked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from commonweal.errors import FederationError
from commonweal.remote.messages.models import Model, fingerprint

_FIELDS = "fields"
_SEAL = "seal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """A question or an answer. A group of arrays is a model, or figures by sample."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    groups: Mapping[str, Model] = field(default_factory=dict)
    seal: str = ""  # the sender's signature, of answers

    def digest(self) -> str:
        """SHA-256 over all but the seal."""
        content = hashlib.sha256(_text(self.fields).encode())
        for name in sorted(self.groups):
            content.update(json.dumps([name, fingerprint(self.groups[name])]).encode())
        return content.hexdigest()


def to_content(parcel: Parcel) -> RecordDict:
    content = RecordDict({_FIELDS: ConfigRecord({"json": _text(parcel.fields), _SEAL: parcel.seal})})
    for name, group in parcel.groups.items():
        content[name] = ArrayRecord({key: Array(np.asarray(array, order="C")) for key, array in group.items()})
    return content


def from_content(content: RecordDict) -> Parcel:
    """The parcel, or an `FederationError`: whoever sent it may have sent anything."""
    try:
        plain = content.config_records[_FIELDS]
        fields, seal = json.loads(str(plain["json"])), plain[_SEAL]
        groups = {
            name: {key: np.array(array.numpy()) for key, array in record.items()}  # writable copies
            for name, record in content.array_records.items()
        }
        if not isinstance(fields, dict) or not isinstance(seal, str) or not all(map(_is_plain, fields.values())):
            raise TypeError("fields must be a table of plain values and the seal a text")
    except Exception as error:  # Flower and NumPy raise many kinds for malformed records
        raise FederationError(
            f"a parcel must hold fields and arrays, got {type(error).__name__}: {error}; send it whole"
        ) from None
    return Parcel(fields=fields, groups=groups, seal=seal)


def _is_plain(value: object) -> bool:
    """A text, a number or a list of texts: nested values could be deeper than they can be written again."""
    if isinstance(value, list):
        return all(isinstance(each, str) for each in value)
    return value is None or isinstance(value, str | int | float)


def _text(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))
