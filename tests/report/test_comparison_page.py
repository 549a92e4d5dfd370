"""The page, the JSON and the sentences of a comparison that is made up."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from commonweal.records.comparison import COLUMNS
from commonweal.records.study import Interval
from commonweal.report.comparison_json import to_document, to_json
from commonweal.report.comparison_page import to_page, write_comparison
from commonweal.report.comparison_plots import comparison_plots
from commonweal.report.comparison_text import balance_text, best_lie, best_lie_text, sentences, truth_text
from commonweal.report.drawing import NARROW, WIDE
from tests.comparison.made import made_comparison

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def comparison():
    return made_comparison()


def row(comparison, name):
    return next(one for one in comparison.mechanisms if one.name == name)


def with_values(mechanism, **values):
    figures = {
        name: replace(mechanism.figures[name], mean=Interval(value=value, lower=value, upper=value))
        for name, value in values.items()
    }
    return replace(mechanism, figures={**mechanism.figures, **figures})


def test_page_is_one_file_with_every_mechanism(comparison):
    page = to_page(comparison)
    assert page == to_page(comparison)
    assert "http" not in page.replace("http://www.w3.org", "").replace("http-equiv", "")
    assert "made &lt;up&gt;" in page
    assert "It needs &lt;something&gt;." in page
    for one in comparison.mechanisms:
        assert page.count(f"<bdi>{one.name}</bdi>") >= 8
        assert one.label in unescape(page)
    assert "model quality is not carried out" in page


def test_ticks_of_the_paper_stand_beside_what_was_measured(comparison):
    page = to_page(comparison)
    table = page[page.index('id="table-one"') : page.index("What the columns mean")]

    def ticks(name):
        found = re.search(rf"<bdi>{name}</bdi>.*?</tr>", table, re.DOTALL)
        return "".join(re.findall("[✓✗]", found[0]))

    assert ticks("paper") == "✓✓✓✓✓✓"
    assert ticks("zhang") == "✗✗✗✓✗✗"
    assert ticks("tang-wong") == "✗✗✗✓✓✗"
    assert ticks("kang-contract") == "✓✓✗✓✓✗"
    assert ticks("zhan") == "✓✗✗✗✗✗"
    assert ticks("fli") == ticks("clarke") == ""


def test_what_cannot_be_tested_is_said():
    comparison = made_comparison(is_heterogeneous=False, truth="the task has no samples to spare")
    page = to_page(comparison)
    assert page.count("not testable here") == len(comparison.mechanisms)
    assert "in figures as measured, because the task has no samples to spare." in truth_text(comparison)
    assert "in figures as measured" in sentences(comparison)[0]


def test_balance_in_words(comparison):
    one = row(comparison, "clarke")
    assert balance_text(with_values(one, balanced_rounds=1.0, funded_rounds=1.0, external=0.0)) == "strict"
    assert balance_text(with_values(one, balanced_rounds=0.9, funded_rounds=1.0, external=0.5)) == "weak"
    assert balance_text(with_values(one, balanced_rounds=0.5, funded_rounds=0.9, external=-0.25)) == "no, −0.250"


def test_the_lie_that_pays_most(comparison):
    one = row(comparison, "paper")
    gains = {lie.name: lie.gain.value for lie in one.lies}
    assert best_lie(one).name == max(gains, key=gains.get)
    leaving = replace(one.lies[0], name="exit", gain=Interval(value=9.0, lower=9.0, upper=9.0))
    assert best_lie(replace(one, lies=(*one.lies, leaving))) == best_lie(one)
    losing = tuple(replace(lie, gain=Interval(value=-0.1, lower=-0.2, upper=0.0)) for lie in one.lies)
    assert best_lie_text(replace(one, lies=losing)) == "none pays"
    planning = replace(row(comparison, "zhang"), lies=losing)
    assert best_lie_text(planning) == "none in money"
    assert "none in money, of those tried" in to_page(replace(comparison, mechanisms=(planning,)))
    assert best_lie_text(row(comparison, "cgsv")) == "–"


def test_sentences_name_those_of_whom_a_promise_holds(comparison):
    rows = tuple(with_values(one, rational_clients=float(one.name == "fli")) for one in comparison.mechanisms)
    assert "Nobody who took part ends below zero under: fli." in sentences(replace(comparison, mechanisms=rows))


def test_json_has_what_the_reference_describes(comparison):
    document = json.loads(to_json(comparison))
    assert document == json.loads(json.dumps(to_document(comparison)))
    reference = (ROOT / "docs/reference/comparison-json.md").read_text()
    described = [
        set(re.findall(r"`([a-z_]+)(?:\[\])?`", " ".join(re.findall(r"^\| (.+?) \|", part, re.MULTILINE))))
        for part in reference.split("\n\n")
    ]
    top, mechanism, columns = [names for names in described if names]
    assert set(document) == top
    assert all(set(one) == mechanism for one in document["mechanisms"])
    assert {column.name for column in COLUMNS} == set(document["columns"]) == columns


def test_figures_are_drawn_at_both_widths_even_of_nothing(comparison, tmp_path):
    for given in (comparison, replace(comparison, mechanisms=())):
        for plot in comparison_plots(given):
            for width in (WIDE, NARROW):
                assert plot.draw(width).axes or not given.mechanisms
    written = write_comparison(comparison, tmp_path)
    assert [path.name for path in written] == [
        "comparison.html", "comparison.json", "welfare-fairness.png", "welfare-fairness.svg", "lies.png", "lies.svg",
    ]  # fmt: skip
