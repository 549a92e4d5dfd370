"""What a reader gets of a study: a complete page, and the study's numbers."""

from __future__ import annotations

import json
import math
import re
import shutil
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest

from commonweal.errors import StorageError
from commonweal.records import MuRange
from commonweal.records.study import Interval
from commonweal.report.glossary import STUDY_GLOSSARY
from commonweal.report.inline_svg import InlinePlot
from commonweal.report.study import page as study_page
from commonweal.report.study.plots import plots
from commonweal.report.study.summary_json import FIELDS, SCHEMA, to_document, to_json
from commonweal.report.study.tables import changed_verdicts, markdown_tables, tables_of, to_markdown
from commonweal.report.study.text import NO_RECOMMENDATION, interval_text, range_text, threshold_text
from tests.report import artificial_study
from tests.report.test_run_page import Outline

BY_NAME = {"facts", "durations"}  # objects whose keys are the user's
SAME_FIELDS = {"alternatives[]": "experiments[]", "alternative_findings[]": "findings[]"}


@pytest.fixture(scope="module")
def page(study_folders):
    return (study_folders["study"] / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def document(study):
    return to_document(study)


@pytest.fixture
def undrawn(monkeypatch):
    """Pages with empty drawings, for tests of their text: drawing takes seconds."""

    def empty(plot, *, title=None):
        return InlinePlot(name=plot.name, title=title or plot.title, svg="<svg></svg>")

    monkeypatch.setattr(study_page, "in_both_widths", empty)
    monkeypatch.setattr(study_page, "at_phone_width", empty)


def field_paths(value, path=""):
    if isinstance(value, list):
        here = {f"{path}[]"} if value else set()
        return here | {found for inner in value for found in field_paths(inner, f"{path}[]")}
    if not isinstance(value, dict) or set(value) == {"value", "lower", "upper"} or "includes_lower" in value:
        return {path}
    if path.rpartition(".")[2] in BY_NAME or path.endswith("recommendations[].step"):
        return {path}
    here = {path} if path else set()
    return here | {found for key, inner in value.items() for found in field_paths(inner, f"{path}.{key}".lstrip("."))}


def test_everything_is_written_and_reported_as_written(study, study_folders, tmp_path):
    folder = study_folders["bare"]
    written = study_page.write_study(artificial_study.bare(), tmp_path)
    assert sorted(written) == sorted(path for path in tmp_path.rglob("*") if path.is_file())
    for path in written:
        assert path.read_bytes() == (folder / path.relative_to(tmp_path)).read_bytes(), path
    found = {str(path.relative_to(study_folders["study"])) for path in study_folders["study"].rglob("*.*")}
    drawn = {f"figures/{name}.{kind}" for name in plots(study) for kind in ("png", "svg")}
    assert found == drawn | {"report.html", "summary.json", "summary.md"}


def test_an_interrupt_leaves_the_old_report_whole(study, study_folders, tmp_path, monkeypatch):
    shutil.copytree(study_folders["bare"], tmp_path, dirs_exist_ok=True)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    samples = plots(study)["samples"]
    monkeypatch.setattr(study_page, "to_page", lambda _: "a new page")
    monkeypatch.setattr(
        study_page, "plots", lambda _: {"samples": samples, "last": replace(samples, name="last", draw=interrupted)}
    )
    with pytest.raises(KeyboardInterrupt):
        study_page.write_study(study, tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before


def test_a_folder_that_does_not_exist_is_refused(study, tmp_path):
    with pytest.raises(StorageError, match=r"Cannot write the report: the folder .*nowhere' does not exist"):
        study_page.write_study(study, tmp_path / "nowhere")


def test_names_do_not_leave_the_folder(study_folders):
    figures = study_folders["rude"] / "figures"
    assert all(re.fullmatch(r"[a-z0-9-]+\.(png|svg)", path.name) for path in figures.iterdir())


def test_the_page_has_every_result(page, study):
    text = Outline(page).text
    for finding in (*study.findings, *study.alternative_findings):
        assert f"{finding.claim} " in text
        assert finding.statement in text
        assert finding.effect in text
        assert finding.variant in text
        assert finding.driver in text
    for verdict in ("✓ held", "✗ not held", "? undecided"):
        assert verdict in text
    for word, meaning in STUDY_GLOSSARY.items():
        assert word in text
        assert meaning in text
    for fact, value in study.facts.items():
        assert fact in text
        assert value in text


def test_claims_by_experiment_come_before_every_single_test(page, document):
    section = page[page.index('<section id="claims"') : page.index('<section id="choices"')]
    first, _, rest = section.partition("<details")
    assert "Claims by experiment" in first
    assert first.count('<span class="verdict') == len(document["findings"])
    assert '<span class="verdict not-held" title="not held">✗</span> −0.142<span class="error"> (−0.192 to' in first
    assert 'class="figures claims"' not in first
    assert 'class="figures claims"' in rest
    assert "<details open" not in section


def test_the_page_shows_what_another_choice_changes(page, document):
    changed = changed_verdicts(document)
    assert [(row[0], row[4]) for row in changed.rows] == [("C7", "raw contributions"), ("C8", "TSFI of the final set")]
    assert changed.rows[0][2] == "−0.120 (−0.210 to −0.030); n = 8"  # on the same replications, not on all
    assert "2 of 3 tests under another choice changed the verdict." in page


def test_the_note_on_the_data_is_in_every_section_with_its_results(page):
    sections = re.findall(
        r'<section id="(?:claims|choices|experiment-het|frontier|cost|facts).*?</section>', page, re.S
    )
    assert len(sections) == 6
    for section in sections:
        assert artificial_study.REBUILT in section
    own = page[page.index('<section id="experiment-heterogeneous"') :]
    for svg in re.findall(r"<svg.*?</svg>", own[: own.index("</section>")], re.S):
        assert f">{artificial_study.REBUILT}<" in svg  # drawn, and said to those who cannot see it
        assert re.search(f'aria-label="[^"]*{artificial_study.REBUILT}', svg)


@pytest.mark.parametrize("name", ["study", "bare", "rude"])
def test_pages_are_sound_and_fetch_nothing(study_folders, name):
    page = (study_folders[name] / "report.html").read_text(encoding="utf-8")
    outline = Outline(page)
    assert len(outline.ids) == len(set(outline.ids))
    assert outline.tags.count("h1") == 1
    levels = [int(tag[1]) for tag in outline.tags if re.fullmatch("h[1-6]", tag)]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    linked = [(tag, value) for tag, key, value in outline.attributes if key in ("src", "href")]
    assert not [value for _, value in linked if not value.startswith(("#", "data:"))]
    assert {value[1:] for tag, value in linked if tag == "a"} <= set(outline.ids)
    assert "default-src 'none'" in page
    style = page[page.index("<style>") : page.index("</style>")]
    assert not re.search(r"url\((?!#)|@import", style)
    assert "nan" not in outline.text.lower().split()
    labelled = [tag for tag, key, value in outline.attributes if tag == "svg" and key == "aria-label" and value]
    assert len(labelled) == outline.tags.count("svg") >= 6


def test_text_from_users_is_shown_and_does_nothing(study_folders, rude_study, page):
    outline = Outline((study_folders["rude"] / "report.html").read_text(encoding="utf-8"))
    assert set(outline.tags) <= set(Outline(page).tags)
    assert outline.tags.count("script") == 1
    assert not [key for _, key, _ in outline.attributes if key.startswith("on")]
    assert rude_study.title in outline.text
    for client in rude_study.experiments[0].clients:
        assert client in outline.text
    assert artificial_study.ODD_NAME in Outline(page).text


def test_the_summary_is_the_document_with_keys_in_order(study_folders, document):
    text = (study_folders["study"] / "summary.json").read_text(encoding="utf-8")

    def refuse(constant):
        raise AssertionError(constant)

    def in_order(pairs):
        assert [key for key, _ in pairs] == sorted(key for key, _ in pairs)
        return dict(pairs)

    read = json.loads(text, parse_constant=refuse, object_pairs_hook=in_order)
    assert read == document
    assert read["schema"] == SCHEMA == "commonweal.study/1"
    assert read["experiments"][0]["outcomes"][-1]["mu"] == "inf"
    assert read["experiments"][0]["steps"][-1]["mus"]["lower"] == "inf"


def test_the_summary_has_the_numbers_of_the_study(study, document):
    def same(written, interval):
        return Interval(**written) == interval

    for experiment, written in zip(study.experiments, document["experiments"], strict=True):
        for outcome, at in zip(experiment.outcomes, written["outcomes"], strict=True):
            assert all(same(at["durations"][client], outcome.durations[client]) for client in experiment.clients)
            assert all(map(same, at["tsw"], outcome.tsw))
            assert all(map(same, at["tsfi"], outcome.tsfi))
        for step, at in zip(experiment.steps, written["steps"], strict=True):
            assert float(at["mus"]["lower"]) == step.mus.lower
            assert same(at["tsw"], step.tsw)
            assert same(at["tsfi"], step.tsfi)
    for finding, written in zip(study.findings, document["findings"], strict=True):
        assert same(written["interval"], finding.interval)
        assert written["verdict"] == finding.verdict


def test_every_field_of_the_summary_is_documented_and_every_documented_field_is_there(document):
    found = field_paths(document)
    for alias, name in SAME_FIELDS.items():
        found = {name + path.removeprefix(alias) if path.startswith(f"{alias}.") else path for path in found}
    listed = {re.sub(r"\[\]$", "", path) for path in FIELDS}
    assert {re.sub(r"\[\]$", "", path) for path in found} == listed


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        ((5.41, 4.79, 6.03), "5.41 (4.79 to 6.03)"),
        ((-0.01785, -0.03821, -0.00045), "−0.0179 (−0.0382 to −0.0004)"),
        ((1.0, 1.0, 1.0), "1.00"),
        ((0.0, 0.0, 0.0), "0.000"),
        ((1234.0, 1200.0, 1300.0), "1234 (1200 to 1300)"),
    ],
)
def test_an_interval_in_words(interval, expected):
    assert interval_text(*interval) == expected


