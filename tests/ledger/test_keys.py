"""The operator's private keys stay where they are: in one directory, for one user."""

from __future__ import annotations

import base64
import logging
import os
import stat
import subprocess
import sys
import time

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from commonweal.errors import LedgerError, StorageError
from commonweal.ledger.key_directory import KeyDirectory, default_key_directory
from commonweal.ledger.keys import SigningKey, is_signed, public_pem, read_public_key
from commonweal.ledger.signed_files import signed_content
from commonweal.ledger.statements import make_statement, statement_document
from tests.ledger.sample_ledger import make_sample

POSIX = pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "of" / "keys"


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def private_files(folder):
    return sorted(path for path in folder.glob("*.pem") if not path.name.endswith(".pub.pem"))


# Files.


@POSIX
@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize("passphrase", [None, "correct horse"])
def test_private_keys_are_readable_only_by_their_owner(folder, mask, passphrase):
    before = os.umask(mask)
    try:
        keys = KeyDirectory(folder, passphrase=passphrase)
        key = keys.current()
        keys.add(SigningKey.new())
    finally:
        os.umask(before)
    assert mode(folder) == 0o700
    assert [mode(path) for path in private_files(folder)] == [0o600, 0o600]
    assert keys.public_file(key.public).is_file()
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_the_key_is_made_once(folder):
    key = KeyDirectory(folder).current()
    again = KeyDirectory(folder).current()
    assert again.public == key.public
    assert again.sign(b"x") == key.sign(b"x")
    assert is_signed(b"x", again.sign(b"x"), key.public)
    assert len(private_files(folder)) == 1


def test_the_public_file_is_the_public_key(folder):
    keys = KeyDirectory(folder)
    key = keys.current()
    path = keys.public_file(key.public)
    assert read_public_key(path) == key.public
    assert path.read_bytes() == public_pem(key.public)
    assert b"PRIVATE" not in path.read_bytes()


def test_another_key_can_be_made_current(folder):
    keys = KeyDirectory(folder)
    first, second = keys.current(), keys.add(SigningKey.new())
    assert keys.current().public == first.public
    keys.make_current(second.public)
    assert KeyDirectory(folder).current().public == second.public
    assert KeyDirectory(folder).key_of(first.public).sign(b"x") == first.sign(b"x")


def test_the_default_is_in_the_users_configuration():
    import platformdirs

    assert default_key_directory() == platformdirs.user_config_path("commonweal") / "keys"


# Passphrases.


def test_with_a_passphrase_the_file_is_encrypted(folder):
    key = KeyDirectory(folder, passphrase="correct horse").current()
    (path,) = private_files(folder)
    content = path.read_bytes()
    assert content.startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
    assert not any(form in content for form in forms_of(key))
    with pytest.raises(TypeError, match=r"(?i)password was not given"):  # the message of the library
        serialization.load_pem_private_key(content, None)
    assert KeyDirectory(folder, passphrase="correct horse").current().sign(b"x") == key.sign(b"x")


def test_without_a_passphrase_the_file_is_not_encrypted(folder):
    """The search below does find a key that is not encrypted."""
    key = KeyDirectory(folder).current()
    (path,) = private_files(folder)
    assert any(form in path.read_bytes() for form in forms_of(key))


@pytest.mark.parametrize(
    ("passphrase", "got"), [("wrong horse", "the passphrase is wrong"), (None, "no passphrase"), ("", "no passphrase")]
)
def test_a_wrong_or_missing_passphrase_is_refused(folder, passphrase, got):
    KeyDirectory(folder, passphrase="correct horse").current()
    with pytest.raises(LedgerError, match=rf"is encrypted, and {got}.*Set COMMONWEAL_KEY_PASSPHRASE\.") as told:
        KeyDirectory(folder, passphrase=passphrase).current()
    assert "horse" not in str(told.value)


def test_a_passphrase_is_asked_for_once(folder):
    key = KeyDirectory(folder, passphrase="correct horse").current()
    asked = []

    def answer(path):
        asked.append(path)
        return "correct horse"

    keys = KeyDirectory(folder, ask=answer)
    assert keys.current().public == keys.key_of(key.public).public == key.public
    assert asked == private_files(folder)
    with pytest.raises(LedgerError, match="no passphrase was given"):
        KeyDirectory(folder, ask=lambda path: None).current()


