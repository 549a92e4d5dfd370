"""Reads the page back from its Markdown, to check what it says against what it rests on."""

from __future__ import annotations

import re

SYMBOLS = {"✓": "held", "✗": "not held", "?": "undecided", "–": "not testable"}


def sections(page: str) -> dict[str, str]:
    """The text below each heading."""
    parts = re.split(r"^## (.+)\n", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def table_rows(text: str) -> list[list[str]]:
    """All rows of a text's tables, headings included."""
    lines = [line for line in text.splitlines() if line.startswith("|") and not line.startswith("|---")]
    return [[cell.strip().replace("\\", "") for cell in line.strip("|").split(" | ")] for line in lines]


def verdicts(section: str) -> list[tuple[str, str, str, str]]:
    """(claim, experiment, column, verdict) of every result that a section shows."""
    found = []
    for claim, text in re.findall(r"^\*\*(C\d+[a-z]?)\*\*:(.*?)(?=^> |^\*\*C|\Z)", section, re.MULTILINE | re.DOTALL):
        heads, *rows = table_rows(text)
        for row in rows:
            for column, cell in zip(heads[1:], row[1:], strict=True):
                if cell:
                    found.append((claim, row[0], column, SYMBOLS[cell[0]]))
    return found


def word(found: set[str]) -> str:
    """What the page must call such a set of verdicts."""
    found = found - {"not testable"}
    if not found:
        return "not testable"
    if found == {"held"}:
        return "agrees"
    if "not held" not in found:
        return "undecided"
    return "agrees in part" if "held" in found else "disagrees"


def check_words(page: str) -> int:
    """Every word at a glance follows from the verdicts in the section of that name; returns how many there are."""
    parts = sections(page)
    heads, *rows = table_rows(parts["At a glance"])
    checked = 0
    for name, _, *words in rows:
        shown = verdicts(parts[name])
        for column, said in zip(heads[2:], words, strict=True):
            if shown:
                assert said == word({verdict for _, _, where, verdict in shown if where == column}), (name, column)
                checked += 1
    return checked
