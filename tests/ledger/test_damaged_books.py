"""No damage to a ledger's database gives a traceback: each command names findings, or refuses in a sentence.

The damages are random: bytes of the file, rows, tables, and the JSON inside entries, which the operator may even have
signed. The default run tries a few of them, `make soak` thousands; the seed in a failure repeats its case.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sqlite3
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from typer.main import get_command

from commonweal.cli.main import app
from commonweal.errors import CommonwealError
from commonweal.ledger.canonical import hash_of
from commonweal.ledger.chain import key_rotations
from commonweal.ledger.entries import signed_message
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.signed_files import signed_content
from commonweal.ledger.statements import make_statement, statement_document
from tests.ledger.sample_ledger import ENTRIES, POSTINGS, make_sample
from tests.remote.toy import make_toy

PARSER = get_command(app)
VERSIONS = "commonweal_schema"
BOOKS = ("transfers", "accruals", "federation")
FIGURES = "round,client,profit,contribution\n40,ann,0.2,0.5\n40,bob,0.1,0.3\n40,cyd,-0.05,0.2\n"
COMMANDS = (  # of a member, an accountant or the operator; {} is somebody in the ledger
    "verify book.db --json",
    "verify book.db --against kept.json --member {}=own.pub",
    "show book.db",
    "show book.db --json",
    "show book.db --entry 3",
    "balances book.db",
    "balances book.db --json",
    "statement book.db {}",
    "statement book.db {} --format json",
    "statement book.db {} --format csv",
    "statement book.db {} --format html",
    "export book.db --format csv",
    "export book.db --format hledger",
    "export book.db --format beancount",
    "export book.db --format head",
    "export book.db --format book --out copy.db",
    "realise book.db 100.00 --reference new",
    "reverse book.db --round 2 --reason wrong",
    "rotate-key book.db",
)
SETTLE = "decide figures.csv --mu inf --ledger book.db"


@pytest.fixture(scope="module")
def books(tmp_path_factory) -> dict[str, Path]:
    """Folders with a sound ledger, its keys, and what a member keeps of it."""
    made = {}
    for name in BOOKS:
        folder = made[name] = tmp_path_factory.mktemp(name)
        if name == "federation":
            toy = make_toy(tmp_path_factory.mktemp("toy") / "f", rounds=2, mechanism='mu = 0.01\nfigures = "forecast"')
            toy.coordinate()
            shutil.copy(toy.out / "ledger.db", folder / "book.db")
            shutil.copytree(toy.folder / "operator-keys", folder / "keys")
            shutil.copy(next(toy.home("north").glob("statements/*.json")), folder / "kept.json")
            shutil.copy(toy.folder / "members/north/node-key.pub", folder / "own.pub")
        else:
            sample = make_sample(str(folder / "book.db"), folder / "keys", name)
            statement = statement_document(make_statement(sample.store, "ann", at="2026-03-01T00:00:00Z"), sample.store)
            (folder / "kept.json").write_bytes(signed_content(statement, sample.operator))
            shutil.copy(sample.keys.public_file(sample.operator.public), folder / "own.pub")
            assert key_rotations(sample.store, "a test")
            sample.store.close()
        (folder / "figures.csv").write_text(FIGURES)
    return made


# Damages. Each takes the database and a generator.


def odd_value(random: Random) -> Any:
    """Something that SQLite stores in any column."""
    return random.choice(
        (
            None, 0, -1, 1, 2**31, 2**63 - 1, -(2**63), 0.5, float("inf"), 1e300, "", "x", "1", " 1", "0x1", "\ud7ff",
            "\x00", "\x1b[31m", "{}", "[]", "null", b"", b"\xff\xfe\x00", b"1", "9" * 400, "n\u00e4me", "a" * 70_000,
        )
    )  # fmt: skip


def odd_json(random: Random) -> Any:
    """A JSON value of any type."""
    deep: Any = 0
    for _ in range(random.choice((3, 60, 900, 20_000))):
        deep = [deep] if random.random() < 0.5 else {"a": deep}
    return random.choice(
        (
            None, True, False, 0, 1, -1, 3, 2**53, 10**15, 10**16, 10**400, 0.5, -0.0, 1e308, float("inf"),
            float("nan"), "", "x", "1", "-5", "1e5", "inf", "nan", "5_0", "\x1b[2J", "\ud800", "9" * 5000, [], {}, [[]],
            [None], [[1, 2], [3, 4]], [["clients/ann", "5"]], [["x"]], {"client": 5}, {"client": None}, [{}],
            {"a": {"b": [1]}}, ["ann", "ann"], [1] * 300, "ann", "zoe", "2026-13-45T99:99:99Z", "p384:00", "00" * 32,
            deep, deep,
        )
    )  # fmt: skip


def bytes_flipped(file: Path, random: Random) -> None:
    content = bytearray(file.read_bytes())
    for _ in range(random.choice((1, 1, 2, 10, 200))):
        content[random.randrange(len(content))] = random.randrange(256)
    file.write_bytes(content)


def header_changed(file: Path, random: Random) -> None:
    content = bytearray(file.read_bytes())
    content[random.randrange(100)] = random.randrange(256)
    file.write_bytes(content)


def cut(file: Path, random: Random) -> None:
    content = file.read_bytes()
    length = random.choice((0, 1, 15, 16, 99, 100, 512, 4096, 4097, random.randrange(len(content))))
    file.write_bytes(content[:length] + bytes(random.choice((0, 0, 4096, len(content)))))


def pages_exchanged(file: Path, random: Random) -> None:
    content = file.read_bytes()
    pages = [content[start : start + 4096] for start in range(0, len(content), 4096)]
    one, other = random.randrange(len(pages)), random.randrange(len(pages))
    pages[one] = random.choice((pages[other], bytes(4096), random.randbytes(4096)))
    file.write_bytes(b"".join(pages))


def changed_by_sql(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        for statement in statements:
            connection.execute(statement)


def loosened(file: Path) -> None:
    """Without keys and NOT NULL."""
    for table in (ENTRIES, POSTINGS, VERSIONS):
        changed_by_sql(
            file,
            f"CREATE TABLE loose AS SELECT * FROM {table}",
            f"DROP TABLE {table}",
            f"ALTER TABLE loose RENAME TO {table}",
        )


def row_changed(file: Path, random: Random) -> None:
    loosened(file)
    table = random.choice((ENTRIES, ENTRIES, POSTINGS, POSTINGS, VERSIONS))
    with closing(sqlite3.connect(file)) as connection, connection:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        row = connection.execute(f"SELECT rowid FROM {table} ORDER BY random() LIMIT 1").fetchone()
        for _ in range(random.choice((1, 1, 3))):
            if random.random() < 0.15:
                connection.execute(f"DELETE FROM {table} WHERE rowid = ?", row)
            elif random.random() < 0.15:
                connection.execute(f"INSERT INTO {table} SELECT * FROM {table} WHERE rowid = ?", row)
            else:
                column = random.choice(columns)
                connection.execute(
                    f"UPDATE {table} SET {column} = ? WHERE rowid = ?",
                    (odd_value(random), *row),
                )


def tables_changed(file: Path, random: Random) -> None:
    table = random.choice((ENTRIES, POSTINGS, VERSIONS))
    column = random.choice({ENTRIES: ("number", "content", "hash", "signature"), VERSIONS: ("version_num",)}.get(
        table, ("entry", "position", "account", "amount")
    ))  # fmt: skip
    loosened(file)
    changed_by_sql(
        file,
        *random.choice(
            (
                (f"DROP TABLE {table}",),
                (f"DELETE FROM {table}",),
                (f"ALTER TABLE {table} RENAME TO other",),
                (f"ALTER TABLE {table} RENAME COLUMN {column} TO other",),
                (f"ALTER TABLE {table} ADD COLUMN other TEXT", f"UPDATE {table} SET other = 'x'"),
                (f"ALTER TABLE {table} RENAME TO other", f"CREATE VIEW {table} AS SELECT * FROM other"),
                (f"ALTER TABLE {table} RENAME TO other", f"CREATE VIEW {table} AS SELECT * FROM {table}"),
                (f"ALTER TABLE {table} RENAME TO other", f"CREATE VIEW {table} AS SELECT 1 AS x"),
                (f"INSERT INTO {table} SELECT * FROM {table}",),
                (f"UPDATE {table} SET {column} = zeroblob(10)",),
                (f"UPDATE {table} SET {column} = NULL",),
                (f"UPDATE {table} SET {column} = 7",),
                (f"CREATE TRIGGER t BEFORE INSERT ON {table} BEGIN SELECT raise(ABORT, 'no'); END",),
                ("PRAGMA user_version = 99", "PRAGMA application_id = 5"),
            )
        ),
    )


def content_changed(file: Path, random: Random) -> None:
    """JSON inside an entry, by somebody who cannot sign."""
    number, document = a_document(file, random)
    content = damaged_json(document, random)
    with closing(sqlite3.connect(file)) as connection, connection:
        digest = hash_of(content.encode(errors="surrogatepass"))
        if random.random() < 0.5:
            connection.execute(f"UPDATE {ENTRIES} SET hash = ? WHERE number = ?", (digest, number))
        connection.execute(f"UPDATE {ENTRIES} SET content = ? WHERE number = ?", (storable(content), number))


def content_signed(file: Path, random: Random) -> None:
    """JSON inside an entry, by the operator, who signs it and every entry after it."""
    number, document = a_document(file, random)
    content = damaged_json(document, random)
    keys = KeyDirectory(file.parent / "keys")
    with closing(sqlite3.connect(file)) as connection, connection:
        rows = connection.execute(f"SELECT number, content FROM {ENTRIES} ORDER BY number").fetchall()
        previous, key = "", None
        for each, text in rows:
            told = json.loads(text)
            if key is None or told["kind"] == "opening":
                key = keys.key_of(told["body"]["operator"])
            if each == number:
                text = content
            elif previous:
                told["previous"] = previous
                text = json.dumps(told, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
            digest = hash_of(text.encode(errors="surrogatepass"))
            previous = digest if each >= number else ""
            connection.execute(
                f"UPDATE {ENTRIES} SET content = ?, hash = ?, signature = ? WHERE number = ?",
                (storable(text), digest, key.sign(signed_message(digest)), each),
            )
            if told["kind"] == "key-rotation":
                key = keys.key_of(told["body"]["operator"])


def a_document(file: Path, random: Random) -> tuple[int, Any]:
    with closing(sqlite3.connect(file)) as connection:
        number, content = random.choice(connection.execute(f"SELECT number, content FROM {ENTRIES}").fetchall())
    return number, json.loads(content)


def damaged_json(document: Any, random: Random) -> str:
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        places = list(places_in(document))
        owner, key = random.choice(places)
        if random.random() < 0.1:
            del owner[key]
        elif isinstance(owner, dict) and random.random() < 0.1:
            owner["unknown"] = odd_json(random)
        elif isinstance(owner, list) and random.random() < 0.1:
            owner.append(odd_json(random))
        else:
            owner[key] = odd_json(random)
    try:
        text = json.dumps(document, ensure_ascii=random.random() < 0.2, separators=(",", ":"), sort_keys=True)
    except (RecursionError, ValueError):  # deeper than Python writes: text around the nested part
        text = '{"a":' * 5000 + "1" + "}" * 5000
    if random.random() < 0.05:
        text = random.choice(("", "null", "[" * 100_000, "{}", "[]", text[:-1], text + text, "1e999", text + "\x00"))
    return text


def places_in(value: Any) -> Any:
    waiting = [value]
    while waiting:
        owner = waiting.pop()
        items = list(owner.items()) if isinstance(owner, dict) else list(enumerate(owner))
        for key, inner in items:
            yield owner, key
            if isinstance(inner, dict | list) and inner:
                waiting.append(inner)


def storable(text: str) -> str | bytes:
    """A lone surrogate can be stored only as bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="surrogatepass")
    return text


