"""What the ledger commands refuse: with a message, exit code 2, and an unchanged ledger."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import stat
import subprocess

import pytest

from .conftest import run_here

MONEY = ("--currency", "XTS", "--worth", "1000")
ROUND = "round,client,profit,contribution\n1,north,0.15,0.4\n1,south,-0.05,0.5\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two ledgers, created once."""
    folder = tmp_path_factory.mktemp("ledgers")
    (folder / "r.csv").write_text(ROUND)
    for arguments in (
        ("ledger", "init", "ledger.db", "--member", "north", "--member", "south", "--keys", "keys"),
        ("decide", "r.csv", "--mu", "inf", "--ledger", "ledger.db", "--keys", "keys"),
        ("ledger", "init", "a.db", "--accrue", "--keys", "keys"),
        ("decide", "r.csv", "--mu", "inf", "--ledger", "a.db", "--keys", "keys"),
        ("ledger", "realise", "a.db", "10", "--reference", "used", "--keys", "keys"),
    ):
        assert run_here(arguments, folder).returncode == 0
    return folder


@pytest.fixture
def ledger(made, tmp_path):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path / "ledger.db"


@pytest.fixture
def unchanged(refused, ledger, tmp_path):
    """The message of a refused command that leaves both ledgers as they were, to the byte."""

    def run(*arguments, keys="keys"):
        before = {name: (tmp_path / name).read_bytes() for name in ("ledger.db", "a.db")}
        said = refused(*arguments, "--keys", keys)
        assert {name: (tmp_path / name).read_bytes() for name in before} == before
        return said

    return run


def settle_more(tmp_path, text):
    (tmp_path / "more.csv").write_text(text)
    return ("decide", "more.csv", "--mu", "inf", "--ledger", "ledger.db")


def test_an_unknown_client(unchanged, tmp_path):
    said = unchanged(*settle_more(tmp_path, ROUND.replace("1,", "2,").replace("south", "sooth")))
    assert "'sooth'" in said
    assert "north, south" in said
    assert "Client 'sooth' is not a member" in unchanged("ledger", "statement", "ledger.db", "sooth")


def test_other_figures_for_a_settled_round(unchanged, tmp_path):
    said = unchanged(*settle_more(tmp_path, ROUND.replace("0.15", "0.16")))
    assert "inputs[north].profit is 0.15 there and 0.16 here" in said


@pytest.mark.parametrize("amount", ["-5", "0", "0.001", "inf", "1e30", "1_0"])
def test_amounts_that_are_not_income(unchanged, amount):
    assert "got" in unchanged("ledger", "realise", "a.db", amount, "--reference", "new")


def test_income_under_a_used_reference_with_another_amount(unchanged):
    said = unchanged("ledger", "realise", "a.db", "11", "--reference", "used")
    assert "10.00" in said
    assert "Use a new reference." in said


def test_income_where_nobody_accrued(unchanged):
    assert "--accrue" in unchanged("ledger", "realise", "ledger.db", "10", "--reference", "new")


def test_a_key_that_is_not_the_ledgers(unchanged):
    said = unchanged("ledger", "realise", "a.db", "10", "--reference", "new", keys="other-keys")
    assert "Name the directory that has this key." in said


def test_a_private_key_that_others_may_read(unchanged, tmp_path):
    (key,) = (path for path in (tmp_path / "keys").glob("*.pem") if not path.name.endswith(".pub.pem"))
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    key.chmod(0o644)
    assert "chmod 600" in unchanged("ledger", "realise", "a.db", "10", "--reference", "new")


def test_a_key_file_that_holds_another_key(unchanged, commonweal, tmp_path):
    commonweal("ledger", "init", "other.db", "--keys", "other-keys")
    (other,) = (path for path in (tmp_path / "other-keys").glob("*.pem") if not path.name.endswith(".pub.pem"))
    (own,) = (path for path in (tmp_path / "keys").glob("*.pem") if not path.name.endswith(".pub.pem"))
    shutil.copy(other, own)
    assert "should hold the key" in unchanged("ledger", "realise", "a.db", "10", "--reference", "new")


@pytest.mark.parametrize(
    "arguments",
    [
        ("realise", "10", "--reference", "new"),
        ("reverse", "--round", "1", "--reason", "why not"),
    ],
)
def test_a_read_only_database(unchanged, tmp_path, arguments):
    url = f"sqlite:///file:{tmp_path / 'a.db'}?mode=ro&uri=true"
    said = unchanged("ledger", arguments[0], url, *arguments[1:])
    assert "readonly" in said
    assert "write access" in said


