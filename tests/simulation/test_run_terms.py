"""A run opens its ledger with the scenario's rules, and follows their amendments when it is resumed."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from commonweal.errors import FederationError
from commonweal.ledger.amendments import Amendment
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.keys import SigningKey
from commonweal.ledger.ledger import Ledger
from commonweal.ledger.sql.store import open_store
from commonweal.ledger.verification.recompute import recompute
from commonweal.ledger.verification.verify import verify_ledger
from commonweal.records import Rules
from commonweal.scenario.toml_file import parse_scenario
from commonweal.seeds import stream
from commonweal.simulation.run import ledger_of_run, run_scenario

pytestmark = pytest.mark.usefixtures("numbers_only")

SCENARIO = """
name = "small"
rounds = 1
[mechanism]
mu = 9.0
contribution = "quantity"
[learning]
iteration_limit = 1
[defaults]
source = "uci-digits"
samples_per_round = 20
[[clients]]
name = "ann"
[[clients]]
name = "bob"
"""


def run(folder, scenario=None, **options):
    described = scenario or parse_scenario(SCENARIO, "the test")
    folder.mkdir(exist_ok=True)
    keys, location = KeyDirectory(folder / "keys"), str(folder / "own.db")
    with closing(ledger_of_run(described, location, folder, keys)) as ledger:
        return run_scenario(described, directory=folder, ledger=ledger, **options)


def amend(folder, **changed):
    """The simulated clients' keys follow from the scenario's seed."""
    with closing(open_store(str(folder / "own.db"))) as store:
        ledger = Ledger(store, KeyDirectory(folder / "keys"))
        amendment = Amendment(
            ledger=ledger.identity,
            number=ledger.state.amendment_count + 1,
            terms_before=ledger.state.terms_hash,
            terms=replace(ledger.terms, agreed=replace(ledger.terms.agreed, **changed)),
            first_round=ledger.state.next_round,
        )
        keys = {name: SigningKey.from_seed(stream(1, "client key", name).bytes(32)) for name in ("ann", "bob")}
        ledger.amend(amendment, {name: amendment.signed(name, key) for name, key in keys.items()})


def test_a_resumed_run_follows_amendments(tmp_path):
    run(tmp_path)
    amend(tmp_path, rules=Rules(mu=4.0), round_count=2)
    report = run(tmp_path, resume=True)
    assert [one.record.decision.mu for one in report.rounds] == [9.0, 4.0]
    with closing(open_store(str(tmp_path / "own.db"))) as store:
        result = verify_ledger(store, recompute)
        assert not result.findings
        assert result.round_count == 2
        assert result.state.terms is not None
        assert result.state.terms.agreed is not None
        assert result.state.terms.agreed.measure == "quantity"


def test_a_run_with_other_rules_than_its_ledger_is_refused(tmp_path):
    run(tmp_path)
    other = parse_scenario(SCENARIO.replace("mu = 9.0", "mu = 8.0"), "the test")
    with pytest.raises(FederationError, match=r"rules\.mu is 9\.0 in the terms and 8\.0 here"):
        run(tmp_path, other)


def test_an_amendment_that_a_run_cannot_follow_stops_it(tmp_path):
    run(tmp_path)
    amend(tmp_path, round_count=2, measure="marginal")
    with pytest.raises(FederationError, match="cannot follow: measure is marginal in the terms and quantity"):
        run(tmp_path, resume=True)
