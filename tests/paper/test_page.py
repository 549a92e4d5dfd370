"""The page that puts our results beside the paper, figure by figure."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from commonweal.paper.claims import comparisons, findings, regime_comparisons
from commonweal.paper.experiments import EXPERIMENTS
from commonweal.paper.make_study import PaperStudy
from commonweal.paper.page import worked_example
from commonweal.paper.page.exhibits import EXHIBITS
from commonweal.paper.page.page import agreement_of, full_regimes, paper_page, write_page
from commonweal.paper.page.settings import SETTINGS, changes
from tests.paper.invented_outcomes import CLIENTS, Script
from tests.paper.paper_page_text import check_words, sections, table_rows, verdicts
from tests.report import artificial_study

SLOW = "learning_rate=0.01"
COUNT = 6  # replications: enough to decide, and drawing conclusions from each takes a while
GROWING = Script(durations=lambda mu, r: [3, *[3 + int(50 * min(mu, 0.2)) + r % 3] * 4])
LOSING = Script(
    durations=lambda mu, r: [5, *[15] * 4], profit=lambda mu, r, t, c: (-0.02 if t > 5 else 0.2) + 0.001 * ((r + t) % 5)
)


@pytest.fixture(scope="module")
def paper():
    outcomes = {}
    for name in EXPERIMENTS:
        outcomes |= GROWING.outcomes(name, replication_count=COUNT)
        outcomes |= LOSING.outcomes(f"{name}[{SLOW}]", replication_count=COUNT)
    outcomes |= LOSING.outcomes("label-noise[algorithm=fedprox]", replication_count=COUNT)
    studies = tuple(
        artificial_study.experiment(name, CLIENTS, seed=number, replication_count=COUNT)
        for number, (name, _) in enumerate(outcomes, start=1)
    )
    study = replace(artificial_study.study(), experiments=studies, findings=findings(outcomes), alternatives=())
    return PaperStudy(study=study, variants=comparisons(outcomes), regimes=regime_comparisons(outcomes))


@pytest.fixture(scope="module")
def page(paper):
    return paper_page(paper)


def test_every_word_at_a_glance_follows_from_the_verdicts_below(page):
    assert check_words(page) == 2 * sum(bool(exhibit.claims) for exhibit in EXHIBITS)


def test_every_result_in_a_full_regime_is_shown_with_its_verdict(paper, page):
    shown = {result for section in sections(page).values() for result in verdicts(section)}
    columns = {"": "as shipped (learning_rate=0.1)", SLOW: SLOW}
    experiments = {
        claim: {n for e in EXHIBITS if claim in e.claims for n in e.experiments} for e in EXHIBITS for claim in e.claims
    }
    expected = {
        (f.claim, f.experiment.partition("[")[0], columns[f.regime], f.verdict)
        for f in paper.study.findings
        if f.regime in columns and f.experiment.partition("[")[0] in experiments[f.claim]
    }
    assert shown == expected
    assert {verdict for *_, verdict in shown} >= {"held", "not held"}
    assert full_regimes(paper.study) == ["", SLOW], "one experiment alone is no regime of the paper"


def test_the_papers_sentence_stands_above_each_claim(paper, page):
    for finding in paper.study.findings:
        assert f"> {finding.quote}\n\n**{finding.claim}**: {finding.statement}" in page


def test_what_is_claimed_of_a_figure_is_said_in_words(page):
    sentences = dict(re.findall(r"^\*\*(C\d+[a-z]?)\*\*: .*; (claimed to be .*)$", page, re.MULTILINE))
    assert sentences["C2"] == "claimed to be above 0.25."
    assert sentences["C10"] == "claimed to be 1."


def test_settings_say_what_changed_under_another_choice(page):
    section = sections(page)["Where the setting differs"]
    rows = {(row[0], row[1]): row[2:] for row in table_rows(section) if len(row) == 6}
    count, surely, verdicts_changed, which = rows["learning rate", SLOW]
    assert count == str(COUNT)
    assert re.fullmatch(r"[1-9]\d* of \d+", surely)
    assert re.fullmatch(r"[1-9]\d* of \d+", verdicts_changed)
    assert "C1 ✓ → ✗ on all 6; C5b ✓ → ✗ on label-noise; " in which
    assert rows["algorithm", "algorithm=fedprox"][0] == str(COUNT)
    assert rows["a negative budget", "losses in equal parts"][0] == str(COUNT)
    verdict_count = rows["a negative budget", "losses in equal parts"][2].removeprefix("0 of ")
    assert verdict_count == "48", "C9a to C9c and C10, on six experiments in two regimes, and not with FedProx"
    assert not any(setting == "widths of the network" for setting, _ in rows), "no other network was run"


def test_a_regime_of_two_keys_is_compared_with_the_regime_that_lacks_one_of_them(paper):
    both = f"model=fedbn-digits,{SLOW}"
    outcomes = GROWING.outcomes("heterogeneous") | LOSING.outcomes(f"heterogeneous[{SLOW}]")
    few = {key: some.only(range(1, 4)) for key, some in LOSING.outcomes(f"heterogeneous[{both}]").items()}
    compared = regime_comparisons(outcomes | few)
    pairs = {(one.ours.regime, one.other.regime, one.choice) for one in compared}
    assert pairs == {("", SLOW, SLOW), (SLOW, both, "model=fedbn-digits")}
    (change,) = changes(next(one for one in SETTINGS if one.key == "model"), (), compared)
    assert (change.choice, change.replications, change.surely) == (f"model=fedbn-digits, {SLOW}", "3", "")
    same = len([one for one in compared if one.ours.regime])
    assert change.which == f"too few to test; on the same side of the threshold: {same} of {same} effects"


def test_the_worked_example_by_hand(page):
    by_set = {case.eliminated: case for case in worked_example.cases()}
    assert by_set["C1",].tsfi == pytest.approx((1.0 + 0.5) / 2)
    assert by_set["C1",].tsfi_final_set == pytest.approx((0.6 + 0.5) / 2)
    assert worked_example.thresholds() == pytest.approx((0.05 / (3 / 2 - 1 / 9), 0.05 / (1 / 9)))
    assert [*worked_example.agreements().values()] == [True, False, False]
    assert "| Worked example | TSW, TSFI and decisions of three clients | agrees in part | agrees in part |" in page


def test_an_exhibit_that_nothing_was_measured_for_is_not_testable(paper):
    none = replace(paper.study, findings=())
    assert {agreement_of(none, exhibit, "") for exhibit in EXHIBITS} == {"not testable"}


def test_a_page_needs_all_six_experiments(paper, tmp_path):
    few = replace(paper, study=replace(paper.study, experiments=paper.study.experiments[:4]))
    assert write_page(few, tmp_path) == []
    assert not any(tmp_path.iterdir())


def test_the_page_and_its_plots_are_written(paper, page, tmp_path):
    written = write_page(paper, tmp_path)
    assert (tmp_path / "paper.md").read_text(encoding="utf-8") == page
    pictures = {path.name for path in written if path.suffix == ".png"}
    assert pictures == {
        "figure-2.png",
        "figure-3-tsw.png",
        "figure-3-tsfi.png",
        "figure-4.png",
        "figure-5.png",
        "figure-6.png",
    }
    for name in pictures:
        assert f"(figures/{name})" in page