def test_a_database_of_a_newer_schema(refused, ledger, tmp_path):
    with sqlite3.connect(ledger) as connection:
        connection.execute("UPDATE commonweal_schema SET version_num = '0099'")
    connection.close()
    for arguments in (
        ("ledger", "verify", "ledger.db"),
        ("ledger", "init", "ledger.db"),
        ("ledger", "reverse", "ledger.db", "--round", "1", "--reason", "x"),
        ("decide", "r.csv", "--mu", "inf", "--ledger", "ledger.db"),
    ):
        said = refused(*arguments)
        assert "0099" in said
        assert "newer version" in said


def test_two_ledgers_in_one_database(unchanged):
    assert "already has a ledger" in unchanged("ledger", "init", "ledger.db")


def test_a_file_that_is_not_a_database(refused, tmp_path):
    (tmp_path / "r.csv").write_text(ROUND)
    for command in (("ledger", "verify", "r.csv"), ("ledger", "init", "r.csv")):
        assert "is not a SQLite database" in refused(*command)
    assert (tmp_path / "r.csv").read_text() == ROUND


def test_a_database_without_a_ledger(refused, tmp_path):
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE entries (number INTEGER)")
    connection.close()
    assert "ledger init" in refused("ledger", "show", "other.db")
    assert "There is no ledger at missing.db" in refused("ledger", "show", "missing.db")
    assert not (tmp_path / "missing.db").exists()
    assert "folder" in refused("ledger", "init", "no/such/folder/ledger.db")


def test_an_unreachable_server_shows_no_password(refused):
    said = refused("ledger", "verify", "postgresql://ann:secret@127.0.0.1:1/ledger")
    assert "Cannot reach the database" in said
    assert "secret" not in said


def test_a_url_of_another_kind(refused):
    assert "SQLite or PostgreSQL" in refused("ledger", "show", "mysql://host/ledger")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--currency", "euro"),
        ("--minor-digits", "9"),
        ("--worth", "0"),
        ("--worth", "1e40"),
        ("--worth", "0.001"),
        ("--largest-share", "0.5"),
        ("--name", " "),
    ],
)
def test_invalid_terms(refused, tmp_path, option, value):
    assert "got" in refused("ledger", "init", "new.db", option, value, "--keys", "new-keys")
    assert not (tmp_path / "new.db").exists()


@pytest.mark.parametrize(("member", "fault"), [("=x", "has no name"), ("north=missing.pem", "Cannot read")])
def test_invalid_members(refused, tmp_path, member, fault):
    assert fault in refused("ledger", "init", "new.db", "--member", member, "--keys", "new-keys")
    assert not (tmp_path / "new.db").exists()


def test_a_disk_that_is_full(commonweal, ledger, tmp_path):
    """The file must not grow, as on a full disk."""
    before = ledger.read_bytes()
    rows = "".join(f"{number},{client},0.1,0.5\n" for number in range(2, 60) for client in ("north", "south"))
    (tmp_path / "many.csv").write_text("round,client,profit,contribution\n" + rows)
    limit = len(before) + 8192

    done = commonweal(
        "decide", "many.csv", "--mu", "inf", "--ledger", "ledger.db", "--keys", "keys",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "is full or failing" in done.stderr
    assert "Traceback" not in done.stderr
    verified = commonweal("ledger", "verify", "ledger.db")
    assert verified.returncode == 0, verified.stdout
    again = commonweal("decide", "many.csv", "--mu", "inf", "--ledger", "ledger.db", "--keys", "keys")
    assert again.returncode == 0, again.stderr
    assert "sound: 62 entries" in commonweal("ledger", "verify", "ledger.db").stdout


def test_a_disk_without_any_space(refused, tmp_path):
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("needs root to mount a small file system")
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(small)], capture_output=True).returncode:
        pytest.skip("this system mounts no tmpfs here")
    try:
        (tmp_path / "r.csv").write_text(ROUND)
        said = refused("decide", "r.csv", "--mu", "inf", "--ledger", "small/ledger.db", *MONEY, "--keys", "keys2")
        assert "is full or failing" in said
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_figures_that_are_too_large_for_money(unchanged, tmp_path):
    said = unchanged(*settle_more(tmp_path, ROUND.replace("1,", "2,").replace("0.15", "1e40")))
    assert "10^15" in said


