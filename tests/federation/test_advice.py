"""Advice on artificial differences whose truth is known: intervals cover it, and verdicts are rarely wrong."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from commonweal.errors import InputError
from commonweal.federation.advice import advise, advise_on_run
from commonweal.records import Estimate, Event, MetricName
from tests.report import run_reports

ROC_AUC = MetricName(name="roc-auc", label="ROC AUC", is_share=False)
EUROS = MetricName(name="mean-absolute-error", label="mean absolute error", higher_is_better=False, is_share=False)
TRIALS = 400


def covers(improvement, truth):
    return improvement.low <= truth <= improvement.high


def share_within(share, expected):
    """Whether a share of TRIALS successes is what this probability gives, up to 3.5 errors."""
    return abs(share - expected) <= 3.5 * math.sqrt(expected * (1 - expected) / TRIALS)


def test_a_mean_over_splits_has_students_interval():
    random = np.random.default_rng(1)
    rows = random.normal(0.02, 0.05, (3, 12))
    advice = advise(dict(zip("abc", rows, strict=True)), metric=ROC_AUC)
    for client, row in zip("abc", rows, strict=True):
        low, high = stats.t.interval(0.95, 11, row.mean(), stats.sem(row))
        improvement = advice.clients[client].improvement
        assert (improvement.mean, improvement.low, improvement.high) == pytest.approx((row.mean(), low, high))
    means = rows.mean(axis=0)  # of each split: clients of one split are not independent of one another
    low, high = stats.t.interval(0.95, 11, means.mean(), stats.sem(means))
    assert (advice.improvement.low, advice.improvement.high) == pytest.approx((low, high))


def drawn_splits(random, truths, missing):
    """Splits shift all clients alike, and clients differ in noise; some figures are missing."""
    shared = random.normal(0, 0.02, 25)
    rows = {}
    for place, (client, truth) in enumerate(truths.items()):
        row = truth + shared + random.normal(0, 0.01 * (1 + place), 25)
        row[random.random(25) < missing] = math.nan
        rows[client] = row.tolist()
    return rows


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_intervals_over_splits_cover_the_truth(missing):
    random = np.random.default_rng(2)
    truths = {"a": 0.05, "b": 0.0, "c": -0.02, "d": 0.01}
    found = [advise(drawn_splits(random, truths, missing), metric=ROC_AUC) for _ in range(TRIALS)]
    for client, truth in truths.items():
        covered = np.mean([covers(advice.clients[client].improvement, truth) for advice in found])
        assert share_within(covered, 0.95), (client, covered)
    covered = np.mean([covers(advice.improvement, 0.01) for advice in found])
    assert share_within(covered, 0.95), covered
    wrong = np.mean([advice.clients["b"].verdict == "gains" for advice in found])
    assert share_within(wrong, 0.025), wrong
    assert np.mean([advice.clients["a"].verdict == "gains" for advice in found]) > 0.99


@pytest.mark.parametrize(("truth", "verdict"), [(0.02, "federate"), (-0.02, "do not federate"), (0.0, "undecided")])
def test_the_federation_is_rarely_advised_wrongly(truth, verdict):
    random = np.random.default_rng(3)
    truths = {"a": truth - 0.03, "b": truth, "c": truth + 0.03}
    found = [advise(drawn_splits(random, truths, 0.1), metric=ROC_AUC).verdict for _ in range(TRIALS)]
    assert np.mean([one == verdict for one in found]) > (0.9 if truth == 0 else 0.8)
    opposite = {"federate": "do not federate", "do not federate": "federate"}.get(verdict)
    assert found.count(opposite) <= TRIALS / 100


def run_with(advantages, metric=ROC_AUC, events=()):
    """The rounds of a run whose last round has these differences."""
    report = run_reports.make_run_report(
        clients=tuple(advantages), round_count=1, mu=math.inf, metric=metric, alone=dict.fromkeys(advantages, 0.0)
    )
    (only,) = report.rounds
    clients = {client: _with(only.clients[client], advantages[client]) for client in advantages}
    return [_with_clients(only, clients, tuple(events))]


def _with(figures, advantage):
    value, error = advantage
    return replace(figures, advantage=Estimate(value=value, standard_error=error))


def _with_clients(each, clients, events):
    return replace(each, clients=clients, events=events)


def test_intervals_of_one_run_cover_the_truth():
    random = np.random.default_rng(4)
    truths, errors = {"a": 0.05, "b": 0.0, "c": -0.08}, {"a": 0.01, "b": 0.03, "c": 0.02}
    rounds = run_with(dict.fromkeys(truths, (0.0, 0.0)))
    found = []
    for _ in range(TRIALS):
        drawn = {c: _with(rounds[0].clients[c], (random.normal(truths[c], errors[c]), errors[c])) for c in truths}
        found.append(advise_on_run([_with_clients(rounds[0], drawn, ())], metric=ROC_AUC))
    within_two_errors = math.erf(math.sqrt(2))
    for client, truth in truths.items():
        covered = np.mean([covers(advice.clients[client].improvement, truth) for advice in found])
        assert share_within(covered, within_two_errors), (client, covered)
    covered = np.mean([covers(advice.improvement, -0.01) for advice in found])
    assert share_within(covered, within_two_errors), covered


def test_sentences_of_one_run():
    unmeasurable = Event(kind="unmeasurable", client="tiny", text="ROC AUC cannot be measured at tiny: one class only.")
    advantages = {"north": (0.05, 0.01), "south": (-0.04, 0.01), "east": (0.01, 0.02), "tiny": (math.nan, None)}
    advice = advise_on_run(run_with(advantages, events=[unmeasurable]), metric=ROC_AUC)
    assert [told.sentence for told in advice.clients.values()] == [
        "north gains by federating (difference in ROC AUC +0.050, 95 % +0.030 to +0.070).",
        "south would not miss the federation: it does better alone (difference in ROC AUC −0.040, 95 % −0.060 to "
        "−0.020).",
        "east may not miss the federation: the difference may be chance (difference in ROC AUC +0.010, 95 % −0.030 to "
        "+0.050).",
        "ROC AUC cannot be measured at tiny: one class only.",
    ]
    assert [told.verdict for told in advice.clients.values()] == ["gains", "loses", "unclear", "unmeasurable"]
    assert advice.verdict == "undecided"
    assert advice.sentence == (
        "Undecided: the difference between together and alone may be chance (mean difference in ROC AUC +0.007, 95 % "
        "−0.010 to +0.023). 1 of 4 clients gains, 1 does better alone, at 1 no difference can be seen, 1 cannot be "
        "measured."
    )


def test_shares_are_in_points():
    advice = advise({"a": [0.04, 0.05, 0.06], "b": [0.01, 0.02, 0.03]}, metric=MetricName())
    assert advice.sentence == (
        "Federate: models are better together than alone (mean difference in accuracy +3.5 points, 95 % +1.0 to +6.0). "
        "1 of 2 clients gains, none does better alone, at 1 no difference can be seen."
    )


def test_a_smaller_error_is_a_gain():
    advice = advise_on_run(run_with({"a": (-30.0, 5.0), "b": (20.0, 4.0)}, metric=EUROS), metric=EUROS)
    assert [told.verdict for told in advice.clients.values()] == ["gains", "loses"]
    assert advice.clients["a"].improvement.mean == 30.0
    assert (
        "difference in mean absolute error −30.0, 95 % −40.0 to −20.0; lower is better" in advice.clients["a"].sentence
    )
    better = advise({"a": [1.0, 2.0, 1.5], "b": [1.0, 1.2, 1.1]}, metric=EUROS)
    assert better.verdict == "federate"
    assert "mean difference in mean absolute error −1.300" in better.sentence


def test_who_loses_need_not_join_and_who_gains_may_found_a_smaller_one():
    near = np.array([-0.001, 0.0, 0.001])
    federate = advise({"a": near + 0.3, "b": near - 0.1}, metric=ROC_AUC)
    assert federate.sentence.endswith("Those who do better alone need not join.")
    not_all = advise({"a": near + 0.1, "b": near + 0.1, "c": near - 0.9}, metric=ROC_AUC)
    assert not_all.verdict == "do not federate"
    assert not_all.sentence.startswith(
        "Do not federate: pooling does not help (mean difference in ROC AUC −0.233, 95 %"
    )
    assert not_all.sentence.endswith("Those who gain may still found a smaller one.")


@pytest.mark.parametrize("error", [None, 0.0])
def test_a_difference_without_an_error_says_nothing(error):
    advice = advise_on_run(run_with({"a": (0.3, error), "b": (0.01, 0.1)}), metric=ROC_AUC)
    assert advice.clients["a"].verdict == "unmeasurable"
    assert "error of a's difference is not known" in advice.clients["a"].sentence
    assert advice.improvement.mean == 0.01


def test_equal_models_are_no_reason_to_federate():
    advice = advise_on_run(run_with({"a": (0.0, 0.0), "b": (0.0, 0.0)}), metric=ROC_AUC)
    assert advice.verdict == "undecided"
    assert {told.verdict for told in advice.clients.values()} == {"unclear"}


def test_too_few_splits_are_said():
    nan = math.nan
    rows = {"a": [nan, nan, nan], "b": [0.1, nan, nan], "c": [nan] * 3}
    advice = advise(rows, metric=ROC_AUC, reasons={"c": "c has one class only."})
    assert advice.verdict == "undecided"
    assert advice.sentence == "Undecided: ROC AUC cannot be compared at any client."
    assert [told.sentence for told in advice.clients.values()] == [
        "ROC AUC cannot be measured at a on its validation samples.",
        "ROC AUC cannot be measured at b: this was possible in only 1 of 3 splits.",
        "c has one class only.",
    ]


def test_splits_must_be_the_same_for_all_clients():
    with pytest.raises(InputError, match="'b' has 1 and 'a' has 2"):
        advise({"a": [0.1, 0.2], "b": [0.1]}, metric=ROC_AUC)


def test_nobody_trained_alone():
    assert advise_on_run(run_reports.pair().rounds, metric=MetricName()) is None
