"""Records as JSON for programs: plain types only, and infinity as text, because JSON has none."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any


def plain(value: Any) -> Any:
    """The value in the types of JSON; infinity is "inf"."""
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    assert not is_dataclass(value), "asdict converts them"
    return value


def json_text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