def test_no_passphrase_is_asked_for_without_encryption(folder):
    key = KeyDirectory(folder).current()
    ask = pytest.fail
    assert KeyDirectory(folder, ask=ask).current().public == key.public
    assert KeyDirectory(folder, passphrase="needless").current().public == key.public


# What is refused.


@POSIX
@pytest.mark.parametrize("open_to_others", [0o644, 0o640, 0o604, 0o660, 0o601, 0o777])
def test_a_private_key_that_others_can_read_is_refused(folder, open_to_others):
    KeyDirectory(folder).current()
    (path,) = private_files(folder)
    path.chmod(open_to_others)
    with pytest.raises(LedgerError, match=f"has mode {open_to_others:04o}: others can read it.*chmod 600"):
        KeyDirectory(folder).current()
    path.chmod(0o600)
    KeyDirectory(folder).current()


def test_a_lost_key_is_named(folder):
    key = KeyDirectory(folder).current()
    (path,) = private_files(folder)
    path.unlink()
    with pytest.raises(
        StorageError, match=f"signed with the key {key.public[:16]}….*no such file.*the directory that has"
    ):
        KeyDirectory(folder).current()


def test_a_file_with_another_key_is_refused(folder):
    keys = KeyDirectory(folder)
    key, other = keys.current(), keys.add(SigningKey.new())
    (folder / f"{key.public[:16]}.pem").write_bytes((folder / f"{other.public[:16]}.pem").read_bytes())
    with pytest.raises(LedgerError, match=f"should hold the key {key.public[:16]}… but holds {other.public[:16]}…"):
        keys.current()


def other_private_key():
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


@pytest.mark.parametrize("content", [b"", b"no key", other_private_key()], ids=["empty", "text", "of another kind"])
def test_a_file_that_is_not_a_key_is_refused(folder, content):
    key = KeyDirectory(folder).current()
    (path,) = private_files(folder)
    path.write_bytes(content)
    with pytest.raises(LedgerError, match="does not contain an Ed25519 private key in PEM"):
        KeyDirectory(folder).current()
    public = folder / "other.pub.pem"
    public.write_bytes(content)
    with pytest.raises(LedgerError, match="must contain a public key: Ed25519 in PEM, or P-384"):
        read_public_key(public)
    with pytest.raises(StorageError, match=r"Cannot read the public key .*none.pub.pem: no such file"):
        read_public_key(folder / "none.pub.pem")
    assert key.public


def test_a_private_key_is_not_read_as_a_public_one(folder):
    KeyDirectory(folder).current()
    with pytest.raises(LedgerError, match="must contain a public key: Ed25519 in PEM, or P-384"):
        read_public_key(private_files(folder)[0])


def test_a_place_that_is_not_a_directory_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "keys"):
        with pytest.raises(StorageError, match=r"Cannot (read|write to) the key directory"):
            KeyDirectory(place).current()
        with pytest.raises(StorageError, match="Cannot write to the key directory"):
            KeyDirectory(place).add(SigningKey.new())


# Two processes at once.


def test_the_second_process_uses_the_key_of_the_first(folder, monkeypatch):
    """Another process creates its key after this one has created its own, but before it is the current one."""
    add, first = KeyDirectory.add, []

    def add_slowly(self, key):
        added = add(self, key)
        if not first:
            first.append(None)
            first[0] = KeyDirectory(folder).current()
        return added

    monkeypatch.setattr(KeyDirectory, "add", add_slowly)
    second = KeyDirectory(folder).current()
    assert second.public == first[0].public
    assert [path.name for path in private_files(folder)] == [f"{second.public[:16]}.pem"]
    assert len(list(folder.iterdir())) == 3  # the key, its public half, and which one it is


