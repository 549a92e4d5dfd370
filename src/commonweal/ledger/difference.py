"""Where two documents part, for a message that names it."""

from __future__ import annotations

from typing import Any


def first_difference(before: Any, now: Any, path: str = "") -> tuple[str, str, str] | None:
    """The first field that differs, with both values as text; None if there is none.

    Rows of a list that state their client are named by it.
    """
    if isinstance(before, dict) and isinstance(now, dict):
        for name in dict.fromkeys((*now, *before)):  # `now` has the order of a reader
            inner = f"{path}.{name}" if path else name
            if name not in before or name not in now:
                return inner, _text(before.get(name)), _text(now.get(name))
            found = first_difference(before[name], now[name], inner)
            if found is not None:
                return found
        return None
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for place, (one, other) in enumerate(zip(before, now, strict=True)):
            found = first_difference(one, other, f"{path}[{_row_name(one, place)}]")
            if found is not None:
                return found
        return None
    # A float and a whole number that are equal are written alike.
    same = before == now and isinstance(before, bool) == isinstance(now, bool)
    return None if same else (path, _text(before), _text(now))


def _row_name(row: Any, place: int) -> str:
    return str(row["client"]) if isinstance(row, dict) and "client" in row else str(place)


def _text(value: Any) -> str:
    text = str(value) if value is not None else "missing"
    return text if len(text) <= 80 else text[:77] + "..."
