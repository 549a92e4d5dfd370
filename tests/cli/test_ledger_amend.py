"""`commonweal ledger amend`: an operator drafts, members sign, the operator enters."""

from __future__ import annotations

import json
import re
from contextlib import closing

import pytest
from cryptography.hazmat.primitives import serialization

from commonweal.decision.decide import decide_figures
from commonweal.federation.settlement import FederationLedger
from commonweal.ledger.agreed_rules import AgreedRules
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.keys import SigningKey, public_pem
from commonweal.ledger.node_keys import NodeKey
from commonweal.records import Figures, RoundRecord, Rules

CSV = "round,client,profit,contribution\n"
ROUND = "{0},north,0.15,0.4\n{0},south,0.05,0.5\n{0},west,0.02,0.1\n"

MONEY = ("--currency", "XTS", "--worth", "1000")


@pytest.fixture
def told(commonweal):
    def run(*arguments):
        done = commonweal(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def refused(commonweal):
    def run(*arguments):
        done = commonweal(*arguments)
        assert done.returncode == 2, done.stdout
        assert "Traceback" not in done.stderr
        return done.stderr

    return run


def write_keys(folder, keys):
    """Private keys as members have them, and public ones as they send them."""
    for name, key in keys.items():
        if isinstance(key, NodeKey):
            key.write(folder / f"{name}.key")
            (folder / f"{name}.pub.pem").write_bytes((folder / f"{name}.key.pub").read_bytes())
        else:
            pem = key.private.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            (folder / f"{name}.key").touch(mode=0o600)
            (folder / f"{name}.key").write_bytes(pem)
            (folder / f"{name}.pub.pem").write_bytes(public_pem(key.public))


class Federation:
    """north signs as itself, south as its Flower node; both sign their reports."""

    def __init__(self, folder):
        self.keys = {"north": SigningKey.new(), "south": NodeKey.new()}
        write_keys(folder, {**self.keys, "east": SigningKey.new()})
        self._folder = folder

    def settle(self, number, mu, clients=("north", "south")):
        rules = Rules(mu=mu)
        figures = Figures(profits=dict.fromkeys(clients, 0.1), contributions=dict.fromkeys(clients, 1.0))
        record = RoundRecord(round_number=number, decision=decide_figures(figures, rules))
        with closing(
            FederationLedger(
                str(self._folder / "ledger.db"),
                KeyDirectory(self._folder / "keys"),
                name="two",
                members={client: key.public for client, key in self.keys.items()},
                sign=lambda report: report.signed(self.keys[report.client]),
                agreed=AgreedRules(rules=rules, rules_version="2", round_count=3),
            )
        ) as ledger:
            return ledger.settle(record).entry


@pytest.fixture
def federation(tmp_path):
    return Federation(tmp_path)


def test_an_amendment_goes_from_draft_to_entry(told, refused, federation):
    federation.settle(1, 0.05)
    drafted = told("ledger", "amend", "draft", "ledger.db", "--set", "mu=0.2", "--set", "quorum=0.5", "--out", "a.json")
    assert "mu: 0.05 → 0.2" in drafted
    assert "quorum: none → 0.5" in drafted
    assert "to be signed by 2 of north, south" in drafted
    assert "signed by: nobody yet" in told("ledger", "amend", "show", "a.json")
    assert "mu: 0.05 → 0.2" in told("ledger", "amend", "sign", "a.json", "north", "--key", "north.key")
    assert "missing: south" in refused("ledger", "amend", "enter", "ledger.db", "a.json", "--keys", "keys")
    told("ledger", "amend", "sign", "a.json", "south", "--key", "south.key")
    entered = told("ledger", "amend", "enter", "ledger.db", "a.json", "--keys", "keys")
    assert "amendment 1, 2 signatures, in force from round 2 on" in entered
    assert "amendments are numbered" in refused("ledger", "amend", "enter", "ledger.db", "a.json", "--keys", "keys")
    shown = told("ledger", "show", "ledger.db")
    assert "agreed: mu = 0.2" in shown
    assert "amendments are signed by 50% of the active members" in shown
    assert "amendment 1 from round 2 on, 2 signatures" in shown
    federation.settle(2, 0.2)
    assert "sound: 5 entries" in told("ledger", "verify", "ledger.db")


def test_nothing_in_a_draft_makes_the_terminal_show_another_one(told, federation, tmp_path):
    federation.settle(1, 0.05)
    told("ledger", "amend", "draft", "ledger.db", "--set", "mu=9", "--out", "a.json")
    draft = json.loads((tmp_path / "a.json").read_text())
    escape = "\x1b[2J\x1b[Hmu: 0.05 → 0.06"  # clear the screen, and begin again at its top
    draft["signatures"] = {escape: "00"}
    draft["amendment"]["terms"]["agreed"]["most_samples"] = {escape: 5}
    (tmp_path / "a.json").write_text(json.dumps(draft))
    shown = told("ledger", "amend", "show", "a.json")
    assert shown.replace("\n", "").isprintable()
    assert "mu: 0.05 → 9" in shown
    assert shown.count("\\x1b[2J") == 2


def test_signatures_may_come_in_several_files(told, refused, federation, tmp_path):
    federation.settle(1, 0.05)
    told("ledger", "amend", "draft", "ledger.db", "--set", "round_count=9", "--out", "a.json")
    (tmp_path / "b.json").write_bytes((tmp_path / "a.json").read_bytes())
    told("ledger", "amend", "sign", "a.json", "north", "--key", "north.key")
    told("ledger", "amend", "sign", "b.json", "south", "--key", "south.key")
    told("ledger", "amend", "draft", "ledger.db", "--set", "round_count=8", "--out", "c.json")
    assert "different amendments" in refused("ledger", "amend", "enter", "ledger.db", "a.json", "c.json")
    told("ledger", "amend", "enter", "ledger.db", "a.json", "b.json", "--keys", "keys")


def test_a_newcomer_joins_with_everybodys_signature(told, refused, federation):
    federation.settle(1, 0.05)
    told("ledger", "amend", "draft", "ledger.db", "--admit", "east=east.pub.pem", "--out", "a.json")
    shown = told("ledger", "amend", "show", "a.json")
    assert re.search(r"admitted: east, with the key (p384:)?[0-9a-f]{64,}", shown), "members sign for this key"
    assert "in force from round 2 on" in shown
    for client in ("north", "south"):
        told("ledger", "amend", "sign", "a.json", client, "--key", f"{client}.key")
    assert "a signature by east" in refused("ledger", "amend", "enter", "ledger.db", "a.json", "--keys", "keys")
    told("ledger", "amend", "sign", "a.json", "east", "--key", "east.key")
    told("ledger", "amend", "enter", "ledger.db", "a.json", "--keys", "keys")
    assert "admitted" in told("ledger", "statement", "ledger.db", "east")
    assert "sound" in told("ledger", "verify", "ledger.db")


def test_a_private_key_that_others_can_read_is_refused(told, refused, federation, tmp_path):
    federation.settle(1, 0.05)
    told("ledger", "amend", "draft", "ledger.db", "--set", "mu=0.2", "--out", "a.json")
    (tmp_path / "north.key").chmod(0o644)
    assert "others can read it" in refused("ledger", "amend", "sign", "a.json", "north", "--key", "north.key")


def test_a_draft_that_shows_other_terms_is_not_signed(told, refused, federation, tmp_path):
    federation.settle(1, 0.05)
    told("ledger", "amend", "draft", "ledger.db", "--set", "mu=0.2", "--out", "a.json")
    draft = json.loads((tmp_path / "a.json").read_text())
    draft["before"]["agreed"]["rules"]["mu"] = 0.199
    (tmp_path / "a.json").write_text(json.dumps(draft))
    assert "shows other terms" in refused("ledger", "amend", "sign", "a.json", "north", "--key", "north.key")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--set", "mu"), "RULE=VALUE"),
        (("--set", "mu=-1"), "mu must be"),
        (("--set", "mu=1_0"), "mu must be"),
        (("--set", "mu=none"), "mu must be"),
        (("--set", "colour=red"), "'colour' is not an agreed rule"),
        (("--set", "settlement_version=1"), "not an agreed rule"),
        (("--set", "mu=0.05"), "already the terms in force"),
        (("--set", "round_count=0"), "round_count must be"),
        (("--set", "quorum=2"), "quorum must be"),
        (("--set", "loss_rule=never"), "loss_rule must be"),
        (("--set", "silence_charge=1.234"), "at most 2 decimal places"),
        (("--set", "profit_bounds.north=1,0"), "the smaller first"),
        (("--set", "profit_bounds.north=low"), "two numbers"),
        (("--set", "most_samples.north=many"), "most_samples.north must be"),
        (("--admit", "=x"), "--admit '=x' has no name"),
        ((), "give --set or --admit"),
    ],
)
def test_what_cannot_be_amended_is_said(refused, federation, arguments, words):
    federation.settle(1, 0.05)
    assert words in refused("ledger", "amend", "draft", "ledger.db", *arguments, "--out", "a.json")