def test_a_threshold_next_to_1_is_distinguished_from_1():
    assert threshold_text(1.0) == "1"
    assert threshold_text(0.25) == "0.25"
    assert threshold_text(math.nextafter(1, 0)) == "just below 1"
    assert threshold_text(math.nextafter(-1, 0)) == "just above −1"


def cells(table):
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table.splitlines()]


def numbers(cell):
    return [float(found.replace("−", "-")) for found in re.findall(r"[−-]?\d+\.?\d*(?:e-?\d+)?", cell)]


def test_the_markdown_has_the_numbers_of_the_study(study, document):
    made = markdown_tables(document)
    for experiment in study.experiments:
        rows = cells(made[f"durations/{experiment.name}"])[2:]
        for client, row in zip(experiment.clients, rows, strict=True):
            for outcome, cell in zip(experiment.outcomes, row[1:], strict=True):
                mean = outcome.durations[client]
                expected = [mean.value] if mean.lower == mean.upper else [mean.value, mean.lower, mean.upper]
                assert numbers(cell) == pytest.approx(expected, abs=0.0051)
        for outcome, row in zip(experiment.outcomes, cells(made[f"outcomes/{experiment.name}"])[2:], strict=True):
            assert numbers(row[1])[0] == pytest.approx(outcome.tsw[-1].value, abs=0.00051)
            assert numbers(row[2])[0] == pytest.approx(outcome.welfare_of_all.value, abs=0.00051)
            assert numbers(row[3])[0] == pytest.approx(outcome.tsfi[-1].value, abs=0.00051)
    for finding, row in zip(study.findings, cells(made["claims"])[2:], strict=True):
        assert row[0] == finding.claim
        assert numbers(row[4])[0] == pytest.approx(finding.interval.value, rel=0.005)
        assert row[6].endswith(finding.verdict)
    targets = [r for experiment in study.experiments for r in experiment.recommendations]
    for recommendation, row in zip(targets, cells(made["recommendations"])[2:], strict=True):
        assert numbers(row[1]) == [recommendation.fairness_target]
        if recommendation.step is None:
            assert row[2:5] == ["–", "–", "–"]
        else:
            assert row[2] == range_text(recommendation.step.mus)
            assert numbers(row[3])[0] == pytest.approx(recommendation.step.tsw.value, abs=0.00051)


