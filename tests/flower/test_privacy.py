"""What leaves a member, read from the bytes that are sent; and what can still be inferred from it."""

from __future__ import annotations

import json
import struct
from decimal import Decimal

import numpy as np
import pytest

from commonweal.report.history_json import write_history
from tests.flower.toy import make_flower_toy
from tests.remote.toy import NAMES, PRIVATE

SENT_FIELDS = {
    "query.open": {"sample_count", "training_count", "validation_count", "withdrawal", "notes", "head"},
    "train.iteration": set(),
    "evaluate.coalitions": set(),
    "query.report": {"profit", "signature", "report_number", "baseline", "measured", "settings", "earlier"},
    "query.receipt": {"kept"},
    "query.close": {"kept", "line_count", "head"},
}
SENT_GROUPS = {
    "query.open": {"scores"},
    "train.iteration": {"local"},
    "evaluate.coalitions": {"scores"},
    "query.report": set(),
    "query.receipt": set(),
    "query.close": set(),
}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    toy = make_flower_toy(tmp_path_factory.mktemp("privacy") / "f", rounds=5, mechanism='mu = "inf"')
    toy.run_report, _ = toy.coordinate(
        write=lambda run_report, directory: write_history(run_report, directory / "history.json")
    )
    return toy


def spellings(figure):
    """A number in the forms in which it could occur in bytes: binary, or written out."""
    texts = {repr(figure), f"{figure:.6g}", f"{figure:e}", f"{Decimal(repr(figure)):f}"}
    binary = [struct.pack(order + kind, figure) for order in "<>" for kind in "df"]
    return [*(text.encode() for text in texts if len(text) >= 6), *binary]


def test_no_message_holds_a_unit_value_or_a_cost(toy):
    private = [figure for name in NAMES for figure in PRIVATE[name] if figure not in (0.0, 1.0)]
    assert len(private) == 9
    assert len(toy.grid.wire) > 200
    for sent in toy.grid.wire:
        for figure in private:
            for spelling in spellings(figure):
                assert spelling not in sent.content, (sent.to_node, sent.kind, figure)


def test_the_search_would_have_found_them(toy):
    """The member's own log does hold them; so does its file."""
    log = (toy.home("south") / "log.txt").read_bytes()
    assert any(spelling in log for spelling in spellings(PRIVATE["south"][0]))
    profit = toy.run_report.rounds[0].record.decision.figures.profits["south"]
    reports = [
        sent for sent in toy.grid.wire if (sent.client, sent.kind, sent.to_node) == ("south", "query.report", False)
    ]
    assert any(spelling in reports[0].content for spelling in spellings(profit))


def test_answers_contain_what_was_promised_and_nothing_else(toy):
    """Fields by name and groups of arrays by name: a new one would have to be added here, and to the member's guide."""
    answers = [sent for sent in toy.grid.wire if not sent.to_node]
    assert {sent.kind for sent in answers} == set(SENT_FIELDS)
    for sent in answers:
        content = sent.message.content
        assert set(content.config_records) == {"fields"}
        assert set(content["fields"]) == {"json", "seal"}
        assert set(json.loads(content["fields"]["json"])) == SENT_FIELDS[sent.kind]
        assert set(content.array_records) == SENT_GROUPS[sent.kind]
        assert not content.metric_records


def test_models_and_scores_are_not_the_data(toy):
    """No row of a member's samples is in any message."""
    from commonweal.remote.member.member_file import read_member
    from tests.remote.toy import load

    for name in NAMES:
        member = read_member(toy.folder / "members" / name / "member.toml")
        new = load(1, member)
        for array in (*new.training, *new.validation):
            for sample in array[:5]:
                pattern = struct.pack("<d", sample)
                assert not any(pattern in sent.content for sent in toy.grid.wire)


@pytest.mark.parametrize(("measure", "local_models_of_others"), [("path", 0), ("marginal", len(NAMES) - 1)])
def test_who_gets_the_local_models_of_others(tmp_path, measure, local_models_of_others):
    """By path nobody, in any message; by leave-one-out everybody gets all of the last iteration."""
    toy = make_flower_toy(tmp_path / "f", rounds=2, mechanism=f'mu = "inf"\ncontribution = "{measure}"')
    toy.coordinate()
    trained = [sent for sent in toy.grid.wire if not sent.to_node and sent.kind == "train.iteration"]
    numbers = [(sent.client, _numbers(sent.message.content.array_records["local"])) for sent in trained]
    assert len({one for _, one in numbers}) == len(numbers) == 2 * 2 * len(NAMES), "rounds, iterations, members"
    for name in NAMES:
        received = [sent.content for sent in toy.grid.wire if sent.to_node and sent.client == name]
        assert len(received) >= 12
        found = [owner for owner, one in numbers if owner != name and any(one in content for content in received)]
        assert len(found) == 2 * local_models_of_others, name


def _numbers(record):
    """The model of two numbers, in the bytes that stand for it in any message."""
    (array,) = record.to_numpy_ndarrays()
    assert array.shape == (2,)
    return array.tobytes()


