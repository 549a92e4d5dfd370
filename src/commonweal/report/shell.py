"""What every page shares: the style sheet, the script, and the policy by which the browser refuses anything else."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from string import Template

from commonweal.report.inline_svg import colour_variables


def page_from(template: str, **values: str) -> str:
    """The page of a template; values are markup, and what they hold of a user's has been escaped."""
    style = Template(_part("style.css")).substitute(
        light=colour_variables(dark=False), dark=colour_variables(dark=True)
    )
    script = _part("script.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return Template(_part(template)).substitute(
        # The browser itself then refuses any other script and any request.
        policy=f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'",
        style=style,
        script=script,
        **values,
    )


def _part(name: str) -> str:
    return (files("commonweal.report") / "page" / name).read_text(encoding="utf-8")