@pytest.mark.parametrize("name", ["study", "bare", "rude"])
def test_the_markdown_needs_only_the_summary_file(study_folders, name):
    folder = study_folders[name]
    read = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    markdown = to_markdown(read)
    assert (folder / "summary.md").read_text(encoding="utf-8") == markdown
    for table, text in markdown_tables(read).items():
        assert text in markdown, table
        widths = {len(row) for row in cells(text)}
        assert len(widths) == 1, table
    assert len(markdown_tables(read)) == len(tables_of(read))


def test_the_markdown_shows_notes_and_odd_names(document):
    markdown = to_markdown(document)
    assert markdown.count(artificial_study.REBUILT) >= 7
    assert '&lt;b>&amp;"' in markdown
    assert "0 (least lenient)" in markdown
    assert "inf (most lenient)" in markdown
    assert "<b>" not in markdown


def test_a_study_without_findings_says_so(study_folders):
    text = Outline((study_folders["bare"] / "report.html").read_text(encoding="utf-8")).text
    for sentence in ("No claim was tested.", "No claim was tested under another choice.", "No replication covered"):
        assert sentence in text


@pytest.mark.usefixtures("undrawn")
def test_experiments_run_only_under_another_rule_are_shown_as_the_experiments():
    study = artificial_study.raw_only()
    outline = Outline(study_page.to_page(study))
    text = outline.text
    assert "2 experiments, under raw contributions only, with 8 replications each at 7 values of mu" in text
    assert "No claim was tested. Claims are tested with clip contributions, the default." in text
    assert {"experiment-heterogeneous", "experiment-label-noise"} <= set(outline.ids)
    assert {"figure-frontier", "figure-label-noise-axis"} <= set(outline.ids)
    assert "heterogeneous (raw contributions)" in text
    assert artificial_study.REBUILT in text
    read = json.loads(to_json(to_document(study)))
    assert read["experiments"] == []  # for programs they remain what they are
    assert len(read["alternatives"]) == 2
    made = markdown_tables(read)
    assert "durations/label-noise/raw" in made
    recommended = cells(made["recommendations"])[2:]
    assert [row[2] for row in recommended if row[0] == "heterogeneous"] == [NO_RECOMMENDATION]
    assert len([row for row in recommended if row[0] == "label-noise"]) == 4


