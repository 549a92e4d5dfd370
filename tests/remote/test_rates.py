"""Agreed rates between machines: the same ledger as in the simulator, and whoever departs from the rates is found."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from commonweal.federation.agreed import agreed_rules
from commonweal.federation.session import Session
from commonweal.federation.settlement import FederationLedger
from commonweal.ledger.canonical import canonical
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.node_keys import NodeKey
from commonweal.ledger.sql.store import open_store
from commonweal.ledger.verification.baselines import check_goes_on
from commonweal.ledger.verification.recompute import recompute
from commonweal.ledger.verification.replay import LedgerReplay
from commonweal.ledger.verification.verify import verify_ledger
from commonweal.records import AgreedRates, Rates
from commonweal.remote.coordinator.federation_file import read_federation
from commonweal.remote.member.report_book import ReportBook
from commonweal.remote.member.store import MemberStore
from commonweal.scenario.description import Description
from commonweal.scenario.spec import ClientSpec, LearningSpec, Scenario
from commonweal.simulation.client_keys import SimulatedSigners
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.simulated_task import named_arrays_task
from commonweal.task.records import Predictions
from commonweal.valuation.rates import rated_profit
from tests.first_few import first_few
from tests.remote.test_faults import signed_again
from tests.remote.test_silence import SILENT, bodies, fall_silent, make
from tests.remote.test_terms import amend
from tests.remote.test_terms import rounds_in as amended_rounds
from tests.remote.toy import INITIAL, NAMES, PRIVATE, TASK, make_toy

RATES = '\nprofits = "rates"\n[rates]\ngain = 1.7\nsample = 0.0004\nround = 0.002'
CLASSES = '\nprofits = "rates"\n[rates.classes.large]\ngain = 1.7\nsample = 0.0004\n[rates.classes.small]\ngain = 0.9'
BY_CLASS = {
    "north": 'class = "large"',
    "south": 'class = "small"',
    "east": 'class = "large"',
    "west": 'class = "small"',
}
KINDS = {
    "measured": ("mu = 0.01" + RATES, {}),
    "pooled": ('mu = 0.01\nfigures = "pooled"' + RATES, {}),
    "forecast": ('mu = 0.01\nfigures = "forecast"' + RATES, {}),
    "advantage": ('mu = 0.01\nutility = "advantage"' + RATES, {}),
    "classes": ("mu = 0.01" + CLASSES, BY_CLASS),
}


def rounds_in(location):
    """The entries of rounds, without what names keys, terms and models; and what verification says."""
    store = open_store(str(location))
    try:
        verified = verify_ledger(store, recompute)
        with store.reading() as reading:
            documents = [json.loads(entry.content) for entry in reading.entries()]
    finally:
        store.close()
    rounds = [{**one["body"], "postings": one["postings"]} for one in documents if one["kind"] == "round"]
    for body in rounds:
        del body["terms"]
        for row in body["inputs"]:
            del row["signature"]
            row.pop("report", None)
    return rounds, verified


def simulated(federation, folder, task=TASK):
    """The toy in one process, with everybody's private figures, settled in a ledger of its own."""
    names = ("unit_value", "cost_per_sample", "cost_per_step", "cost_per_round")
    scenario = Scenario(
        name="toy",
        description="",
        round_count=federation.round_count,
        seed=federation.seed,
        clients=tuple(ClientSpec(name=name, **dict(zip(names, PRIVATE[name], strict=True))) for name in NAMES),
        mechanism=federation.mechanism,
        learning=LearningSpec(iteration_limit=federation.learning.iteration_limit),
        task=federation.task,
    )
    task = named_arrays_task(scenario, replace(task, initial_model=lambda plan: INITIAL), "")
    signers = SimulatedSigners(scenario)
    ledger = FederationLedger(
        str(folder / "simulated.db"),
        KeyDirectory(folder / "keys"),
        name="toy",
        members=signers.public_keys,
        sign=signers.sign,
        agreed=agreed_rules(scenario),
    )
    described = Description(settings={}, client_facts={}, document={}, declared=())
    with InProcessClients(scenario, task) as clients:
        report = Session(clients=clients, plan=scenario, description=described, ledger=ledger).run(resume=False)
    ledger.close()
    return report


