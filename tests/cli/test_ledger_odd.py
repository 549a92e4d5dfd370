"""A ledger that its operator signed, with terminal escapes wherever text can be: no command prints them."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from commonweal.ledger.entries import Posting
from commonweal.ledger.sql.store import open_store
from tests.ledger.sample_ledger import make_sample, next_document, parsed, sealed

ESCAPE = "\x1b[2J\x9b31m\u202e\r\x07"  # clear the screen, turn red, write backwards, start the line again, ring


@pytest.fixture
def hostile(tmp_path):
    """Names, a reference, a reason, a key and dates with escapes; everything is chained, signed and balanced."""
    sample = make_sample(str(tmp_path / "ledger.db"), tmp_path / "keys", "accruals")
    entry = next(e.number for e in sample.entries() if parsed(e)["kind"] == "realisation")
    stated = parsed(sample.entries()[entry - 1])["postings"]
    opposite = [Posting(account, -int(amount)) for account, amount in stated]
    income = [Posting("model-income", -5), Posting(f"clients/eve{ESCAPE}", 5)]
    added = [
        ("admission", {"members": [{"client": f"eve{ESCAPE}", "key": ESCAPE}]}, ()),
        ("reversal", {"entry": entry, "reason": f"sound{ESCAPE}"}, opposite),
        ("realisation", {"reference": f"invoice{ESCAPE}", "amount": "5"}, income),
        ("withdrawal", {"client": f"eve{ESCAPE}", "round": 9, "signature": ESCAPE}, ()),
    ]
    with sample.store.writing() as writing:
        for kind, body, postings in added:
            document = next_document(list(writing.entries()), kind, body, postings)
            document["at"] = f"2026-02-01{ESCAPE}"
            writing.add(sealed(document, sample.operator), postings)
    sample.store.close()
    return sample


COMMANDS = [
    ["ledger", "show", "ledger.db"],
    ["ledger", "show", "ledger.db", "--json"],
    *(["ledger", "show", "ledger.db", "--entry", str(number)] for number in (12, 13, 14, 15)),
    ["ledger", "balances", "ledger.db"],
    ["ledger", "balances", "ledger.db", "--json"],
    ["ledger", "verify", "ledger.db"],
    ["ledger", "verify", "ledger.db", "--json"],
    *(
        ["ledger", "statement", "ledger.db", client, "--format", form, "--keys", "keys"]
        for client in ("ann", f"eve{ESCAPE}", "nobody")
        for form in ("text", "html", "csv", "json")
    ),
    *(
        ["ledger", "export", "ledger.db", "--format", form, "--keys", "keys"]
        for form in ("csv", "hledger", "beancount")
    ),
    ["ledger", "export", "ledger.db", "--format", "head", "--keys", "keys"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: ascii(" ".join(command[1:])))
def test_no_command_prints_control_characters(commonweal, hostile, command):
    done = commonweal(*command)
    assert "Traceback" not in done.stderr
    assert done.stdout or done.returncode
    printed = (done.stdout + done.stderr).replace("\r\n", "\n")
    for letter in (letter for letter in ESCAPE if not letter.isprintable()):
        assert letter not in printed, f"{letter!r} in {printed[printed.index(letter) - 40 :][:80]!r}"


def test_the_escapes_are_findings_and_json_keeps_their_values(commonweal, hostile):
    done = commonweal("ledger", "verify", "ledger.db", "--json")
    assert done.returncode == 1
    rules = {(finding["entry"], finding["rule"]) for finding in json.loads(done.stdout)["findings"]}
    last = len(hostile_entries(hostile))
    assert {(number, "texts have only printable characters") for number in range(last - 3, last + 1)} <= rules
    shown = json.loads(commonweal("ledger", "show", "ledger.db", "--entry", str(last)).stdout)
    assert shown["body"]["client"] == f"eve{ESCAPE}"


def hostile_entries(sample):
    with closing(open_store(sample.location)) as store, store.reading() as reading:
        return list(reading.entries())


def test_notes_are_shown_and_do_not_change_the_exit_code(commonweal, tmp_path):
    make_sample(str(tmp_path / "ledger.db"), tmp_path / "keys", "accruals").store.close()
    done = commonweal("ledger", "verify", "ledger.db")
    assert done.returncode == 0
    assert "\nnote: entry 6: a round settled again is as before: expected as in entry 3, found " in done.stdout
    document = json.loads(commonweal("ledger", "verify", "ledger.db", "--json").stdout)
    assert document["findings"] == []
    assert {5, 6} <= {note["entry"] for note in document["notes"]}


def test_income_without_a_reversed_round(commonweal, tmp_path):
    (tmp_path / "figures.csv").write_text(
        "round,client,profit,contribution\n1,north,0.2,0.5\n1,south,0.1,0.5\n2,north,0.2,0.5\n2,south,0.1,0.5\n"
    )
    init = ["ledger", "init", "ledger.db", "--currency", "EUR", "--worth", "1000", "--accrue", "--keys", "keys"]
    assert commonweal(*init).returncode == 0
    decide = ["decide", "figures.csv", "--mu", "1", "--ledger", "ledger.db", "--keys", "keys"]
    assert commonweal(*decide).returncode == 0
    reverse = ["ledger", "reverse", "ledger.db", "--round", "2", "--reason", "a trial", "--keys", "keys"]
    assert commonweal(*reverse).returncode == 0
    realise = ["ledger", "realise", "ledger.db", "100", "--reference", "invoice-1", "--keys", "keys"]
    done = commonweal(*realise)
    assert done.returncode == 2
    assert "Round 2 was reversed in entry 6 and is not settled again" in done.stderr
    assert commonweal(*realise, "--without-round", "2").returncode == 0
    done = commonweal("ledger", "verify", "ledger.db")
    assert done.returncode == 0
    assert "note: entry 7: no income is divided between a reversal and the new settlement" in done.stdout


def test_many_notes_of_one_kind_do_not_hide_another(commonweal, tmp_path):
    sample = make_sample(str(tmp_path / "ledger.db"), tmp_path / "keys", "transfers")
    with sample.store.writing() as writing:
        for number in range(120):  # each reference is too long, and income cannot be divided here
            body = {"reference": f"{number:0300}", "amount": "5"}
            document = next_document(list(writing.entries()), "realisation", body)
            writing.add(sealed(document, sample.operator), ())
    sample.store.close()
    shown = commonweal("ledger", "verify", "ledger.db").stdout
    assert "a reversed round is settled again" in shown, "as it is known only at the end"
    assert "more notes of this kind: a reference is a short text" in shown
    assert shown.count("note: entry") == 100


@pytest.mark.parametrize("operator", [5, ["x"], None, {}])
def test_an_operator_that_is_no_text(commonweal, tmp_path, operator):
    sample = make_sample(str(tmp_path / "ledger.db"), tmp_path / "keys", "transfers")
    opening = parsed(sample.entries()[0])
    opening["body"]["operator"] = operator
    forged = sealed(opening, sample.operator)
    with sample.store.engine.begin() as connection:
        connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
        connection.exec_driver_sql("DELETE FROM commonweal_postings")
        connection.exec_driver_sql("DELETE FROM commonweal_entries WHERE number > 1")
        connection.exec_driver_sql(
            "UPDATE commonweal_entries SET content = ?, hash = ?, signature = ?",
            (forged.content, forged.hash, forged.signature),
        )
    sample.store.close()
    for options in ((), ("--json",)):
        result = commonweal("ledger", "verify", "ledger.db", *options)
        assert result.returncode == 1
        assert "the operator signed the entry" in result.stdout


def test_a_hash_that_is_no_text(commonweal, tmp_path):
    sample = make_sample(str(tmp_path / "ledger.db"), tmp_path / "keys", "transfers")
    with sample.store.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE commonweal_entries SET hash = ?", (b"\xff\xfe",))
    sample.store.close()
    for options in ((), ("--json",)):
        result = commonweal("ledger", "verify", "ledger.db", *options)
        assert result.returncode == 1
        assert "the hash matches the content" in result.stdout
