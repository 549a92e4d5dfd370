"""A federation between machines opens its ledger with its terms, keeps to them, and follows amendments."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from commonweal.errors import CommonwealError, FederationError, LedgerError
from commonweal.ledger.amendments import Amendment
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.ledger import Ledger
from commonweal.ledger.node_keys import NodeKey
from commonweal.ledger.sql.store import open_store
from commonweal.ledger.terms import Terms
from commonweal.ledger.verification.recompute import recompute
from commonweal.ledger.verification.verify import verify_ledger
from commonweal.records import Rules
from commonweal.remote.coordinator.federation_file import read_federation
from tests.remote.toy import NAMES, make_toy

ROUNDS = 2
RULES = {"rounds": ROUNDS, "mechanism": "mu = 1.5\ngrace_rounds = 1", "learning": "iteration_limit = 1"}
TERMS = "\n[terms]\nquorum = 0.75\nsilence_charge = 1000\nsilence_limit = 3\n"


@pytest.fixture
def toy(tmp_path):
    made = make_toy(tmp_path / "f", **RULES)
    file = made.folder / "federation.toml"
    head, clients = file.read_text().split("[[clients]]", 1)
    file.write_text(f"{head}{TERMS}\n[[clients]]{clients}")
    return made


def opened(toy):
    return closing(open_store(str(toy.out / "ledger.db"), create=True))


def keys_of(toy):
    return KeyDirectory(toy.folder / "operator-keys")


def amend(toy, *, signers=NAMES, **changed):
    """Draft, sign and enter an amendment."""
    with opened(toy) as store:
        ledger = Ledger(store, keys_of(toy))
        amendment = Amendment(
            ledger=ledger.identity,
            number=ledger.state.amendment_count + 1,
            terms_before=ledger.state.terms_hash,
            terms=replace(ledger.terms, agreed=replace(ledger.terms.agreed, **changed)),
            first_round=ledger.state.next_round,
        )
        keys = {name: NodeKey.read(toy.folder / "members" / name / "node-key") for name in signers}
        ledger.amend(amendment, {name: amendment.signed(name, key) for name, key in keys.items()})


def rounds_in(toy):
    """The rounds of a sound ledger."""
    with opened(toy) as store:
        result = verify_ledger(store, recompute)
        assert not result.findings
        assert "rules are agreed on before the first round" not in [note.rule for note in result.notes]
        ledger = Ledger(store, None)
        return {number: ledger.document(entry)["body"] for number, entry in ledger.state.rounds.items()}


def test_the_terms_are_in_the_ledger_before_the_first_round(toy):
    toy.coordinate()
    with opened(toy) as store:
        ledger = Ledger(store, None)
        assert [ledger.document(entry)["kind"] for entry in (1, 2, 3)] == ["opening", "admission", "round"]
        agreed = ledger.terms.agreed
    assert agreed is not None
    assert (agreed.rules.mu, agreed.round_count, agreed.grace_rounds) == (1.5, ROUNDS, 1)
    assert (agreed.quorum, agreed.silence_charge, agreed.silence_limit) == (0.75, 1000, 3)
    assert agreed.profit_bounds == dict.fromkeys(NAMES, (-1.0, 1.0))
    assert agreed.measure == "marginal"
    assert [body["grace"] for body in rounds_in(toy).values()] == [True, False]


def test_a_ledger_that_was_opened_by_hand_gets_the_terms(toy):
    toy.out.mkdir()
    with opened(toy) as store:
        Ledger.start(store, Terms(name="by hand", currency="EUR"), keys_of(toy))
    toy.coordinate()
    assert list(rounds_in(toy)) == [1, 2]
    with opened(toy) as store:
        ledger = Ledger(store, None)
        kinds = [ledger.document(entry)["kind"] for entry in range(1, 5)]
        assert kinds == ["opening", "admission", "terms", "round"]
        assert ledger.terms.currency == "EUR"


def test_a_ledger_with_its_members_in_another_order_is_refused(toy):
    toy.out.mkdir()
    keys = read_federation(toy.folder / "federation.toml").keys
    with opened(toy) as store:
        Ledger.start(store, Terms(name="by hand"), keys_of(toy)).admit({name: keys[name] for name in reversed(NAMES)})
    with pytest.raises(LedgerError, match=r"in the order in which the ledger .* admitted them: west, east"):
        toy.coordinate()


def test_a_federation_follows_amended_rules_and_rounds(toy):
    """Two rounds are over; the members agree on two more, less leniently, and then on more lenient ones again."""
    toy.coordinate()
    amend(toy, rules=Rules(mu=0.001), round_count=3)
    report, said = toy.coordinate()
    assert f"resuming after round {ROUNDS}" in said
    amend(
        toy,
        rules=Rules(mu=2.0),
        round_count=4,
        signers=[name for name in NAMES if report.eliminated_after[name] is None],
    )
    report, _ = toy.coordinate()
    assert [body["rules"]["mu"] for body in rounds_in(toy).values()] == [1.5, 1.5, 0.001, 2.0]
    assert [one.record.decision.mu for one in report.rounds] == [1.5, 1.5, 0.001, 2.0]
    assert report.round_count == 4
    again, _ = toy.coordinate()  # nothing is left to do, and the past stays as it was
    assert [one.record for one in again.rounds] == [one.record for one in report.rounds]


def test_terms_can_be_amended_before_the_first_round(toy):
    toy.out.mkdir()
    federation = read_federation(toy.folder / "federation.toml")
    with opened(toy) as store:
        Ledger.start(store, Terms(name="toy", agreed=federation.agreed), keys_of(toy)).admit(federation.keys)
    amend(toy, rules=Rules(mu=0.7), round_count=1)
    toy.coordinate()
    assert [body["rules"]["mu"] for body in rounds_in(toy).values()] == [0.7]


def test_a_reversed_round_is_settled_again_with_the_reports_of_its_time(toy):
    """Members signed the hash of the terms then in force; an amendment since does not make their reports void."""
    toy.coordinate()
    amend(toy, rules=Rules(mu=0.3), round_count=3)
    with opened(toy) as store:
        for number in range(ROUNDS, 0, -1):
            Ledger(store, keys_of(toy)).reverse_round(number, "booked too early")
    toy.coordinate()
    assert [body["rules"]["mu"] for _, body in sorted(rounds_in(toy).items())] == [1.5, 1.5, 0.3]


def test_an_amendment_that_a_running_federation_cannot_follow_stops_it(toy):
    toy.coordinate()
    amend(toy, round_count=3, scorers="guarded")
    with pytest.raises(FederationError, match="cannot follow: scorers is guarded in the terms and all in the fed"):
        toy.coordinate()
    assert list(rounds_in(toy)) == [1, 2]


def test_an_amendment_without_its_quorum_is_not_entered(toy):
    toy.coordinate()
    with pytest.raises(CommonwealError, match="signatures of 3 of 4 active members"):
        amend(toy, round_count=3, signers=NAMES[:2])
    amend(toy, round_count=3, signers=NAMES[:3])


def test_a_federation_with_other_rules_than_its_ledger_is_refused(toy):
    toy.coordinate()
    file = toy.folder / "federation.toml"
    file.write_text(file.read_text().replace("mu = 1.5", "mu = 0.3"))
    (toy.out / "checkpoint.npz").unlink()
    with pytest.raises(FederationError, match=r"rules\.mu is 1\.5 in the terms and 0\.3 here"):
        toy.coordinate()


def test_terms_do_not_change_the_identity_of_older_federations(tmp_path):
    made = make_toy(tmp_path / "f", **RULES)
    federation = read_federation(made.folder / "federation.toml")
    assert "terms" not in federation.document()
    assert replace(federation, terms={"quorum": 0.5}).digest() != federation.digest()