@pytest.mark.parametrize("kind", first_few(2, ["forecast", "classes", "measured", "pooled", "advantage"]))
def test_both_places_keep_the_same_ledger(tmp_path, kind):
    mechanism, classes = KINDS[kind]
    toy = make_toy(tmp_path / "f", mechanism=mechanism, client_lines=classes)
    between_machines, said = toy.coordinate()
    assert not [line for line in said if "missed" in line], said
    federation = read_federation(tmp_path / "f" / "federation.toml")
    in_process = simulated(federation, tmp_path)
    ours, verified = rounds_in(toy.out / "ledger.db")
    twin, verified_twin = rounds_in(tmp_path / "simulated.db")
    assert not verified.findings
    assert not verified_twin.findings
    assert len(ours) == 3
    assert ours == twin, "to the last bit, evidence of the fates included"
    for one, other in zip(between_machines.rounds, in_process.rounds, strict=True):
        for client, figures in one.clients.items():
            known = other.clients[client]
            assert (figures.utility, figures.cost, figures.profit) == (known.utility, known.cost, known.profit)
            assert figures.actual_profit is None, "what a round was really worth never leaves the member"
            assert known.actual_profit is not None


def test_profits_follow_from_gains_and_counts_and_from_nothing_private(tmp_path):
    """Another member's unit value changes nothing in the ledger; the member itself is told what it made."""
    books = []
    for value in ("1.0", "55.5"):
        folder = tmp_path / value
        toy = make_toy(folder, mechanism=KINDS["measured"][0])
        edited = folder / "members" / "north" / "member.toml"
        edited.write_text(edited.read_text().replace("unit_value = 1.0", f"unit_value = {value}"))
        toy.coordinate()
        books.append(rounds_in(toy.out / "ledger.db")[0])
        assert "what it made by its own figures is" in (toy.home("north") / "log.txt").read_text()
        assert (
            "by the agreed rates, 1.7 per unit of gain − 0.0004 per new sample − 0.002 per round"
            in (toy.home("north") / "log.txt").read_text()
        )
        sent = json.dumps([one.message.fields for one in toy.transport.sent if not one.to_member])
        assert value == "1.0" or value not in sent
    assert books[0] == books[1]
    rates = read_federation(tmp_path / "1.0" / "federation.toml").mechanism.rates
    for body in books[0]:
        for row in body["inputs"]:
            own = rates.of(row["client"])
            assert row["profit"] == own.gain * row["further"]["gain"] - (own.sample * row["sample_count"] + own.round)
            assert row["profit"] == rated_profit(own, row["further"]["gain"], row["sample_count"])


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ("profit", "its profit must be"),
        ("gain", "its gain must be"),
        ("measured", "its gain must be the change of the metric that it signs"),
    ],
)
def test_a_member_that_departs_from_the_rates_is_absent(tmp_path, field, reason):
    """It signs another profit than the rates give, another gain than its scores show, or another metric."""
    toy = make_toy(tmp_path / "f", mechanism=KINDS["measured"][0], rounds=1)
    rates = read_federation(tmp_path / "f" / "federation.toml").mechanism.rates.common
    key = NodeKey.read(tmp_path / "f" / "members" / "east" / "node-key")

    def twist(kind, question, answer):
        if kind != "query.report":
            return answer
        honest = ReportBook(MemberStore(toy.home("east")), 1).last.document
        told = {"profit": honest["profit"] - 0.05}
        if field == "gain":
            gain = honest["further"]["gain"] - 0.05
            told = {"profit": rated_profit(rates, gain, honest["sample_count"]), "further": {"gain": gain}}
        if field == "measured":
            told = {"measured": honest["measured"] - 0.05}
        signed = {**honest, **told}
        said = {"profit": signed["profit"], "gain": signed["further"]["gain"], "measured": signed["measured"]}
        fields = {**answer.fields, **said, "signature": key.sign(canonical(signed))}
        return signed_again(toy, kind, question, replace(answer, fields=fields), signer="east")

    toy.member("east").twist = twist
    report, _ = toy.coordinate()
    (missed,) = [event.text for each in report.rounds for event in each.events if event.client == "east"]
    assert reason in missed, missed
    assert report.rounds[0].record.absent == ("east",)


def test_a_member_does_not_choose_what_its_gain_is_measured_from(tmp_path):
    """It signs another baseline than it measured in the round before, and leaves out what it measured in this one."""
    toy = make_toy(tmp_path / "f", mechanism=KINDS["measured"][0], rounds=2)
    rates = read_federation(tmp_path / "f" / "federation.toml").mechanism.rates.common
    key = NodeKey.read(tmp_path / "f" / "members" / "east" / "node-key")

    def twist(kind, question, answer):
        if kind != "query.report" or question.fields["round"] != 2:
            return answer
        signed = dict(ReportBook(MemberStore(toy.home("east")), 2).last.document)
        gain = signed["further"]["gain"] - 0.05
        signed |= {"baseline": signed["baseline"] + 0.05, "further": {"gain": gain}}
        signed |= {"profit": rated_profit(rates, gain, signed["sample_count"])}
        del signed["measured"]
        said = {"profit": signed["profit"], "gain": gain, "baseline": signed["baseline"]}
        fields = {**answer.fields, **said, "signature": key.sign(canonical(signed))}
        del fields["measured"]
        return signed_again(toy, kind, question, replace(answer, fields=fields), signer="east")

    toy.member("east").twist = twist
    report, said = toy.coordinate()
    assert [each.record.absent for each in report.rounds] == [(), ("east",)]
    assert any("its utility must be measured from" in line for line in said), said
    assert not rounds_in(toy.out / "ledger.db")[1].findings


