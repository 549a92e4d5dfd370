"""The texts of a new federation's files, before names are filled in."""

from __future__ import annotations

from importlib.resources import files
from string import Template

_TEMPLATES = files("commonweal.flower.starting") / "templates"


def template_text(*parts: str, **values: str) -> str:
    """The text of a template with its $names replaced, or unchanged if there are no values."""
    text = _TEMPLATES.joinpath(*parts).read_text(encoding="utf-8")
    return Template(text).substitute(values) if values else text