@pytest.mark.usefixtures("undrawn")
def test_an_experiment_run_only_under_another_rule_is_shown_beside_the_others(study):
    lone = artificial_study.raw_only().alternatives[1]
    mixed = replace(study, experiments=study.experiments[:2], alternatives=(*study.alternatives, lone))
    page = Outline(study_page.to_page(mixed)).text
    assert "3 experiments, 1 of them under raw contributions only, with 8 to 20 replications each" in page
    assert "The same with raw contributions" in page


@pytest.mark.usefixtures("undrawn")
def test_a_study_of_nothing_says_so(study):
    page = Outline(study_page.to_page(replace(study, experiments=(), alternatives=(), findings=()))).text
    assert "No experiment was run." in page


@pytest.mark.usefixtures("undrawn")
def test_pages_of_replications_without_a_common_mu():
    page = Outline(study_page.to_page(artificial_study.nothing_in_common()))
    assert "0 values of mu" in page.text
    assert {"figure-claims", "figure-frontier", "figure-heterogeneous-axis"} <= set(page.ids)


def test_recommendations_say_over_how_many_replications_and_that_they_were_chosen_on_others(page, document):
    rows = cells(markdown_tables(document)["recommendations"])
    assert rows[0][-1] == "replications"
    assert {row[0]: row[-1] for row in rows[2:]} == {"heterogeneous": "20", "small-mnist": "3"}
    for text in (page, to_markdown(document)):
        assert "did best in every second replication" in text
        assert "Neighbouring mu may do as well" in text
    assert "over the replications named below each panel" in page


def between(lower, upper, *, closed_below=True, closed_above=False):
    exact = [edge if math.isinf(edge) else Fraction(edge) for edge in (lower, upper)]
    return MuRange(exact_lower=exact[0], exact_upper=exact[1], closed_below=closed_below, closed_above=closed_above)


@pytest.mark.parametrize(
    ("mus", "expected"),
    [
        (between(0.0342533, 0.0519409), "mu in [0.0343, 0.0519]"),
        (between(0.0342533, 0.0342537), "mu in (0.034253, 0.034254)"),
        (between(0.01, 0.02), "mu in [0.01, 0.02)"),
        (between(0.0, 0.00152, closed_below=False), "mu in (0, 0.00152)"),
        (between(0.25, math.inf), "mu >= 0.25 (finite)"),
        (between(0.25, math.inf, closed_below=False, closed_above=True), "mu > 0.25"),
        (between(0.0, math.inf), "any finite mu"),
        (between(0.0, math.inf, closed_above=True), "any mu"),
        (between(math.inf, math.inf, closed_above=True), "mu = inf"),
    ],
)
def test_a_range_of_mu_in_words(mus, expected):
    assert range_text(mus) == expected
