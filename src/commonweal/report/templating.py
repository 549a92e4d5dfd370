"""Pages from Jinja2 templates. A page is one file that needs nothing else and sends nothing anywhere.

Every value is escaped, and a missing value is an error. Only drawings enter a page as markup, through the macro
`figure`.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from commonweal.errors import InputError
from commonweal.report.glossary import GLOSSARY
from commonweal.report.inline_svg import colour_variables
from commonweal.report.text import shown

if TYPE_CHECKING:
    from jinja2 import Environment


def render(template: str, **values: object) -> str:
    """The page of a template; the same values give the same text."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError:
        raise InputError("Pages need jinja2, which is not installed: pip install 'commonweal[plot]'.") from None

    def showable(value: object) -> object:
        """Text from users without control characters; markup is left as it is."""
        return shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    environment = Environment(
        loader=PackageLoader("commonweal.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=showable,
        auto_reload=False,  # a page never mixes templates of two versions
    )
    script = (files("commonweal.report") / "templates" / "script.js").read_text(encoding="utf-8")
    environment.globals |= {
        "glossary": GLOSSARY,
        "light_colours": colour_variables(dark=False),
        "dark_colours": colour_variables(dark=True),
        "script": Markup(script),
        "script_digest": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    }
    return environment