def test_a_member_that_signs_no_metric_does_not_choose_what_its_next_gain_is_measured_from(tmp_path):
    """It signs that it could not measure anything, so that nothing is known of where it starts from in round 3."""
    toy = make_toy(tmp_path / "f", mechanism=KINDS["measured"][0], rounds=2)
    rates = read_federation(tmp_path / "f" / "federation.toml").mechanism.rates.common
    key = NodeKey.read(tmp_path / "f" / "members" / "east" / "node-key")

    def twist(kind, question, answer):
        if kind != "query.report" or question.fields["round"] != 2:
            return answer
        signed = dict(ReportBook(MemberStore(toy.home("east")), 2).last.document)
        signed |= {"baseline": None, "further": {"gain": 0.0}}
        signed |= {"profit": rated_profit(rates, 0.0, signed["sample_count"])}
        del signed["measured"]
        said = {"profit": signed["profit"], "gain": 0.0, "baseline": None}
        fields = {**answer.fields, **said, "signature": key.sign(canonical(signed))}
        del fields["measured"]
        return signed_again(toy, kind, question, replace(answer, fields=fields), signer="east")

    toy.member("east").twist = twist
    report, said = toy.coordinate()
    assert [each.record.absent for each in report.rounds] == [(), ("east",)]
    assert any("its utility must be measured from" in line and "got None" in line for line in said), said
    assert not rounds_in(toy.out / "ledger.db")[1].findings


@pytest.mark.parametrize("mechanism", ['mu = "inf"', 'mu = "inf"' + RATES])
def test_a_member_that_signs_an_impossible_metric_is_absent(tmp_path, mechanism):
    """The ledger would refuse the round of all others with it."""
    toy = make_toy(tmp_path / "f", mechanism=mechanism, rounds=1)
    key = NodeKey.read(tmp_path / "f" / "members" / "east" / "node-key")

    def twist(kind, question, answer):
        if kind != "query.report":
            return answer
        signed = dict(ReportBook(MemberStore(toy.home("east")), 1).last.document) | {"baseline": 37.0}
        fields = {**answer.fields, "baseline": 37.0, "signature": key.sign(canonical(signed))}
        return signed_again(toy, kind, question, replace(answer, fields=fields), signer="east")

    toy.member("east").twist = twist
    report, said = toy.coordinate()
    assert report.rounds[0].record.absent == ("east",)
    assert any("its baseline must lie within the bounds of accuracy, 0 to 1, got 37.0" in line for line in said), said


def test_a_gain_is_since_the_last_round_that_could_be_measured(tmp_path):
    """In round 2 all targets of west are the same, so that its R² is undefined."""

    def predict(model, validation, context):
        x, y = validation
        is_undefined = context.member.name == "west" and len(y) == 24
        return Predictions(targets=y * (not is_undefined), values=model["w"][0] * x + model["w"][1])

    task = replace(TASK, evaluate=predict)
    mechanism = KINDS["measured"][0].replace("mu = 0.01", 'mu = "inf"') + '\n\n[task]\nmetric = "r2"'
    toy = make_toy(tmp_path / "f", mechanism=mechanism)
    for member in toy.transport.members.values():
        member.task = task
    toy.coordinate()
    store = open_store(str(toy.out / "ledger.db"))
    with store.reading() as reading:
        documents = [json.loads(entry.content) for entry in reading.entries()]
    store.close()
    bodies = [document["body"] for document in documents if document["kind"] == "round"]
    first, second, third = (row for body in bodies for row in body["inputs"] if row["client"] == "west")
    assert "measured" not in second["report"]
    assert second["further"]["gain"] == 0
    assert second["report"]["baseline"] == third["report"]["baseline"] == first["report"]["measured"]
    assert third["further"]["gain"] == pytest.approx(third["report"]["measured"] - first["report"]["measured"])
    ours, verified = rounds_in(toy.out / "ledger.db")
    assert not verified.findings
    simulated(read_federation(tmp_path / "f" / "federation.toml"), tmp_path, task)
    assert ours == rounds_in(tmp_path / "simulated.db")[0]


