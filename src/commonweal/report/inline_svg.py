"""A plot as part of a page: it takes the page's font and follows its light and dark colours."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from commonweal.report.drawing import NARROW, WIDE, Plot, rendered
from commonweal.report.palette import DARK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAMESPACE = re.compile(r"\{.*\}")
_REFERENCE = re.compile(r"url\(#")
_COLOUR = re.compile("|".join(DARK))
_FAMILY = re.compile(r"font-family: [^;]*; ")


@dataclass(frozen=True, slots=True, kw_only=True)
class InlinePlot:
    """A drawn plot for a page."""

    name: str
    title: str
    svg: str  # markup: one or two <svg> elements


def inline_svg(make: Callable[[], Figure], *, name: str, title: str, css_class: str = "figure") -> InlinePlot:
    """The figure as an `<svg>` element; `name` keeps its identifiers apart from those of the page's other plots.

    Edits the tree rather than the text, because a client may be called `url(#x)`.
    """
    root = ElementTree.fromstring(rendered(make, "svg", name=name, transparent=True))
    for parent in root.iter():
        parent.tag = _NAMESPACE.sub("", parent.tag)
        for child in [child for child in parent if child.tag.endswith(("metadata", "style"))]:
            parent.remove(child)  # a style element would apply to the whole page
        attributes = {_NAMESPACE.sub("", key): value for key, value in parent.items()}
        if parent.tag == "g":
            attributes.pop("id", None)  # nothing refers to the id of a group
        parent.attrib = {key: _adapted(key, value, name) for key, value in attributes.items()}
    box = root.attrib["viewBox"]
    _, _, width, height = box.split()
    root.attrib = {
        "viewBox": box, "width": width, "height": height, "class": css_class, "role": "img", "aria-label": title,
    }  # fmt: skip
    return InlinePlot(name=name, title=title, svg=ElementTree.tostring(root, encoding="unicode"))


def in_both_widths(plot: Plot, *, title: str | None = None) -> InlinePlot:
    """Two drawings, for wide and for narrow pages; the style sheet shows one of them."""
    title = plot.title if title is None else title
    drawings = [
        inline_svg(
            lambda width=width: plot.draw(width),  # type: ignore[misc]
            name=f"{plot.name}-{kind}",
            title=title,
            css_class=f"figure {kind}",
        )
        for kind, width in (("wide", WIDE), ("narrow", NARROW))
    ]
    return InlinePlot(name=plot.name, title=title, svg="".join(drawing.svg for drawing in drawings))


def at_phone_width(plot: Plot, *, title: str | None = None) -> InlinePlot:
    """One drawing for all pages, for a plot that fits on a phone."""
    return inline_svg(lambda: plot.draw(NARROW), name=plot.name, title=plot.title if title is None else title)


def colour_variables(*, dark: bool) -> str:
    """The CSS variables for the plots' colours."""
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
