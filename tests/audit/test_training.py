"""Lies that need training: each is a run of its own, with the honest clients' data unchanged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from commonweal.audit.rigged_scores import ScoreLie
from commonweal.audit.training import ScenarioAudit, Variant, _split, _twins
from commonweal.errors import InputError
from commonweal.simulation.simulated_task import task_of
from tests.study.small_federation import small_federation


@pytest.fixture(scope="module")
def report():
    return ScenarioAudit(scenario=small_federation(rounds=2), worker_count=2).report("small")


def test_each_lie_has_a_result_or_a_reason(report):
    tried = {lie.name for lie in report.lies if lie.kind == "training"}
    left_out = {one.name: one.reason for one in report.not_tried}
    assert tried == {
        "all-own", "three-samples", "others-harm", "untrained", "noised", "duplicates", "split", "twins",
    }  # fmt: skip
    assert "not by quantity" in left_out["counts"]
    assert report.replication_count == 1
    assert any("told by a" in note for note in report.notes)


def test_reports_are_audited_on_the_honest_run(report):
    assert report.lie("no-profit").pays_share > 0
    assert report.lie("best-reply").gain.value >= report.lie("no-profit").gain.value
    assert report.round_count == 2


@pytest.mark.parametrize("measure", ["marginal", "path"])
def test_false_scores_raise_the_liar_or_lower_the_others(measure):
    scenario = small_federation(rounds=1)
    scenario = replace(scenario, mechanism=replace(scenario.mechanism, measure=measure))
    honest = Variant(name="", title="", scenario=scenario, simulated=task_of(scenario, None), identities=("a",))

    def contributions(rig):
        variant = honest if rig is None else replace(honest, scores=ScoreLie(liar="a", rig=rig))
        return variant.run(2)[0].record.decision.figures.contributions

    true = contributions(None)
    assert contributions("all-own")["a"] > true["a"]
    assert contributions("three-samples")["a"] > true["a"]
    blamed = contributions("others-harm")
    assert all(blamed[other] <= true[other] for other in "bcd")
    assert any(blamed[other] < true[other] for other in "bcd")


def test_an_identical_second_client_changes_nothing_for_the_model():
    """The twin sends the same model and scores with the same samples; weights of the average change, data do not."""
    scenario = small_federation(rounds=1)
    simulated = task_of(scenario, None)
    twins = _twins(Variant(name="", title="", scenario=scenario, simulated=simulated, identities=("a",)), "a", 2)
    (result,) = twins.run(2)
    first, second = (result.measured[name] for name in ("a (1)", "a (2)"))
    assert first.accuracy == second.accuracy
    assert first.training_count == second.training_count
    assert second.utility.value == 0.0
    assert second.cost == 0.0


def test_identities_share_the_data_of_one_client():
    scenario = small_federation(rounds=1)
    simulated = task_of(scenario, None)
    honest = Variant(name="", title="", scenario=scenario, simulated=simulated, identities=("a",))
    (before,), (after,) = honest.run(2), _split(honest, "a", 3).run(2)
    parts = [after.measured[f"a ({number})"] for number in (1, 2, 3)]
    assert sum(part.sample_count for part in parts) == before.measured["a"].sample_count
    assert sum(part.training_count for part in parts) == before.measured["a"].training_count
    assert after.measured["d"].sample_count == before.measured["d"].sample_count


def test_an_unknown_liar_is_refused():
    with pytest.raises(InputError, match="There is no client 'x'"):
        ScenarioAudit(scenario=small_federation(rounds=1), liar="x").report("small")