def test_rates_change_only_with_the_terms(tmp_path):
    toy = make_toy(tmp_path / "f", mechanism=KINDS["measured"][0], rounds=2)

    def before(client, kind):
        store = MemberStore(toy.home("east"))
        if kind == "query.report" and client == "east" and (state := store.load()).settled_round == 1:
            state.rates = {terms: {**rates, "gain": 2.0} for terms, rates in state.rates.items()}
            store.save(state)  # as if other rates had been told in round 1

    toy.transport.before_answer = before
    report, _ = toy.coordinate()
    assert report.rounds[0].record.absent == ()
    assert report.rounds[1].record.absent == ("east",)
    assert "Rates change only by an amendment." in (toy.home("east") / "log.txt").read_text()


@pytest.mark.parametrize(("profits", "is_asked_by_rates"), [("rates", False), ("private", True)])
def test_a_member_reports_only_as_its_file_says(tmp_path, profits, is_asked_by_rates):
    """The operator leaves out the rates that all agreed on, or names some where there are none."""
    toy = make_toy(tmp_path / "f", mechanism='mu = "inf"' + (RATES if is_asked_by_rates else ""), rounds=1)
    file = toy.folder / "members" / "east" / "member.toml"
    file.write_text(f'{file.read_text()}profits = "{profits}"\n')
    report, _ = toy.coordinate()
    assert report.rounds[0].record.absent == ("east",)
    assert not ReportBook(MemberStore(toy.home("east")), 1).reports
    assert f'member\'s file says profits = "{profits}"' in (toy.home("east") / "log.txt").read_text()
    other = (toy.home("north") / "log.txt").read_text()
    assert f"profits follow from {'the rates' if is_asked_by_rates else 'private figures'}" in other


def test_a_late_report_is_by_the_rates_too(tmp_path):
    toy = make(tmp_path, terms="silence_charge = 1000", mechanism='mu = "inf"\nfigures = "pooled"' + RATES)
    fall_silent(toy, until="late")
    report, said = toy.coordinate()
    assert [each.record.absent for each in report.rounds] == [(), (SILENT,), (), ()]
    assert "east reported round 2 late; the round stays as it was settled" in said
    (late,) = bodies(toy, "late-report")
    document = late["report"]
    rates = read_federation(toy.folder / "federation.toml").mechanism.rates.common
    assert document["profit"] == rated_profit(rates, document["further"]["gain"], document["sample_count"])


@pytest.mark.parametrize(
    ("before", "after"),
    first_few(
        2,
        [
            ('mu = "inf"', AgreedRates(common=Rates(gain=0.5))),
            ('mu = "inf"' + RATES, None),
            ('mu = "inf"' + RATES, AgreedRates(common=Rates(gain=2.5, round=0.01))),
        ],
    ),
)
def test_a_running_federation_follows_amended_rates(tmp_path, before, after):
    toy = make_toy(tmp_path / "f", mechanism=before, rounds=2, learning="iteration_limit = 1")
    toy.coordinate()
    amend(toy, rates=after, round_count=3)
    report, said = toy.coordinate()
    assert "resuming after round 2" in said
    assert report.rounds[2].record.absent == ()
    agreed = read_federation(tmp_path / "f" / "federation.toml").mechanism.rates
    for number, body in amended_rounds(toy).items():  # of a sound ledger
        rates = agreed if number < 3 else after
        for row in body["inputs"]:
            assert ("further" in row) == (rates is not None)
            if rates is not None:
                gain = row["further"]["gain"]
                assert row["profit"] == rated_profit(rates.of(row["client"]), gain, row["sample_count"])


def test_a_gain_that_is_not_that_of_the_signed_metrics_is_found(tmp_path):
    """An operator and a member together: the profit follows from the gain, and the gain from nothing."""
    toy = make_toy(tmp_path / "f", mechanism='mu = "inf"' + RATES, rounds=1)
    toy.coordinate()
    store = open_store(str(toy.out / "ledger.db"))
    with store.reading() as reading:
        body = json.loads(list(reading.entries())[-1].content)["body"]
    store.close()
    replay = LedgerReplay(recompute=recompute)
    check_goes_on(3, body, None, replay)
    assert not replay.findings.all()
    (east,) = [row for row in body["inputs"] if row["client"] == "east"]
    east["further"]["gain"] -= 0.05
    check_goes_on(3, body, None, replay)
    assert [finding.rule for finding in replay.findings.all()] == ["a gain is measured from what the client signed"]
