"""A figure as part of a page: it takes the page's font and follows its light and dark colours."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from commonweal.report.drawing import rendered
from commonweal.report.palette import DARK
from commonweal.report.panels import NARROW, WIDE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAMESPACE = re.compile(r"\{.*\}")
_REFERENCE = re.compile(r"url\(#")
_COLOUR = re.compile("|".join(DARK))
_FAMILY = re.compile(r"font-family: [^;]*; ")


def inline_svg(make: Callable[[], Figure], *, name: str, title: str, css_class: str) -> str:
    """The figure as an `<svg>` element; `name` keeps its identifiers apart from those of the page's other figures.

    The tree is edited, not the text: a client may be called `url(#x)`.
    """
    root = ElementTree.fromstring(rendered(make, "svg", name=name, transparent=True))
    for parent in root.iter():
        parent.tag = _NAMESPACE.sub("", parent.tag)
        for child in [child for child in parent if child.tag.endswith(("metadata", "style"))]:
            parent.remove(child)  # a style element would hold for the whole page
        attributes = {_NAMESPACE.sub("", key): value for key, value in parent.items()}
        if parent.tag == "g":
            attributes.pop("id", None)  # nothing refers to a group
        parent.attrib = {key: _adapted(key, value, name) for key, value in attributes.items()}
    box = root.attrib["viewBox"]
    _, _, width, height = box.split()
    root.attrib = {
        "viewBox": box, "width": width, "height": height, "class": css_class, "role": "img", "aria-label": title,
    }  # fmt: skip
    return ElementTree.tostring(root, encoding="unicode")


def in_both_widths(draw: Callable[[float], Figure], *, name: str, title: str) -> str:
    """A figure in two drawings, for wide and for narrow pages; the style sheet shows one of them."""
    return "".join(
        inline_svg(lambda width=width: draw(width), name=f"{name}-{kind}", title=title, css_class=f"figure {kind}")  # type: ignore[misc]
        for kind, width in (("wide", WIDE), ("narrow", NARROW))
    )


def colour_variables(*, dark: bool) -> str:
    """The CSS variables to which the figures' colours are bound."""
    return " ".join(f"{_variable(light)}: {at_night if dark else light};" for light, at_night in DARK.items())


def _adapted(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key == "href":
        return value.replace("#", f"#{name}-", 1)
    if key == "clip-path":
        return _REFERENCE.sub(f"url(#{name}-", value)
    if key == "style":
        return _COLOUR.sub(lambda colour: f"var({_variable(colour[0])})", _FAMILY.sub("", value))
    return value


def _variable(colour: str) -> str:
    return f"--ink-{colour[1:]}"
