"""Pieces of HTML. Whatever a user wrote passes through `text`; what is called markup is already safe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from commonweal.records import Estimate
from commonweal.report.number_text import MISSING, number, with_error
from commonweal.report.shown_names import shown
from commonweal.report.terms import TERMS


def text(value: object) -> str:
    """Anything as markup that shows it and does nothing else."""
    return escape(shown(str(value)), quote=True)


def term(word: str, shown_as: str | None = None) -> str:
    """A word with its explanation as a tooltip."""
    return f'<abbr title="{text(TERMS[word])}">{text(shown_as or word)}</abbr>'


def name_markup(client: str) -> str:
    """A client's name, kept apart from the writing direction of its surroundings."""
    return f"<bdi>{text(client)}</bdi>"


def table(*, label: str, headings: Sequence[str], rows: Iterable[str], css_class: str = "") -> str:
    """A table that scrolls in a box of its own when the page is narrow; headings and rows are markup."""
    head = "".join(f'<th scope="col">{heading}</th>' for heading in headings)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{text(label)}"><table class="{css_class}">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def row(heading: str, cells: Iterable[str], css_class: str = "") -> str:
    """A table row; heading and cells are markup."""
    kind = f' class="{css_class}"' if css_class else ""
    return f'<tr{kind}><th scope="row">{heading}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def definitions(entries: Mapping[str, str], css_class: str) -> str:
    """A list of words and what they stand for, both as users wrote them."""
    inner = "".join(f"<div><dt>{text(word)}</dt><dd>{text(meaning)}</dd></div>" for word, meaning in entries.items())
    return f'<dl class="{css_class}">{inner}</dl>'


def estimate_markup(estimate: Estimate | None, *, decimals: int | None = None, signed: bool = False) -> str:
    """value ± error, the error in a quieter ink."""
    if estimate is None:
        return MISSING
    value, _, error = with_error(estimate, decimals=decimals, signed=signed).partition(" ± ")
    return f'{value}<span class="error"> ± {error}</span>' if error else value


def amount_markup(amount: float | None, *, decimals: int | None = None, signed: bool = True) -> str:
    return MISSING if amount is None else number(amount, decimals=decimals, signed=signed)