def test_a_reversal_of_something_that_does_not_exist(unchanged):
    assert "Round 7 is not settled" in unchanged("ledger", "reverse", "ledger.db", "--round", "7", "--reason", "x")
    assert "Entry 1 is an opening" in unchanged("ledger", "reverse", "ledger.db", "--entry", "1", "--reason", "x")
    assert "1 to 4" in unchanged("ledger", "reverse", "ledger.db", "--entry", "99", "--reason", "x")
    assert "reason" in unchanged("ledger", "reverse", "ledger.db", "--round", "1", "--reason", " ")
    assert "either" in unchanged("ledger", "reverse", "ledger.db", "--reason", "x")


def test_files_that_are_not_statements(refused, tmp_path):
    (tmp_path / "s.json").write_text("{}")
    (tmp_path / "k.pem").write_text("no key")
    assert "format" in refused("verify-statement", "s.json", "--key", "k.pem")
    assert "Cannot read missing.json: no such file" in refused("verify-statement", "missing.json", "--key", "k.pem")


@pytest.mark.parametrize("location", ["", ":memory:", "sqlite://", " "])
def test_a_ledger_in_memory_is_refused(refused, tmp_path, location):
    (tmp_path / "r.csv").write_text(ROUND)
    assert "A ledger needs a file or database" in refused(
        "decide", "r.csv", "--mu", "inf", "--ledger", location, *MONEY
    )


@pytest.mark.parametrize(
    "location",
    [
        "postgresql:/reader:topsecret@127.0.0.1/x",
        "postgresql://reader:topsecret@127.0.0.1:port/x",
        "postgresql://re@der:topsecret@127.0.0.1:1/x",
        "postgresql://127.0.0.1:1/x?user=reader&password=topsecret",
        "postgresql://reader:topsecret@127.0.0.1:1/x?sslmode=require",
        "postgresql://reader:topsecret@127.0.0.1:1/x?sslmode=maybe",
        "postgresql://reader:topsecret@127.0.0.1:1/x?nonsense=1",
        "sqlite:///x.db?nonsense=1",
    ],
)
def test_unusual_locations_cause_no_traceback_and_show_no_password(refused, location):
    assert "topsecret" not in refused("ledger", "verify", location)


def test_a_round_that_would_be_refused_creates_no_ledger(refused, tmp_path):
    (tmp_path / "r.csv").write_text(ROUND.replace("0.15", "1e40"))
    refused("decide", "r.csv", "--mu", "inf", "--ledger", "new.db", *MONEY, "--keys", "keys")
    refused("ledger", "init", "new.db", "--member", "good", "--member", "bad\nname", "--keys", "keys")
    assert not (tmp_path / "new.db").exists()


def test_an_unsigned_entry_stops_further_entries(unchanged, commonweal, ledger):
    with sqlite3.connect(ledger) as connection:
        connection.execute("UPDATE commonweal_entries SET signature = hash || hash WHERE number = 3")
    connection.close()
    assert "did not sign it" in unchanged("ledger", "reverse", "ledger.db", "--round", "1", "--reason", "x")
    assert "did not sign" in unchanged("ledger", "statement", "ledger.db", "north")


def test_figures_without_signatures_for_a_member_that_signs(refused, commonweal, ledger, tmp_path):
    from commonweal.ledger.keys import SigningKey, public_pem

    (tmp_path / "n.pem").write_bytes(public_pem(SigningKey.new().public))
    commonweal("ledger", "init", "k.db", "--member", "north=n.pem", "--member", "south", "--keys", "keys")
    said = refused("decide", "r.csv", "--mu", "inf", "--ledger", "k.db", "--keys", "keys")
    assert "these figures are not signed" in said


@pytest.mark.skipif(os.name != "posix", reason="named pipes")
def test_a_pipe_is_not_a_ledger(refused, tmp_path):
    os.mkfifo(tmp_path / "pipe.db")
    for command in (("verify", "pipe.db"), ("init", "pipe.db")):
        assert "pipe.db is not a file" in refused("ledger", *command)


def test_a_currency_that_is_none(refused):
    said = refused("ledger", "init", "new.db", "--currency", "XYZ", "--worth", "1")
    assert "ISO 4217 gives XYZ no decimal places. Correct the code" in said
