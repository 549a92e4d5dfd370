"""Values as TOML, for files that are written and later edited by hand."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import date, datetime, time

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def toml_value(value: object) -> str:
    """A value that TOML can hold, as it would be written on one line."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # otherwise as in JSON
        case int():
            return str(value)
        case float():
            return repr(value) if math.isfinite(value) else str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case Mapping():
            pairs = (f"{toml_key(str(key))} = {toml_value(one)}" for key, one in value.items())
            return f"{{ {', '.join(pairs)} }}" if value else "{}"
        case list() | tuple():
            return f"[{', '.join(map(toml_value, value))}]"
    raise TypeError(f"TOML has no value like {value!r}")


def toml_key(key: str) -> str:
    """A key, in quotes where it needs them."""
    return key if _BARE_KEY.fullmatch(key) else toml_value(key)


def toml_lines(values: Mapping[str, object]) -> str:
    """One line for each key; a value of None has none."""
    return "".join(f"{toml_key(key)} = {toml_value(value)}\n" for key, value in values.items() if value is not None)
