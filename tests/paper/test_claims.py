"""Every claim comes out as the invented outcomes say it must: held, not held, undecided."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commonweal.errors import InputError
from commonweal.paper.claims import comparisons, findings, judging, regime_comparisons, results_of
from commonweal.paper.claims.judging import ALTERNATIVES, CLAIMS
from commonweal.paper.experiments import EXPERIMENTS, MUS
from commonweal.records import ContributionRule
from commonweal.records.study import ClaimResult, Verdict
from commonweal.study.mu_sets import WHOLE_AXIS, MuGrid
from commonweal.study.outcomes import Outcome, Outcomes
from commonweal.study.significance import holm
from tests.paper.invented_outcomes import ROUND_COUNT, Script, decided

BY_NAME = {claim.name: claim for claim in CLAIMS}
LENIENT = MUS[-2]
DECIDED_SEEDS = list(range(1, 8))


def only(found: Sequence[ClaimResult], claim: str) -> ClaimResult:
    (one,) = [finding for finding in found if finding.claim == claim]
    return one


def odd(replication: int) -> bool:
    return replication % 2 == 1


def stays(own: int, others: int) -> list[int]:
    return [own, *[others] * 4]


def growing(by: int, client_0: int = 4) -> Script:
    """At the largest finite μ, all clients except client 0 stay longer by this many rounds (shorter if negative)."""
    return Script(durations=lambda mu, r: stays(client_0, 6 + (by if mu == LENIENT else 0) + r % 2))


def lead(own: int, others: int) -> Script:
    return Script(durations=lambda mu, r: stays(own, others))


def earning(early: float, late: float) -> Script:
    """What each client earns in total up to round 5, and after it, at every μ."""
    return Script(profit=lambda mu, r, t, c: early / 5 if t <= 5 else late / 10)


def better_with_mu(by: float) -> Script:
    return Script(profit=lambda mu, r, t, c: 0.1 + (by if mu > 0 else 0.0) + 0.001 * (r % 3))


def swinging(high: Script, low: Script, high_count: int = 5) -> Script:
    """The first script in some of ten replications and the second in the others: on average, between the two."""

    def pick(r: int) -> Script:
        return high if (r - 1) % 10 < high_count else low

    return Script(
        durations=lambda mu, r: pick(r).durations(mu, r),
        profit=lambda mu, r, t, c: pick(r).profit(mu, r, t, c),
        contribution=lambda mu, r, t, c: pick(r).contribution(mu, r, t, c),
    )


SOME_LEAVE_AT_0 = Script(durations=lambda mu, r: stays(5 if mu == 0 else ROUND_COUNT, ROUND_COUNT))
SOME_LEAVE_AT_LENIENT = Script(durations=lambda mu, r: stays(5 if mu == LENIENT else ROUND_COUNT, ROUND_COUNT))
UNEQUAL = Script(contribution=lambda mu, r, t, c: 0.1 + 0.01 * c)
LESS_OF_0 = Script(contribution=lambda mu, r, t, c: 0.01 if c == 0 else 0.02 + 0.001 * c)
MORE_OF_0 = Script(contribution=lambda mu, r, t, c: 0.03 if c == 0 else 0.02 + 0.001 * c)
LEAVING_AT_A_LOSS = Script(  # client 0 loses more in its fifth and last round than it earned before
    durations=lambda mu, r: stays(5, ROUND_COUNT), profit=lambda mu, r, t, c: -1.0 if c == 0 and t == 5 else 0.1
)
A_LOSS = Script(profit=lambda mu, r, t, c: -0.01 if t == 7 else 0.1)

#   claim, experiment, held, not held, undecided
CASES: list[tuple[str, str, Script, Script, Script]] = [
    *[("C1", name, growing(2), growing(0), swinging(growing(2), growing(-2))) for name in EXPERIMENTS],
    ("C2", "large-mnist", lead(3, 8), lead(7, 8), swinging(lead(2, 8), lead(10, 8))),
    ("C3a", "large-cifar10", lead(7, 8), lead(8, 8), swinging(lead(6, 8), lead(10, 8))),
    ("C3b", "large-cifar10", lead(6, 8), lead(4, 8), swinging(lead(2, 8), lead(6, 8))),
    ("C4", "small-mnist", lead(9, 8), lead(8, 8), swinging(lead(6, 8), lead(10, 8))),
    ("C4", "small-cifar10", lead(9, 8), lead(7, 8), swinging(lead(6, 8), lead(10, 8))),
    ("C5a", "label-noise", lead(3, 8), lead(7, 8), swinging(lead(2, 8), lead(10, 8))),
    ("C5b", "label-noise", growing(1), growing(-1), swinging(growing(2), growing(-2))),
    ("C5c", "label-noise", growing(1), growing(-1), swinging(growing(2), growing(-2))),
    ("C6a", "heterogeneous", earning(1, 0.1), earning(1, 2), swinging(earning(1, 0), earning(1, 2), 7)),
    ("C6a", "small-mnist", earning(1, -0.9), earning(-1, -0.1), swinging(earning(1, 0), earning(1, 2), 7)),
    ("C6b", "heterogeneous", earning(1, -0.1), earning(1, 0.1), swinging(earning(1, 1), earning(1, -1))),
    ("C7a", "heterogeneous", better_with_mu(0.1), better_with_mu(-0.1),
     swinging(better_with_mu(0.1), better_with_mu(-0.1))),
    ("C7b", "label-noise", better_with_mu(0.1), better_with_mu(0), swinging(better_with_mu(0.1), better_with_mu(-0.1))),
    ("C8", "large-mnist", SOME_LEAVE_AT_0, SOME_LEAVE_AT_LENIENT, swinging(SOME_LEAVE_AT_0, SOME_LEAVE_AT_LENIENT)),
    ("C8", "heterogeneous", SOME_LEAVE_AT_0, Script(), swinging(SOME_LEAVE_AT_0, SOME_LEAVE_AT_LENIENT)),
    ("C11", "label-noise", LESS_OF_0, MORE_OF_0, swinging(LESS_OF_0, MORE_OF_0)),
    ("C12b", "heterogeneous", better_with_mu(0.1), better_with_mu(-0.1),
     swinging(better_with_mu(0.1), better_with_mu(-0.1))),
]  # fmt: skip


def is_repeated(claim: str, experiment: str, expected: str) -> bool:
    """C1 is a claim about every experiment; that it can fail is tested on the first one."""
    return claim == "C1" and expected != "held" and experiment != next(iter(EXPERIMENTS))


@pytest.mark.parametrize(
    ("claim", "experiment", "script", "expected"),
    [
        pytest.param(
            claim,
            experiment,
            script,
            expected,
            id=f"{claim}-{experiment}-{expected}",
            marks=[pytest.mark.soak] if is_repeated(claim, experiment, expected) else [],
        )
        for claim, experiment, *scripts in CASES
        for script, expected in zip(scripts, ("held", "not held", "undecided"), strict=True)
    ],
)
def test_a_claim_gets_the_verdict_that_its_data_were_made_for(
    claim: str, experiment: str, script: Script, expected: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "CLAIMS", (BY_NAME[claim],))  # each claim is tested on its own

    # With the experiment that the claim compares with, in which client 0 stays for four rounds.
    beside = BY_NAME[claim].beside
    outcomes = script.outcomes(experiment) | (lead(4, 8).outcomes(beside) if beside else {})
    found = only(findings(outcomes), claim)
    interval = found.interval
    assert found.verdict == expected, found
    assert interval.lower <= interval.value <= interval.upper
    assert (found.experiment, found.variant, found.replication_count) == (experiment, "", 10)
    assert found.statement == BY_NAME[claim].statement
    # With four replications nothing is decided.
    first_four = {key: some.only(range(1, 5)) for key, some in outcomes.items()}
    assert only(findings(first_four), claim).verdict == "undecided"


@pytest.mark.parametrize("count", [1, 4, 10])
def test_a_claim_without_exceptions_is_refuted_by_one(count: int) -> None:
    def found(script: Script) -> Verdict:
        return only(findings(script.outcomes("heterogeneous", replication_count=count)), "C9a").verdict

    assert found(Script()) == ("held" if count >= 5 else "undecided")
    assert found(A_LOSS) == "not held"
    assert found(swinging(A_LOSS, Script(), 1)) == "not held"


def test_the_cases_and_the_laws_are_all_claims() -> None:
    laws = {claim.name for claim in CLAIMS if claim.by_construction}
    assert {claim for claim, *_ in CASES} | laws | {"C9a", "C9b", "C9c", "C15"} == set(BY_NAME)
    assert laws == {"C10", "C12a", "C13", "C14"}
    assert {name.rstrip("abc") for name in BY_NAME} == {f"C{number}" for number in range(1, 16)}


@pytest.mark.parametrize(
    ("claim", "script", "value"),
    [
        ("C1", Script(durations=lambda mu, r: [3, 3, 3, 3, 3 + (5 if mu == LENIENT else 0)]), 1.0),
        ("C6b", earning(1, -0.5), 2.5),
        ("C7a", Script(profit=lambda mu, r, t, c: 1.0 if mu == LENIENT and t == 1 and c == 0 else 0.0), 1.0),
        ("C7b", Script(profit=lambda mu, r, t, c: 8.0 if mu == math.inf and t == 15 and c == 0 else 0.0), 1.0),
        ("C8", Script(durations=lambda mu, r: stays(1 if mu == 0 else 15, 15)), 0.2),
        ("C9a", Script(profit=lambda mu, r, t, c: -0.1 if t <= 3 else 0.1), 0.8),
        ("C9b", LEAVING_AT_A_LOSS, 1 - 1 / 65),
        ("C9c", LEAVING_AT_A_LOSS, 0.8),
        ("C12b", better_with_mu(0.1), 7.5),
        (
            "C15",
            Script(profit=lambda mu, r, t, c: -0.1 if c < 2 else 0.1, contribution=lambda mu, r, t, c: 0.1 * c),
            0.5,
        ),
    ],
)
def test_effects_computed_by_hand(claim: str, script: Script, value: float) -> None:
    assert only(findings(script.outcomes("heterogeneous")), claim).interval.value == pytest.approx(value)


def test_leads_and_contributions_by_hand() -> None:
    assert only(findings(lead(3, 8).outcomes("large-mnist")), "C2").interval.value == pytest.approx(5 / 8)
    assert only(findings(LESS_OF_0.outcomes("label-noise")), "C11").interval.value == pytest.approx(0.0125)
    assert "client-0 has 10 % of all" in only(findings(LESS_OF_0.outcomes("label-noise")), "C11").driver


def test_a_mu_that_is_lucky_is_not_taken_for_a_better_one() -> None:
    """A different μ is lucky in each replication: the best of all is above zero in each, but none is on average."""
    lucky = Script(profit=lambda mu, r, t, c: 1.0 if mu > 0 and MUS.index(mu) == 1 + r % 6 else 0.5 if mu == 0 else 0.4)
    found = only(findings(lucky.outcomes("heterogeneous", replication_count=12)), "C12b")
    assert found.verdict == "undecided"


def test_later_rounds_that_were_hardly_held_test_nothing() -> None:
    found = findings(lead(3, 6).outcomes("heterogeneous"))
    for claim in ("C7a", "C7b"):
        assert only(found, claim).verdict == "not testable"
        assert only(found, claim).p_value is None
        assert "0 % took place at finite μ" in only(found, claim).driver
    assert only(findings(lead(3, 9).outcomes("heterogeneous")), "C7a").verdict != "not testable", "two of eight"


def test_each_regime_is_tested_by_itself_and_corrected_together() -> None:
    slow, fast = "heterogeneous[learning_rate=0.01]", "heterogeneous[learning_rate=0.1]"
    outcomes = growing(2).outcomes(slow) | swinging(growing(2), growing(-2)).outcomes(fast)
    found = [finding for finding in findings(outcomes) if finding.claim == "C1"]
    assert [(f.experiment, f.regime, f.verdict) for f in found] == [
        (slow, "learning_rate=0.01", "held"),
        (fast, "learning_rate=0.1", "undecided"),
    ]
    both = [f for f in findings(outcomes) if f.p_value is not None]
    assert [f.adjusted_p for f in both] == holm([f.p_value for f in both])
    assert {one.other.experiment for one in comparisons(outcomes)} == {slow, fast}


def test_a_regime_of_one_experiment_takes_no_power_from_those_of_all_six() -> None:
    full = {key: some for name in EXPERIMENTS for key, some in growing(2).outcomes(name).items()}
    partial = swinging(growing(2), growing(-2)).outcomes("label-noise[algorithm=fedprox]")
    found = findings(full | partial)
    alone, apart = findings(full), findings(partial)
    assert tuple(f for f in found if not f.regime) == alone
    assert tuple(f for f in found if f.regime) == apart
    tested = [f.p_value for f in alone if f.p_value is not None]
    assert [f.adjusted_p for f in alone if f.p_value is not None] == holm(tested)


def test_a_survivor_that_stays_to_the_end() -> None:
    """Four leave after round 6 and client 0 is alone: the federation ends, and with it its stay, or it stays on."""
    whole = Script(durations=lambda mu, r: [6, *[6] * 4]).outcomes("small-mnist")["small-mnist", "clip"]

    def alone(outcome: Outcome) -> Outcome:
        rows = tuple(row | {"retained": True} if row["client"] == "client-0" else row for row in outcome._rows)
        return outcome if outcome.mus.lower == math.inf else replace(outcome, _rows=rows)

    some = {number: tuple(map(alone, outcomes)) for number, outcomes in whole.replications.items()}
    outcomes = {("small-mnist", "clip"): replace(whole, replications=some)}
    ours = only(findings(outcomes), "C4")
    other = only(findings(outcomes, variant="a sole survivor stays to the end"), "C4")
    assert (ours.interval.value, other.interval.value) == (0, ROUND_COUNT - 6)


@pytest.mark.parametrize("rule", ["clip", "raw"])
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_laws_hold_for_any_figures(rule: ContributionRule, seed: int) -> None:
    outcomes = {("heterogeneous", rule): decided("heterogeneous", [seed], MuGrid(MUS), rule)}
    found = findings(outcomes, variant="" if rule == "clip" else "raw contributions")
    for law in ("C10", "C12a", "C13", *(["C14"] if rule == "clip" else [])):
        assert only(found, law).verdict == "held", "also with one replication"
    if rule == "clip":
        ours = outcomes["heterogeneous", "clip"].at(0)[0].history
        assert not any(record.decision.irrational for record in ours.rounds), "at μ = 0 every one who stays earns"


def test_a_negative_contribution_can_be_worth_eliminating_at_a_profit() -> None:
    """Keeping client 0 gives 4.01; eliminating it 4 + μ · 1 / 2.2, which is more from μ = 0.022 on."""
    script = Script(
        profit=lambda mu, r, t, c: 0.01 if c == 0 else 1.0,
        contribution=lambda mu, r, t, c: (-1.0, 1.2, 1.0, 0.0, 0.0)[c],
    )
    raw = only(findings(script.outcomes("heterogeneous", rule="raw"), variant="raw contributions"), "C14")
    assert (raw.verdict, raw.interval.value) == ("not held", pytest.approx(3 / 6))
    assert "In 450 of the 450 rounds where it fails, some contribution is negative" in raw.driver
    assert only(findings(script.outcomes("heterogeneous")), "C14").verdict == "held"


def test_one_broken_case_breaks_a_law() -> None:
    """In round 9 of one replication, the largest finite μ eliminates a loss-maker that every smaller μ keeps."""
    script = Script(
        durations=lambda mu, r: stays(9 if mu == LENIENT and r == 3 else 15, 15),
        profit=lambda mu, r, t, c: -0.05 if c == 0 else 0.1,
    )
    found = only(findings(script.outcomes("heterogeneous")), "C12a")
    assert found.verdict == "not held"
    assert "rises in 5" in found.driver, "against each of the five smaller μ"
    assert found.interval.lower == found.interval.upper == found.interval.value < 1


def test_loss_rules_break_proportionality_only_if_the_budget_is_negative() -> None:
    script = Script(contribution=UNEQUAL.contribution, profit=lambda mu, r, t, c: -0.1 if t <= 3 else 0.1)
    outcomes = script.outcomes("heterogeneous")
    assert only(findings(outcomes), "C10").verdict == "held"
    for variant in ("losses in equal parts", "losses by cost"):
        found = only(findings(outcomes, variant=variant), "C10")
        assert found.verdict == "not held"
        assert found.interval.value == pytest.approx(12 / 15)
        assert "In 210 of 1050 rounds the budget is not divided in proportion; it is negative in 210 of" in found.driver


def test_drivers_quote_the_figures() -> None:
    """In a federation in which all profit comes from round 1, and client 2 bears the losses."""
    script = Script(
        profit=lambda mu, r, t, c: 0.5 if t == 1 else -0.01,
        contribution=lambda mu, r, t, c: 0.1 if c == 2 or t == 1 else 0.0,
    )
    found = findings(script.outcomes("label-noise"))
    c9 = only(found, "C9a").driver
    assert "840 concern client-2" in c9, "14 rounds, 6 finite μ, 10 replications"
    assert "the mean loss is 0.0500, the largest 0.0500" in c9
    assert "below its mean cost from round 2 on (0.0100 against 0.0200 per round)" in only(found, "C7b").driver
    assert "Of the clients at a loss, 80 % have no positive contribution" in only(found, "C1").driver
    falling = Script(durations=lambda mu, r: stays(8 - (odd(r) and mu == 0.05), 8 + (mu == LENIENT)))
    assert (
        "In 5 of 10 replications some client stays for a shorter time"
        in only(findings(falling.outcomes("heterogeneous")), "C1").driver
    )


def by_decisions(
    rule: ContributionRule = "clip", *, axis: bool = False
) -> dict[tuple[str, ContributionRule], Outcomes]:
    followed = WHOLE_AXIS if axis else MuGrid(MUS)
    return {(name, rule): decided(name, DECIDED_SEEDS, followed, rule) for name in ("heterogeneous", "label-noise")}


def test_the_order_and_the_numbers_of_replications_change_nothing() -> None:
    outcomes = by_decisions()
    expected = findings(outcomes)
    numbers = DECIDED_SEEDS.copy()
    random.Random(0).shuffle(numbers)
    assert numbers != DECIDED_SEEDS
    reordered = {
        key: replace(some, replications={n: some.replications[n] for n in numbers}) for key, some in outcomes.items()
    }
    renumbered = {
        key: replace(
            some, replications={new: some.replications[old] for old, new in zip(DECIDED_SEEDS, numbers, strict=True)}
        )
        for key, some in outcomes.items()
    }
    assert findings(reordered) == expected
    assert findings(renumbered) == expected


@pytest.mark.parametrize("rule", ["clip", "raw"])
def test_the_whole_axis_gives_what_the_grid_gives(rule: ContributionRule) -> None:
    variant = "" if rule == "clip" else "raw contributions"
    axis, grid = by_decisions(rule, axis=True), by_decisions(rule)
    assert all(some.with_whole_axis().replications for some in axis.values())
    assert findings(axis, variant=variant) == findings(grid, variant=variant)


def test_an_alternative_is_compared_with_ours_on_the_same_replications() -> None:
    outcomes = by_decisions()
    raw = {key: some.only(DECIDED_SEEDS[:5]) for key, some in by_decisions("raw").items()}
    both = outcomes | raw
    pairs = comparisons(both)
    assert {one.other.variant for one in pairs} == {v.name for v in ALTERNATIVES} - {"label noise in training only"}
    for one in pairs:
        assert (one.ours.claim, one.ours.experiment) == (one.other.claim, one.other.experiment)
        expected_count = 5 if one.other.variant == "raw contributions" else 7
        assert one.ours.replication_count == one.other.replication_count == expected_count
        assert one.ours.variant == ""
    assert {one.other.claim for one in pairs if one.other.variant == "raw contributions"} == {
        finding.claim for finding in findings(outcomes)
    }
    fewer = {key: some.only(DECIDED_SEEDS[:5]) for key, some in outcomes.items()}
    ours = {(f.claim, f.experiment, f.interval, f.p_value) for f in (*findings(outcomes), *findings(fewer))}
    assert all((f.claim, f.experiment, f.interval, f.p_value) in ours for f in (one.ours for one in pairs))
    flat = results_of(comparisons(both))
    assert len(flat) == len(set(flat))
    assert {f for one in pairs for f in (one.ours, one.other)} == set(flat)
    assert {finding.variant for finding in findings(both)} == {""}, "raw results change nothing of ours"


def test_label_noise_in_training_only_is_compared_with_label_noise() -> None:
    outcomes = LESS_OF_0.outcomes("label-noise") | MORE_OF_0.outcomes("label-noise-training-only")
    pairs = [one for one in comparisons(outcomes) if one.other.variant == "label noise in training only"]
    assert [one.other.claim for one in pairs] == ["C5a", "C5b", "C5c", "C11"]
    assert {one.other.experiment for one in pairs} == {"label-noise"}
    assert (pairs[-1].ours.verdict, pairs[-1].other.verdict) == ("held", "not held")
    assert pairs[-1].verdict_changes


def test_the_indices_by_hand() -> None:
    """A client that leaves one round early loses little by the index as printed, and everything by the other one."""
    script = Script(durations=lambda mu, r: stays(15 if mu == 0 else 14, 15), contribution=lambda mu, r, t, c: 0.1)
    as_printed = only(findings(script.outcomes("heterogeneous")), "C8")
    final_set = only(findings(script.outcomes("heterogeneous"), variant="TSFI of the final set"), "C8")
    zero = only(findings(script.outcomes("heterogeneous"), variant="departed count as zero"), "C8")
    assert as_printed.interval.value == pytest.approx(-2 / 75)
    assert final_set.interval.value == pytest.approx(-15 / 75)
    assert zero.interval.value == pytest.approx(-1 / 74)


def test_experiments_without_the_mu_to_compare_are_skipped() -> None:
    outcomes = growing(2).outcomes("heterogeneous")["heterogeneous", "clip"]
    few = replace(outcomes, replications={n: (some[0], some[-1]) for n, some in outcomes.replications.items()})
    assert findings({("heterogeneous", "clip"): few}) == ()
    assert findings({}) == comparisons({}) == regime_comparisons({}) == ()
    without_the_largest = replace(outcomes, replications={n: some[:-2] + some[-1:] for n, some in
                                                          outcomes.replications.items()})  # fmt: skip
    assert "at μ = 0.1 minus" in only(findings({("heterogeneous", "clip"): without_the_largest}), "C1").effect


def test_an_unknown_variant_is_refused() -> None:
    with pytest.raises(InputError, match=r"variant must be '' .* one of 'raw contributions', .*, got 'clip'"):
        findings({}, variant="clip")


def test_findings_are_in_the_papers_order() -> None:
    outcomes = {key: value for name in EXPERIMENTS for key, value in Script().outcomes(name).items()}
    shuffled = dict(sorted(outcomes.items(), reverse=True))
    names = [(finding.claim, finding.experiment) for finding in findings(shuffled)]
    assert names == [(claim.name, experiment) for claim in CLAIMS for experiment in claim.experiments]
    assert np.all(np.diff([int(name.strip("Cabc")) for name, _ in names]) >= 0)
