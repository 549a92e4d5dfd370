"""The files that `commonweal flower new` and `member` write, kept as files so that their code is checked."""

from __future__ import annotations

from importlib.resources import files
from string import Template

_FOLDER = files("commonweal.flower.starting") / "templates"


def template_text(*parts: str, **values: str) -> str:
    """A template's text, with its $names replaced; without values, as it is."""
    text = _FOLDER.joinpath(*parts).read_text(encoding="utf-8")
    return Template(text).substitute(values) if values else text