def test_limits_can_be_stated_and_removed(told, federation):
    federation.settle(1, 0.05)
    limits = ("liability_cap=0.5", "silence_charge=12.50", "silence_limit=3", "round_count=none", "grace_rounds=1")
    of_north = ("profit_bounds.north=-2,2", "most_samples.north=500")
    options = [part for change in (*limits, *of_north) for part in ("--set", change)]
    drafted = told("ledger", "amend", "draft", "ledger.db", *options, "--out", "a.json")
    for line in ("round_count: 3 → none", "silence_charge: none → 12.50 XTS", "most_samples.north: none → 500"):
        assert line in drafted


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "commonweal.amendment-draft/2"}', "\0"])
def test_a_damaged_draft_is_refused(refused, federation, tmp_path, content):
    federation.settle(1, 0.05)
    (tmp_path / "a.json").write_text(content)
    assert "is not a draft" in refused("ledger", "amend", "show", "a.json")
    assert "is not a draft" in refused("ledger", "amend", "enter", "ledger.db", "a.json", "--keys", "keys")
    assert "Cannot read" in refused("ledger", "amend", "sign", "none.json", "north", "--key", "north.key")


def test_a_ledger_without_agreed_rules_has_nothing_to_amend(told, refused):
    told("ledger", "init", "new.db", "--keys", "keys")
    assert "no agreed rules" in refused("ledger", "amend", "draft", "new.db", "--set", "mu=1", "--out", "a.json")
    assert "no agreed rules" in told("ledger", "show", "new.db")