def test_processes_at_once_end_with_one_key(folder, tmp_path):
    program = (
        "import sys, time\nfrom pathlib import Path\n"
        "from commonweal.ledger.key_directory import KeyDirectory\n"
        "folder, go, ready = map(Path, sys.argv[1:])\nready.touch()\n"
        "while not go.exists(): time.sleep(0.001)\n"
        "print(KeyDirectory(folder).current().public)"
    )
    go, ready = tmp_path / "go", [tmp_path / f"ready{place}" for place in range(4)]
    running = [
        subprocess.Popen([sys.executable, "-c", program, folder, go, each], stdout=subprocess.PIPE, text=True)
        for each in ready
    ]
    deadline = time.monotonic() + 60
    while not all(each.exists() for each in ready):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    go.touch()
    told = {process.communicate(timeout=60)[0].strip() for process in running}
    assert [process.returncode for process in running] == [0] * 4
    assert told == {KeyDirectory(folder).current().public}
    assert len(private_files(folder)) == 1


# Where a private key must never be.


def forms_of(key):
    """A private key as bytes, in hexadecimal, in base 64, and as in a PEM file."""
    raw = key.private.private_bytes_raw()
    pem = key.private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    body = b"".join(pem.splitlines()[1:-1])
    return (
        raw,
        raw.hex().encode(),
        raw.hex().upper().encode(),
        base64.b64encode(raw).rstrip(b"="),
        base64.urlsafe_b64encode(raw).rstrip(b"="),
        body[-40:].rstrip(b"="),
        repr(raw).encode(),
    )


def test_a_key_shows_only_its_public_half(folder):
    keys = KeyDirectory(folder, passphrase="correct horse")
    key = keys.current()
    shown = " ".join([repr(key), str(key), f"{key}", repr(keys), str(keys), repr([key]), repr({"key": key})]).encode()
    assert key.public.encode() in shown
    assert not any(form in shown for form in forms_of(key))
    assert b"horse" not in shown


def test_a_private_key_is_only_in_its_file(tmp_path, caplog):
    """Not in the database, not in what the operator sends out, and not in logs of any level."""
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("sqlalchemy").setLevel(logging.DEBUG)
        try:
            sample = make_sample(str(tmp_path / "ledger.db"), tmp_path / "keys", "accruals")
        finally:
            logging.getLogger("sqlalchemy").setLevel(logging.NOTSET)
        statement = statement_document(make_statement(sample.store, "ann", at=""), sample.store)
        content = signed_content(statement, sample.operator)
    sample.store.close()
    keys = [sample.keys.key_of(public) for public in (sample.operator.public, _first(sample.keys))]
    assert len({key.public for key in keys}) == 2
    places = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    places |= {
        path.name: path.read_bytes()
        for path in sample.keys.path.iterdir()
        if path not in private_files(sample.keys.path)
    }
    places |= {"statement": content, "logs": caplog.text.encode()}
    assert {"ledger.db", "statement", "logs", "current"} <= set(places)
    assert "INSERT INTO commonweal_entries" in caplog.text
    for key in keys:
        assert any(key.public.encode() in content for content in places.values())
        for place, content in places.items():
            assert not any(form in content for form in forms_of(key)), place


def _first(keys):
    return SigningKey.from_seed(b"the operator's first signing key").public


# Signatures.


@pytest.mark.parametrize(
    "changed", [str.upper, lambda digits: f" {digits}", lambda digits: digits + " ", lambda digits: ""]
)
def test_a_signature_has_one_form(changed):
    key = SigningKey.from_seed(b"12345678901234567890123456789012")
    signature = key.sign(b"message")
    assert is_signed(b"message", signature, key.public)
    assert not is_signed(b"message", changed(signature), key.public)
    assert not is_signed(b"message", signature, changed(key.public))


@pytest.mark.parametrize("junk", [None, 5, b"ab" * 64, "zz" * 64, "ab", "ab" * 65, ["ab"]])
def test_junk_is_not_a_signature(junk):
    key = SigningKey.from_seed(b"12345678901234567890123456789012")
    assert not is_signed(b"message", junk, key.public)
    assert not is_signed(b"message", key.sign(b"message"), junk)
    assert not is_signed(b"another", key.sign(b"message"), key.public)


@POSIX
@pytest.mark.parametrize("open_to_others", [0o777, 0o770, 0o702])
def test_a_key_directory_that_others_can_write_to_is_refused(folder, open_to_others):
    KeyDirectory(folder).current()
    folder.chmod(open_to_others)
    with pytest.raises(LedgerError, match=f"has mode {open_to_others:04o}: others can put files into it.*chmod 700"):
        KeyDirectory(folder).current()
    folder.chmod(0o755)
    KeyDirectory(folder).current()
