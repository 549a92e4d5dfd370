"""Harm and the end of a federation on Flower: as in the simulator, and told to the members."""

from __future__ import annotations

from contextlib import closing

import pytest

from commonweal.flower.starting.from_scenario import make_federation_from
from commonweal.ledger.sql.store import open_store
from commonweal.ledger.verification.recompute import recompute
from commonweal.ledger.verification.verify import verify_ledger
from commonweal.remote.member.member_file import read_member
from commonweal.scenario.toml_file import read_scenario
from commonweal.simulation.run import run_scenario
from commonweal.simulation.simulated_task import with_sites
from tests.flower.test_from_scenario import TOLERANCE, check_equal, run_on_flower
from tests.tables.small import patients, write_csv

SITES = ("A", "B", "C", "D", "E", "F")
SCENARIO = """
name = "hospitals"
rounds = 4
seed = 1
[task]
table = "patients.csv"
site = "hospital"
target = "died"
ignore = ["key"]
[mechanism]
mu = 0.05
{mechanism}
[learning]
learning_rate = 0.3
iteration_limit = 2
[defaults]
cost_per_round = {cost}
{clients}
"""
POISONER = """
[[clients]]
name = "F"
reported_profit = 0.0
defect = { kind = "sign-flip", factor = 3 }
"""


@pytest.fixture
def twins(tmp_path, monkeypatch):
    """The report of a federation on Flower and in the simulator, and what each member was told at the end."""

    def run(mechanism, *, clients="", cost=0.0):
        write_csv(tmp_path / "patients.csv", patients(dict.fromkeys(SITES, 200)))
        path = tmp_path / "scenario.toml"
        path.write_text(SCENARIO.format(mechanism=mechanism, clients=clients, cost=cost))
        make_federation_from(tmp_path / "twin", read_scenario(path))
        on_flower = run_on_flower(tmp_path / "twin", monkeypatch, tmp_path)
        simulated = run_scenario(with_sites(read_scenario(path)))
        check_equal(on_flower, simulated)
        with closing(open_store(str(tmp_path / "on-flower" / "ledger.db"))) as store:
            assert verify_ledger(store, recompute).findings == ()
        homes = {name: read_member(tmp_path / "twin" / "members" / name / "member.toml").home for name in SITES}
        return on_flower, simulated, {name: (home / "log.txt").read_text() for name, home in homes.items()}

    return run


def test_a_poisoner_is_eliminated_as_harmful(twins):
    on_flower, simulated, logs = twins('contribution = "path"\nharm = "eliminate"', clients=POISONER)
    assert on_flower.harmful_after == simulated.harmful_after == {"F": on_flower.harmful_after["F"]}
    number = on_flower.harmful_after["F"]
    (ours,), (twin,) = (report.rounds[number - 1].record.harm for report in (on_flower, simulated))
    assert dict(ours.by_scorer) == pytest.approx(dict(twin.by_scorer), abs=TOLERANCE)
    assert (ours.round_numbers, ours.test_count) == (twin.round_numbers, twin.test_count)
    assert "eliminated as harmful, without a transfer" in logs["F"]
    assert "harmful" not in logs["A"]


def test_a_finished_federation_ends_and_the_members_are_told(twins):
    on_flower, simulated, logs = twins('figures = "forecast"\nending = "stop"', cost=0.5)
    assert on_flower.outcome == simulated.outcome == "finished"
    assert on_flower.rounds[-1].record.ending.expected == pytest.approx(
        dict(simulated.rounds[-1].record.ending.expected), abs=TOLERANCE
    )
    for log in logs.values():
        assert "the federation is finished: another round is expected to cost more than it brings" in log