def test_an_old_ledger_gets_agreed_rules_from_its_last_round(told, refused, tmp_path):
    """A ledger whose rounds were settled when there were no agreed rules."""
    (tmp_path / "june.csv").write_text(CSV + ROUND.format(2))
    figures = Figures(
        profits={"north": 0.1, "south": 0.2, "west": 0.0}, contributions=dict.fromkeys(["north", "south", "west"], 1.0)
    )
    record = RoundRecord(round_number=1, decision=decide_figures(figures, Rules(mu=0.05)))
    members = dict.fromkeys(figures.clients)
    with closing(
        FederationLedger(str(tmp_path / "ledger.db"), KeyDirectory(tmp_path / "keys"), name="old", members=members)
    ) as ledger:
        ledger.settle(record)
    assert "rules are agreed on before the first round" in told("ledger", "verify", "ledger.db")
    drafted = told("ledger", "amend", "draft", "ledger.db", "--set", "round_count=9", "--out", "a.json")
    assert "mu: none → 0.05" in drafted
    told("ledger", "amend", "enter", "ledger.db", "a.json", "--keys", "keys")
    settling = ("decide", "june.csv", "--ledger", "ledger.db", "--keys", "keys", "--mu")
    assert "departs from the terms" in refused(*settling, "0.2")
    told(*settling, "0.05")
    assert "sound" in told("ledger", "verify", "ledger.db")


def test_without_keys_the_operator_amends_alone(told, refused, tmp_path):
    (tmp_path / "may.csv").write_text(CSV + ROUND.format(1))
    (tmp_path / "june.csv").write_text(CSV + ROUND.format(2))
    told("decide", "may.csv", "--mu", "0.05", "--ledger", "ledger.db", *MONEY, "--keys", "keys")
    other = ("decide", "june.csv", "--mu", "0.2", "--ledger", "ledger.db", "--keys", "keys")
    assert "mu is 0.05 in the terms and 0.2 in the round" in refused(*other)
    drafted = told("ledger", "amend", "draft", "ledger.db", "--set", "mu=0.2", "--out", "a.json")
    assert "no member has a key" in drafted
    told("ledger", "amend", "enter", "ledger.db", "a.json", "--keys", "keys")
    told(*other)
    verified = told("ledger", "verify", "ledger.db")
    assert "sound" in verified
    assert "note: entry 4: an amendment is signed by members" in verified


def test_the_order_of_rows_does_not_change_a_round(told, tmp_path):
    """The ledger's clients are in the order of admission, whatever the order in a file."""
    rows = ROUND.format(2).splitlines(keepends=True)
    (tmp_path / "may.csv").write_text(CSV + ROUND.format(1))
    (tmp_path / "june.csv").write_text(CSV + "".join(reversed(rows)))
    for month in ("may.csv", "june.csv"):
        told("decide", month, "--mu", "0.05", "--ledger", "ledger.db", *MONEY, "--keys", "keys")
    entries = [json.loads(line)["content"] for line in told("ledger", "show", "ledger.db", "--json").splitlines()]
    orders = [[row["client"] for row in entry["body"]["inputs"]] for entry in entries if entry["kind"] == "round"]
    assert orders == [["north", "south", "west"]] * 2
    assert "sound" in told("ledger", "verify", "ledger.db")


def test_the_rounds_of_a_ledger_with_terms_start_with_1(told, refused, tmp_path):
    (tmp_path / "late.csv").write_text(CSV + ROUND.format(5) + ROUND.format(6))
    said = refused("decide", "late.csv", "--mu", "0.05", "--ledger", "ledger.db", *MONEY, "--keys", "keys")
    assert "Round 5 cannot be settled before round 1" in said
    assert not (tmp_path / "ledger.db").exists()
    told("ledger", "init", "ledger.db", "--currency", "EUR", "--worth", "1", "--keys", "keys")
    (tmp_path / "rounds.csv").write_text(CSV + ROUND.format(1) + ROUND.format(2))
    told("decide", "rounds.csv", "--mu", "0.05", "--grace-rounds", "1", "--ledger", "ledger.db", "--keys", "keys")
    assert "1 grace round" in told("ledger", "show", "ledger.db")