DAMAGES: tuple[Callable[[Path, Random], None], ...] = (
    bytes_flipped, header_changed, cut, pages_exchanged, row_changed, row_changed, tables_changed, content_changed,
    content_signed, content_signed, content_signed, content_signed,
)  # fmt: skip


def crash_of(seed: int, books: dict[str, Path], folder: Path, *, command_count: int) -> str | None:
    """Damage a ledger and use it; returns the traceback, if there is one."""
    random = Random(seed)
    name = random.choice(BOOKS)
    shutil.copytree(books[name], folder)
    damage = random.choice(DAMAGES)
    damage(folder / "book.db", random)
    kept = (folder / "book.db").read_bytes()
    member = "north" if name == "federation" else random.choice(("ann", "bob", "cyd", "nobody"))
    chosen = ["verify book.db", *random.sample(COMMANDS, command_count), SETTLE]
    for command in chosen:
        (folder / "book.db").write_bytes(kept)
        for left_over in folder.glob("book.db-*"):
            left_over.unlink()
        words = command.format(member).split()
        if command != SETTLE:
            words.insert(0, "ledger")
        if "verify" not in words and words[1] not in ("show", "balances"):
            words += ["--keys", "keys"]
        try:
            run_quickly(words, folder)
        except Exception as error:
            trace = traceback.format_exc()
            return f"seed {seed} ({damage.__name__}): {command}: {type(error).__name__}\n{trace[-3000:]}"
    shutil.rmtree(folder)
    return None


def run_quickly(words: list[str], folder: Path) -> None:
    """As `main` does, but the parser, which takes longer than most commands, is made only once."""
    output = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="replace")
    with contextlib.chdir(folder), contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        with contextlib.suppress(CommonwealError):
            PARSER.main(words, standalone_mode=False)
        output.flush()


def try_all(seeds: range, books: dict[str, Path], tmp_path: Path, *, command_count: int) -> None:
    crashes = [
        crash
        for seed in seeds
        if (crash := crash_of(seed, books, tmp_path / str(seed), command_count=command_count)) is not None
    ]
    assert not crashes, f"{len(crashes)} of {len(seeds)}:\n" + "\n".join(crashes[:5])


@pytest.mark.slow
def test_damaged_books_give_no_traceback(books, tmp_path):
    try_all(range(40), books, tmp_path, command_count=3)


@pytest.mark.soak
def test_thousands_of_damaged_books_give_no_traceback(books, tmp_path):
    try_all(range(1000, 3000), books, tmp_path, command_count=4)