def test_by_path_answers_hold_a_gradient_and_nothing_else_that_is_new(tmp_path):
    toy = make_flower_toy(tmp_path / "f", rounds=1, mechanism='mu = "inf"\ncontribution = "path"')
    toy.coordinate()
    answers = [sent for sent in toy.grid.wire if not sent.to_node]
    assert {sent.kind for sent in answers} - set(SENT_FIELDS) == {"evaluate.gradient"}
    for sent in answers:
        content = sent.message.content
        is_gradient = sent.kind == "evaluate.gradient"
        fields = json.loads(content["fields"]["json"])
        assert set(fields) == (set() if is_gradient else SENT_FIELDS[sent.kind])
        assert set(content.array_records) == ({"gradient"} if is_gradient else SENT_GROUPS[sent.kind])


@pytest.mark.parametrize("client", NAMES)
def test_unit_value_and_costs_follow_from_a_few_rounds(toy, client):
    """profit = u·Δε − c_data·samples − c_train·steps − c_comm is linear in what is private.

    So anybody who sees accuracies, sample counts and profits of a few rounds can solve for it. Here samples and steps
    are the same in every round, so that two unknowns are left: the unit value, and the cost of a round.
    """
    history = json.loads((toy.out / "history.json").read_text())
    rows = [row for completed in history["rounds"] for row in completed["clients"] if row["client"] == client]
    gains = [row["accuracy"]["value"] - row["previous_accuracy"] for row in rows]
    profits = [row["profit"]["value"] for row in rows]
    (unit_value, minus_cost), *_ = np.linalg.lstsq(np.column_stack([gains, np.ones(len(rows))]), profits, rcond=None)
    value, per_sample, per_step, per_round = PRIVATE[client]
    assert unit_value == pytest.approx(value, rel=1e-6)
    assert -minus_cost == pytest.approx(per_sample * 40 + per_step * 6 + per_round, rel=1e-6)


def test_the_member_reads_in_its_log_what_it_will_report_before_it_is_asked_again(tmp_path):
    """When the coordinator gets the report, the line is already on the member's disk."""
    toy = make_flower_toy(tmp_path / "f", rounds=1, names=NAMES[:2])
    seen = {}

    def answer_read(question, answer):
        if question.metadata.message_type == "query.report":
            seen["log"] = (toy.home("north") / "log.txt").read_text()
            seen["answer"] = json.loads(str(answer.content["fields"]["json"]))
        return answer

    toy.node("north").twist = answer_read
    toy.coordinate()
    assert f"will report a profit of {seen['answer']['profit']:+.6g} and 40 new samples" in seen["log"]


def test_how_certain_a_profit_is_stays_private_and_is_not_called_certain(toy):
    """A standard error of profits would reveal the unit value at once; that of sums of profits is not known either."""
    assert all(total.standard_error is None for total in toy.run_report.tsw)
    assert all(completed.budget.standard_error is None for completed in toy.run_report.rounds)
    assert all(
        row.profit.standard_error is None for completed in toy.run_report.rounds for row in completed.clients.values()
    )
    assert all(
        row.accuracy.standard_error is not None
        for completed in toy.run_report.rounds
        for row in completed.clients.values()
    )


def test_nobody_can_guess_the_name_of_a_record_with_a_statement(toy):
    """Flower gives an object to whoever names its hash. So the record with a statement holds a random number too."""
    closing = [sent.message.content["fields"] for sent in toy.grid.wire if sent.to_node and sent.kind == "query.close"]
    fields = [json.loads(record["json"]) for record in closing]
    assert all(question["statement"] for question in fields)
    assert all(len(bytes.fromhex(question["number"])) == 16 for question in fields)
    assert len({question["number"] for question in fields}) == len(closing) == len({r.object_id for r in closing})


@pytest.mark.parametrize(("contribution", "is_seen"), [("path", False), ("marginal", True)])
def test_by_path_no_byte_of_a_local_model_reaches_another_member(tmp_path, contribution, is_seen):
    """Every message of a federation is read. By coalitions local models are seen, so the search finds them."""
    mechanism = f'mu = "inf"\ncontribution = "{contribution}"'
    toy = make_flower_toy(tmp_path / "f", rounds=2, mechanism=mechanism)
    toy.coordinate()
    local = {
        (sent.client, sent.message.content["local"]["w"].numpy().tobytes())
        for sent in toy.grid.wire
        if not sent.to_node and sent.kind == "train.iteration"
    }
    assert len(local) == 2 * 2 * len(NAMES)
    seen = [
        (sent.client, owner)
        for sent in toy.grid.wire
        for owner, content in local
        if sent.to_node and sent.client != owner and content in sent.content
    ]
    assert bool(seen) == is_seen
    gradients = [sent for sent in toy.grid.wire if not sent.to_node and sent.kind == "evaluate.gradient"]
    assert len(gradients) == (0 if is_seen else 2 * len(NAMES))
    for sent in gradients:
        assert set(sent.message.content.array_records) == {"gradient"}
        assert json.loads(sent.message.content["fields"]["json"]) == {}
