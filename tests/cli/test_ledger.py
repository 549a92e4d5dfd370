"""`commonweal ledger` as a treasurer and a member use it."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

ROUNDS = """round,client,profit,contribution
1,north,0.15,0.4
1,south,-0.05,0.5
1,west,0.02,0.1
2,north,0.10,0.3
2,south,0.03,0.6
2,west,-0.04,0.1
"""


@pytest.fixture
def told(commonweal):
    """The output of a command that must succeed."""

    def run(*arguments):
        done = commonweal(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def rounds(tmp_path):
    path = tmp_path / "rounds.csv"
    path.write_text(ROUNDS)
    return path


@pytest.fixture
def ledger(told, rounds):
    told("ledger", "init", "ledger.db", "--currency", "EUR", "--worth", "1000", "--keys", "keys")
    told("decide", rounds, "--mu", "0.5", "--ledger", "ledger.db", "--keys", "keys")
    return "ledger.db"


def balances(told, ledger):
    document = json.loads(told("ledger", "balances", ledger, "--json"))
    return {account: Decimal(amount) for account, amount in document["balances"].items()}


def test_a_ledger_settles_what_was_decided(told, ledger, rounds):
    decided = json.loads(told("decide", rounds, "--mu", "0.5", "--json"))
    transfers = {"north": 0.0, "south": 0.0, "west": 0.0}
    for held in decided["rounds"]:
        for client in held["clients"]:
            transfers[client["client"]] += client["transfer"] or 0.0
    found = balances(told, ledger)
    assert sum(found.values()) == 0
    for client, transfer in transfers.items():
        assert abs(found[f"clients/{client}"] - Decimal(transfer) * 1000) <= Decimal("0.02")


def test_settling_again_does_nothing_and_says_so(commonweal, told, ledger, rounds):
    before = told("ledger", "show", ledger, "--json")
    done = commonweal("decide", rounds, "--mu", "0.5", "--ledger", ledger, "--keys", "keys")
    assert done.returncode == 0
    assert "2 rounds already settled" in done.stderr
    assert told("ledger", "show", ledger, "--json") == before


def test_a_ledger_of_one_entry_is_described_in_the_singular(told):
    told("ledger", "init", "new.db", "--keys", "keys")
    assert told("ledger", "verify", "new.db").startswith("sound: 1 entry chained and signed, 0 decisions recomputed")


def test_verify_recognises_a_sound_and_a_changed_ledger(commonweal, told, ledger, tmp_path):
    import sqlite3

    assert told("ledger", "verify", ledger).startswith("sound: 5 entries")
    with sqlite3.connect(tmp_path / ledger) as connection:
        connection.execute("UPDATE commonweal_postings SET amount = amount + 1 WHERE entry = 4 AND position = 0")
    connection.close()
    done = commonweal("ledger", "verify", ledger)
    assert done.returncode == 1
    assert "entry 4" in done.stdout
    found = json.loads(commonweal("ledger", "verify", ledger, "--json").stdout)["findings"]
    assert {"entry", "rule", "expected", "found"} == set(found[0])
    assert found[0]["entry"] == 4


def test_a_rewritten_ledger_is_found_by_an_older_statement(commonweal, told, ledger, rounds, tmp_path):
    told("ledger", "statement", ledger, "south", "--format", "json", "--out", "south.json", "--keys", "keys")
    told("ledger", "export", ledger, "--format", "head", "--out", "head.json", "--keys", "keys")
    (tmp_path / ledger).rename(tmp_path / "old.db")
    told("ledger", "init", ledger, "--currency", "EUR", "--worth", "1000", "--keys", "keys")
    told("decide", rounds, "--mu", "0", "--ledger", ledger, "--keys", "keys")
    assert "sound" in told("ledger", "verify", ledger)
    for witness in ("south.json", "head.json"):
        assert commonweal("ledger", "verify", ledger, "--against", witness).returncode == 1
        assert "sound" in told("ledger", "verify", "old.db", "--against", witness)


def test_a_member_checks_its_statement_offline(commonweal, told, ledger, tmp_path):
    told("ledger", "statement", ledger, "south", "--format", "json", "--out", "south.json", "--keys", "keys")
    (key,) = (tmp_path / "keys").glob("*.pub.pem")
    (tmp_path / ledger).unlink()
    assert "sound: signed by the operator" in told("verify-statement", "south.json", "--key", key)
    statement = tmp_path / "south.json"
    whole = json.loads(statement.read_text())
    whole["document"]["lines"][1]["amount"] = "999999"
    statement.write_text(json.dumps(whole))
    done = commonweal("verify-statement", "south.json", "--key", key)
    assert done.returncode == 1
    assert "finding" in done.stdout


def test_statements_come_in_all_four_forms(told, ledger, tmp_path):
    told("ledger", "rotate-key", ledger, "--keys", "keys")
    shown = told("ledger", "statement", ledger, "south")
    assert "balance" in shown
    for form in ("text", "html", "csv", "json"):
        told("ledger", "statement", ledger, "south", "--format", form, "--out", f"s.{form}", "--keys", "keys")
        content = (tmp_path / f"s.{form}").read_text()
        assert "south" in content
        assert "north" not in content, "a statement is private"
    assert (tmp_path / "s.text").read_text().split() == shown.split()


def test_income_is_divided_once_per_reference(told, rounds):
    told("ledger", "init", "a.db", "--accrue", "--worth", "1000", "--keys", "keys")
    told("decide", rounds, "--mu", "0.5", "--ledger", "a.db", "--keys", "keys")
    accrued = {name: amount for name, amount in balances(told, "a.db").items() if name.startswith("accrued/")}
    told("ledger", "realise", "a.db", "100.01", "--reference", "r1", "--keys", "keys")
    after = balances(told, "a.db")
    assert after["model-income"] == Decimal("-100.01")
    assert sum(after.values()) == 0
    weights = {name.removeprefix("accrued/"): max(amount, Decimal(0)) for name, amount in accrued.items()}
    for client, weight in weights.items():
        exact = Decimal("100.01") * weight / sum(weights.values())
        assert abs(after[f"clients/{client}"] - exact) < Decimal("0.01")
    assert "nothing was done" in told("ledger", "realise", "a.db", "100.01", "--reference", "r1", "--keys", "keys")
    assert balances(told, "a.db") == after


def test_a_reversed_round_restores_the_balances_and_can_be_settled_again(commonweal, told, ledger, rounds):
    told("ledger", "reverse", ledger, "--round", "2", "--reason", "wrong month", "--keys", "keys")
    told("ledger", "reverse", ledger, "--entry", "4", "--reason", "wrong month", "--keys", "keys")
    assert set(balances(told, ledger).values()) == {0}
    done = commonweal("decide", rounds, "--mu", "0", "--ledger", ledger, "--keys", "keys")
    assert done.returncode == 2
    assert "departs from the terms of this ledger: mu is 0.5 in the terms and 0.0 in the round" in done.stderr
    told("decide", rounds, "--mu", "0.5", "--ledger", ledger, "--keys", "keys")
    assert "sound: 9 entries" in told("ledger", "verify", ledger)


def test_a_copy_of_the_ledger_verifies_like_the_ledger(told, ledger):
    told("ledger", "export", ledger, "--format", "book", "--out", "copy.db")
    assert told("ledger", "verify", "copy.db") == told("ledger", "verify", ledger)
    assert told("ledger", "show", "copy.db", "--json") == told("ledger", "show", ledger, "--json")


def test_one_entry_can_be_read_in_full(told, ledger):
    entry = json.loads(told("ledger", "show", ledger, "--entry", "4"))
    assert entry["kind"] == "round"
    assert [row["client"] for row in entry["body"]["inputs"]] == ["north", "south", "west"]
    assert sum(int(amount) for _, amount in entry["postings"]) == 0


def forge(path, change, keys):
    """A statement that the operator signed but that differs from the ledger."""
    from commonweal.ledger.key_directory import KeyDirectory
    from commonweal.ledger.signed_files import signed_content

    document = json.loads(path.read_text())["document"]
    change(document)
    path.write_bytes(signed_content(document, KeyDirectory(keys).current()))


def test_a_signed_statement_that_contradicts_the_ledger_is_found(commonweal, told, ledger, tmp_path):
    told("ledger", "statement", ledger, "south", "--format", "json", "--out", "south.json", "--keys", "keys")
    assert "sound" in told("ledger", "verify", ledger, "--against", "south.json")

    def lie(document):
        document["lines"][-1] |= {"amount": "0", "balance": document["lines"][-2]["balance"], "profit": 0.5}
        document["balance"] = document["lines"][-2]["balance"]

    forge(tmp_path / "south.json", lie, tmp_path / "keys")
    (key,) = (tmp_path / "keys").glob("*.pub.pem")
    assert "sound" in told("verify-statement", "south.json", "--key", key), "it is signed and adds up"
    done = commonweal("ledger", "verify", ledger, "--against", "south.json")
    assert done.returncode == 1
    assert "entry 5: south.json agrees with the ledger" in done.stdout
    forge(tmp_path / "south.json", lambda document: document.update(lines=[], balance="0"), tmp_path / "keys")
    assert commonweal("ledger", "verify", ledger, "--against", "south.json").returncode == 1


def test_a_member_sees_whether_the_ledger_holds_its_own_key(commonweal, told, tmp_path):
    from commonweal.ledger.keys import SigningKey, public_pem

    for name in ("own", "other"):
        (tmp_path / f"{name}.pem").write_bytes(public_pem(SigningKey.from_seed(name.ljust(32).encode()).public))
    told("ledger", "init", "k.db", "--member", "south=own.pem", "--keys", "keys")
    assert "sound" in told("ledger", "verify", "k.db", "--member", "south=own.pem")
    for wrong in ("south=other.pem", "north=own.pem"):
        done = commonweal("ledger", "verify", "k.db", "--member", wrong)
        assert done.returncode == 1
        assert "the ledger has the key of" in done.stdout


def test_one_file_per_round_gives_the_same_ledger_as_one_file(told, tmp_path):
    """Members that a file does not mention were absent."""
    rows = ROUNDS.splitlines()
    (tmp_path / "one.csv").write_text("\n".join([rows[0], *rows[1:4]]) + "\n")
    (tmp_path / "two.csv").write_text("\n".join([rows[0], *rows[4:6]]) + "\n")
    (tmp_path / "both.csv").write_text("\n".join([rows[0], *rows[1:6]]) + "\n")
    for file in ("one", "two", "both"):
        money = ("--currency", "EUR", "--worth", "1000")
        told("decide", f"{file}.csv", "--mu", "0.5", "--ledger", "ledger.db", *money, "--keys", "keys")
    assert "round 2: 2 clients, mu 0.5; absent: west" in " ".join(told("ledger", "show", "ledger.db").split())
    assert "round 2: absent" in " ".join(told("ledger", "statement", "ledger.db", "west").split())


def test_a_new_ledger_is_announced(commonweal, rounds):
    settle = ("decide", rounds, "--mu", "0.5", "--ledger", "new.db", "--keys", "keys")
    done = commonweal(*settle, "--currency", "EUR", "--worth", "1")
    assert "new ledger in EUR, one unit of utility is worth 1.00;" in done.stderr
    for again in (settle, (*settle, "--currency", "EUR", "--worth", "1.00")):
        assert "new ledger" not in commonweal(*again).stderr


def test_no_ledger_is_opened_with_a_factor_that_nobody_stated(refused, rounds):
    settle = ("decide", rounds, "--mu", "0.5", "--ledger", "misspelt.db", "--keys", "keys")
    for options in ((), ("--currency", "EUR"), ("--worth", "1")):
        said = refused(*settle, *options)
        assert "There is no ledger in misspelt.db yet" in said
        assert "commonweal ledger init" in said
        assert "--currency EUR --worth 1" in said
    assert "--currency EUR needs --worth" in refused("ledger", "init", "new.db", "--currency", "EUR")
    assert "Add --ledger" in refused("decide", rounds, "--mu", "0.5", "--currency", "EUR")


def test_figures_in_euros_are_booked_as_they_are(told, tmp_path):
    (tmp_path / "euros.csv").write_text("client,profit,contribution\nann,120,1\nbob,-20.5,1\n")
    told(
        "decide", "euros.csv", "--mu", "inf", "--ledger", "e.db", "--currency", "EUR", "--worth", "1", "--keys", "keys"
    )
    balances = json.loads(told("ledger", "balances", "e.db", "--json"))["balances"]
    assert balances == {"clients/ann": "-70.25", "clients/bob": "70.25"}, "each is left with 49.75"


def test_terms_that_differ_from_those_of_the_ledger_are_refused(refused, told, rounds):
    told("ledger", "init", "ledger.db", "--currency", "EUR", "--worth", "1000", "--keys", "keys")
    settle = ("decide", rounds, "--mu", "0.5", "--ledger", "ledger.db", "--keys", "keys")
    assert "is kept in EUR, got --currency USD" in refused(*settle, "--currency", "USD", "--worth", "1000")
    assert "is worth 1000.00 EUR, got --worth 1." in refused(*settle, "--currency", "EUR", "--worth", "1")


@pytest.mark.parametrize(("currency", "worth", "shown"), [
    ("JPY", "5000", "5000"), ("KWD", "2.125", "2.125"), ("CLF", "0.5", "0.5000"), ("EUR", "2.5", "2.50"),
])  # fmt: skip
def test_decimal_places_are_those_of_the_currency(told, currency, worth, shown):
    """ISO 4217: the yen has none, the dinar three, the unidad de fomento four."""
    said = told("ledger", "init", "ledger.db", "--currency", currency, "--worth", worth, "--keys", "keys")
    assert f"money: in {currency}, one unit of utility is worth {shown}" in said


def test_other_decimal_places_must_be_asked_for_and_are_named(told, refused):
    yen = ("ledger", "init", "yen.db", "--currency", "JPY", "--keys", "keys")
    assert "at most 0 decimal places, such as 123456, got '0.5'" in refused(*yen, "--worth", "0.5")
    said = told(*yen, "--worth", "0.5", "--minor-digits", "2")
    assert "in JPY (with 2 decimal places; ISO 4217 has 0), one unit of utility is worth 0.50" in said
    gold = ("ledger", "init", "gold.db", "--currency", "XAU", "--worth", "1", "--keys", "keys")
    assert "ISO 4217 gives XAU no decimal places. Correct the code, or add --minor-digits" in refused(*gold)


def test_a_file_without_the_column_round_counts_as_round_1(told, refused, commonweal, tmp_path):
    """The figures of May and of June, each in a file of their own."""
    rows = {"may": "north,0.15,0.4\nsouth,-0.05,0.5\n", "june": "north,0.1,0.3\nsouth,0.03,0.6\n"}
    for month, content in rows.items():
        (tmp_path / f"{month}.csv").write_text("client,profit,contribution\n" + content)
    options = ("--mu", "inf", "--ledger", "l.db", "--keys", "keys")
    told("decide", "may.csv", *options, "--currency", "EUR", "--worth", "1")
    said = refused("decide", "june.csv", *options)
    assert "The file has no column round, so its figures count as round 1." in said
    assert "add the column: 2 is the next one" in said
    again = commonweal("decide", "may.csv", *options)
    assert "already settled; the file has no column round, so its figures count as round 1" in again.stderr
    numbered = [f"{round_number},{row}" for round_number, row in zip((2, 2), rows["june"].split(), strict=True)]
    (tmp_path / "june.csv").write_text("round,client,profit,contribution\n" + "\n".join(numbered) + "\n")
    told("decide", "june.csv", *options)
    (tmp_path / "june.csv").write_text((tmp_path / "june.csv").read_text().replace("0.03", "0.04"))
    assert "no column" not in refused("decide", "june.csv", *options)
