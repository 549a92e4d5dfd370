"""The page of a run: it shows the whole run report, and text from users cannot do anything."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from commonweal.records import MetricName
from commonweal.report.glossary import GLOSSARY, metric_meaning, run_glossary
from commonweal.report.run_page.page import to_page
from commonweal.report.run_page.rounds import decision_maps
from commonweal.task.metrics import METRICS
from tests.report import run_reports
from tests.report.conftest import UNUSUAL

VOID = {"meta", "link", "img", "br"}

RARE = ("harmful", "finished")  # explained only where a client or a federation is that


class Outline(HTMLParser):
    """Tags, attributes, ids, headings and visible text, with a check that what is opened is closed in order."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.attributes, self.ids, self.words = [], [], [], [], []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, key, value) for key, value in attrs]
        self.ids += [value for key, value in attrs if key == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def page(hospitals_folder):
    return (hospitals_folder / "report.html").read_text(encoding="utf-8")


def test_the_page_shows_the_outcome(page, hospitals):
    text = Outline(page).text
    assert " ".join(hospitals.sentence.split()) in text
    for warning in hospitals.warnings:
        assert warning in text
    for each in hospitals.rounds:
        for figures in each.clients.values():
            assert figures.sentence in text
        for event in each.events:
            assert event.text in text
    for word, meaning in GLOSSARY.items():
        assert (meaning in text) == (word not in RARE), word


def test_the_welfare_of_all_counts_clients_in_the_round_they_left_in(page, hospitals):
    decisions = [each.record.decision for each in hospitals.rounds]
    left = sum(decision.figures.profits[client] for decision in decisions for client in decision.eliminated)
    assert left, "for this to test anything"
    assert hospitals.welfare_of_all == pytest.approx(hospitals.tsw[-1].value + left)
    shown = f"{hospitals.welfare_of_all:+.4g}".replace("-", "−")
    assert f"were eliminated, sum to\n{shown}" in page


def test_the_table_shows_the_clients_figures(page, hospitals):
    section = page[page.index('id="client-2"') : page.index('id="client-3"')]
    rows = [
        [re.sub("<[^>]*>", "", cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
        for row in re.findall(r"<tr.*?</tr>", section)
    ]
    assert rows[0][:10] == [
        "round", "accuracy", "utility", "cost", "profit", "contribution", "share", "payoff", "transfer", "stability",
    ]  # fmt: skip
    first = hospitals.rounds[0].clients["SVHN"]
    assert rows[1][1] == f"{100 * first.accuracy.value:.1f} % ± 3.0"
    assert rows[1][4].startswith(f"{first.profit.value:+.4f}")
    assert rows[4][0] == "4 ✕"
    assert rows[4][6:9] == ["–", "–", "–"]
    stability = f"{100 * hospitals.rounds[3].record.stability_of('SVHN').share:.0f} %"
    assert rows[4][9] == stability
    assert f"eliminated after round 4 (stability {stability})" in section
    assert "Why it was eliminated" in section
    assert str(hospitals.rounds[3].clients["SVHN"].stays_for_mu[0]).replace(">", "&gt;") in section


def test_the_page_names_the_metric_in_use(unusual_pages):
    page = unusual_pages["clinics"].read_text(encoding="utf-8")
    text = Outline(page).text
    assert "accuracy" not in page.lower()
    assert "ROC AUC of each client after each round" in page
    assert f"{run_reports.clinics().rounds[0].clients['gains'].accuracy.value:.3f} ± 0.030" in text
    assert text.count("not measurable") >= 3
    assert "All rounds: ROC AUC cannot be measured at 'single-class': all of its 4" in text
    for word, meaning in run_glossary(run_reports.ROC_AUC, utility="advantage", has_alone=True).items():
        assert (meaning in text) == (word not in RARE), word


def test_alone_or_together(unusual_pages, page):
    clinics, text = run_reports.clinics(), unusual_pages["clinics"].read_text(encoding="utf-8")
    section = text[text.index('<section id="alone">') : text.index('<section id="welfare">')]
    rows = [
        [re.sub("<[^>]*>", "", cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
        for row in re.findall(r"<tr>.*?</tr>", section, re.DOTALL)
    ]
    assert rows[0] == ["client", "alone", "federation", "difference", "", "round", "cost alone", "cost"]
    last = clinics.rounds[-1].clients["gains"]
    assert rows[1] == [
        "gains", f"{last.alone.value:.3f} ± 0.023", f"{last.accuracy.value:.3f} ± 0.017", "+0.080 ± 0.012", "gains",
        "3", "0.03000", "0.06000",
    ]  # fmt: skip
    assert rows[4][1:5] == ["–", "–", "–", "not measurable"]
    assert [row[4] for row in rows[1:]] == ["gains", "better alone", "not clear", "not measurable"]
    shown = Outline(text).text
    assert clinics.advice.sentence in shown
    for told in clinics.advice.clients.values():
        assert shown.count(told.sentence) >= 2  # in the section, and in the client's own
    assert "spent 0.2400 in the federation; alone, the same rounds would have cost them 0.1200." in shown
    assert "Alone or together" not in Outline(page).text


def test_private_costs_and_shares_alone(words_only):
    clients = tuple(f"clinic {place:02d}" for place in range(12))
    report = run_reports.make_run_report(
        clients=clients, round_count=2, mu=0.1, private=True, alone=dict.fromkeys(clients, 0.05)
    )
    page = to_page(report)
    section = page[page.index('<section id="alone">') : page.index('<section id="welfare">')]
    assert section.count('<span class="quiet">private</span>') == 24
    assert "would have cost them" not in section
    assert "difference (percentage points)" in section
    assert "+5.0" in section
    assert "<summary>What each client is told</summary>" in section  # many, so they are collapsed


def test_every_built_in_metric_is_explained():
    own = metric_meaning(MetricName(name="own"))
    explained = {name: metric_meaning(MetricName(name=name)) for name in METRICS}
    assert len({own, *explained.values()}) == len(METRICS) + 1


def test_an_error_is_not_said_to_be_gained():
    error = MetricName(name="mean-absolute-error", label="mean absolute error", higher_is_better=False, is_share=False)
    words = run_glossary(error)
    assert "fall, in mean absolute error" in words["utility"]
    assert "Lower is better" in words["mean absolute error"]
    assert "Below zero the federation's model is better" in run_glossary(error, has_alone=True)["difference"]


def test_an_absence_is_a_row(page):
    section = page[page.index('id="client-3"') : page.index('id="client-4"')]
    assert '<th scope="row">3</th><td colspan="10">absent</td>' in section


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_runs_make_sound_pages(unusual_pages, name):
    outline = Outline(unusual_pages[name].read_text(encoding="utf-8"))
    assert len(outline.ids) == len(set(outline.ids))
    assert outline.tags.count("h1") == 1
    levels = [int(tag[1]) for tag in outline.tags if re.fullmatch("h[1-6]", tag)]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    targets = {value[1:] for _, key, value in outline.attributes if key == "href" and value.startswith("#")}
    assert targets <= set(outline.ids)
    assert "nan" not in outline.text.lower().split()


def test_text_from_users_is_shown_and_does_nothing(unusual_pages, page):
    rude = run_reports.rude()
    text = unusual_pages["rude"].read_text(encoding="utf-8")
    outline = Outline(text)
    assert set(outline.tags) <= set(Outline(page).tags)
    assert outline.tags.count("script") == 1
    assert not [key for _, key, _ in outline.attributes if key.startswith("on")]
    assert rude.name in outline.text
    for client in run_reports.RUDE_NAMES[:-1]:
        assert client in outline.text
    assert "\x1b" not in text


def test_nothing_is_fetched(page):
    outline = Outline(page)
    assert not [
        (tag, key, value)
        for tag, key, value in outline.attributes
        if key in ("src", "href") and not value.startswith(("#", "data:"))
    ]
    assert "default-src 'none'" in page
    assert not re.search(r"url\((?!#)|@import", page)


def test_every_plot_has_a_label_for_screen_readers(page):
    outline = Outline(page)
    labelled = [tag for tag, key, value in outline.attributes if tag == "svg" and key == "aria-label" and value]
    assert len(labelled) == outline.tags.count("svg") > 8


def test_a_run_without_a_client_of_all_rounds_has_a_page(words_only):
    report = run_reports.make_run_report(
        clients=("a", "b", "c"), round_count=3, mu=9.0, absences={(1, "a"), (2, "b"), (3, "c")}
    )
    assert "No client took part in all rounds, so there is no mean accuracy" in Outline(to_page(report)).text


def test_where_the_expected_profit_decides_it_has_a_chart_and_the_words_say_so(page, words_only):
    shown = to_page(run_reports.with_forecasts(run_reports.hospitals()))
    assert 'id="figure-expected-profits"' in shown
    text = Outline(shown).text
    assert "Who stays depends on the profit that a client can expect of the next round" in text
    assert "The two figures that decide a round" not in text
    assert 'id="figure-expected-profits"' not in page
    assert "The two figures that decide a round" in Outline(page).text


def test_everybody_has_a_stability_beside_its_fate(page, hospitals):
    for client in hospitals.clients:
        last = next(each for each in reversed(hospitals.rounds) if client in each.clients)
        stability = f"(stability {100 * last.record.stability_of(client).share:.0f} %)"
        state = hospitals.fate_of(client).replace("stayed", "stayed to the end")
        assert page.count(f"{state} {stability}") >= 3  # in the totals, the list and the heading


def test_the_evidence_of_harm_is_the_whole_test(unusual_pages):
    text = Outline(unusual_pages["advised"].read_text(encoding="utf-8")).text
    (found,) = run_reports.advised().rounds[1].record.harm
    assert "scaled so that all others weigh the same" in text
    for said in ("mean effect −0.0305 ± 0.0003", f"below −{-found.margin:.5f}", "the chance of error 12"):
        assert said in text, said
    assert f"upper bound of the mean −{-found.bound:.5f}" in text


def test_a_harmful_client_has_no_stability_and_the_page_says_why(words_only):
    report = run_reports.advised()
    rounds = []
    for each in report.rounds:
        decision = each.record.decision
        if each.number == 3:
            decision = replace(decision, harmful=("dan",), eliminated=("dan",))
        rounds.append(replace(each, record=replace(each.record, decision=decision)))
    report = replace(report, rounds=tuple(rounds), eliminated_after=report.eliminated_after | {"dan": 3})
    text = Outline(to_page(report)).text
    assert "dan (harmful)" in text
    assert "Who is harmful is not decided on draws, but by a test." in text


def test_a_loss_is_said_to_be_divided_by_its_rule(words_only):
    report = run_reports.make_run_report(clients=("a", "b"), round_count=2, mu=math.inf, costs={"a": 0.9, "b": 0.9})
    assert all(each.record.decision.budget < 0 for each in report.rounds)
    by_loss = replace(report, rules=replace(report.rules, loss_rule="loss"))
    assert (
        "Where they made a loss together (rounds 1 to 2), they bore it in proportion to their own losses: profits "
        in (Outline(to_page(by_loss)).text)
    )
    assert "made a loss together" not in Outline(to_page(run_reports.pair())).text


def test_a_reported_profit_is_not_passed_off_as_utility_minus_cost(unusual_pages):
    said = "the profit is the one that the client reported, not utility minus cost."
    assert Outline(unusual_pages["clinics"].read_text(encoding="utf-8")).text.count(said) == 1


def test_what_is_said_of_rounds_without_a_map_is_in_their_order():
    report = run_reports.make_run_report(clients=("a", "b", "c"), round_count=4, mu=0.05)
    first, *others = report.rounds
    last = others[-1]
    grace = replace(
        last, decision_map=None, record=replace(last.record, decision=replace(last.record.decision, grace=True))
    )
    said = decision_maps(replace(report, rounds=(first, *others[:-1], grace))).sentences
    numbers = [int(re.findall(r"\d+", sentence)[0]) for sentence in said]
    assert len(said) > 1
    assert numbers == sorted(numbers)
