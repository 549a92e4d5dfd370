"""Keys of Flower nodes: P-384 signatures that other software verifies, in exactly one form, from common key files."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from hypothesis import given
from hypothesis import strategies as st

from commonweal.errors import LedgerError, StorageError
from commonweal.ledger.keys import (
    SigningKey,
    is_signed,
    is_signed_by_operator,
    public_pem,
    read_operator_key,
    read_public_key,
)
from commonweal.ledger.node_keys import (
    ORDER,
    NodeKey,
    is_signed_by_node,
    node_public_key,
    read_node_public_key,
)

POSIX = pytest.mark.skipif(os.name != "posix", reason="modes of files")
SSH_KEYGEN = shutil.which("ssh-keygen")
needs_ssh_keygen = pytest.mark.skipif(not SSH_KEYGEN, reason="needs ssh-keygen on the path")
PEM, OPENSSH = serialization.Encoding.PEM, serialization.Encoding.OpenSSH
SPKI, OPENSSH_LINE = serialization.PublicFormat.SubjectPublicKeyInfo, serialization.PublicFormat.OpenSSH
PRIVATE_FORMS = {
    "openssh": serialization.PrivateFormat.OpenSSH,
    "pkcs8": serialization.PrivateFormat.PKCS8,
    "sec1": serialization.PrivateFormat.TraditionalOpenSSL,
}
OPEN = serialization.NoEncryption()
LOCKED = serialization.BestAvailableEncryption(b"correct horse")
# RFC 6979, A.2.6.
RFC_KEY = int("6B9D3DAD2E1B8C1C05B19875B6659F4DE23C3B667BF297BA9AA47740787137D896D5724E4C70A825F872C9EA60D2EDF5", 16)
RFC_X = "EC3A4E415B4E19A4568618029F427FA5DA9A8BC4AE92E02E06AAE5286B300C64DEF8F0EA9055866064A254515480BC13"
RFC_SIGNATURES = {
    b"sample": (
        "94EDBB92A5ECB8AAD4736E56C691916B3F88140666CE9FA73D64C4EA95AD133C81A648152E44ACF96E36DD1E80FABE46",
        "99EF4AEB15F178CEA1FE40DB2603138F130E740A19624526203B6351D0A3A94FA329C145786E679E7B82C71A38628AC8",
    ),
    b"test": (
        "8203B63D3C853E8D77227FB377BCF7B7B772E97892A80F36AB775D509D7A5FEB0542A7F0812998DA8F1DD3CA3CF023DB",
        "DDD0760448D42D8A43AF45AF836FCE4DE8BE06B485E9B61B827C2F13173923E06A739F040649A667BF3B828246BAA5A5",
    ),
}


def key_of(number):
    return NodeKey(ec.derive_private_key(number, ec.SECP384R1()))


KEY, OTHER = key_of(RFC_KEY), key_of(4711)


def halves(signature):
    return int(signature[:96], 16), int(signature[96:], 16)


def written(r, s):
    return f"{r:096x}{s:096x}"


# Signatures.


@pytest.mark.parametrize("message", RFC_SIGNATURES)
def test_signatures_are_those_of_rfc_6979_with_the_smaller_s(message):
    r, s = (int(digits, 16) for digits in RFC_SIGNATURES[message])
    assert KEY.sign(message) == written(r, min(s, ORDER - s))
    assert s > ORDER // 2, "both of the RFC's have to be turned round"


def test_the_public_key_is_the_compressed_point_of_rfc_6979():
    assert KEY.public in (f"p384:02{RFC_X.lower()}", f"p384:03{RFC_X.lower()}")
    assert len(KEY.public) == 5 + 2 * 49


def test_the_order_is_that_of_the_group():
    """(order − 1) · G is −G: the same x and the other y; and order · G is not a point."""
    first, last = key_of(1).public, key_of(ORDER - 1).public
    assert first[7:] == last[7:]
    assert {first[5:7], last[5:7]} == {"02", "03"}
    with pytest.raises(ValueError, match=r"."):
        key_of(ORDER)


@given(st.binary(max_size=200), st.integers(1, ORDER - 1))
def test_an_independent_verifier_agrees(message, number):
    """The library verifies the signature as ECDSA with SHA-384, given only the point in the public key."""
    key = key_of(number)
    signature = key.sign(message)
    r, s = halves(signature)
    assert s <= ORDER // 2
    assert len(signature) == 192
    public = ec.EllipticCurvePublicKey.from_encoded_point(
        ec.SECP384R1(), bytes.fromhex(key.public.removeprefix("p384:"))
    )
    public.verify(encode_dss_signature(r, s), message, ec.ECDSA(hashes.SHA384()))
    assert is_signed_by_node(message, signature, key.public)
    assert is_signed(message, signature, key.public)
    assert key.sign(message) == signature
    assert not is_signed(message + b".", signature, key.public)


def test_the_signature_with_the_larger_s_is_refused():
    """The library accepts it: without our rule anybody could turn one signature into another."""
    r, s = halves(KEY.sign(b"message"))
    twin = written(r, ORDER - s)
    KEY.private.public_key().verify(encode_dss_signature(r, ORDER - s), b"message", ec.ECDSA(hashes.SHA384()))
    assert not is_signed_by_node(b"message", twin, KEY.public)
    assert is_signed_by_node(b"message", written(r, s), KEY.public)


@pytest.mark.parametrize(
    "changed",
    [
        str.upper,
        lambda digits: f" {digits}",
        lambda digits: digits + " ",
        lambda digits: digits[:96] + " " + digits[96:],
        lambda digits: "00" + digits,
        lambda digits: digits + "00",
        lambda digits: digits[2:],
        lambda digits: digits[:-2],
        lambda digits: written(0, halves(digits)[1]),
        lambda digits: written(halves(digits)[0], 0),
        lambda digits: written(halves(digits)[0] ^ 1, halves(digits)[1]),
        lambda digits: written(ORDER, halves(digits)[1]),
        lambda digits: "00" * 96,
        lambda digits: "",
    ],
)
def test_a_signature_has_one_form(changed):
    signature = KEY.sign(b"message")
    assert is_signed(b"message", signature, KEY.public)
    assert not is_signed(b"message", changed(signature), KEY.public)


def encoded(key, form):
    return key.private.public_key().public_bytes(serialization.Encoding.X962, form).hex()


@pytest.mark.parametrize(
    "public",
    [
        KEY.public.upper(),
        KEY.public.replace("p384:", "P384:"),
        "p384:" + KEY.public[5:].upper(),
        KEY.public.removeprefix("p384:"),
        KEY.public + " ",
        KEY.public.replace("p384:", "p384: "),
        KEY.public + "00",
        KEY.public[:-2],
        "p384:" + encoded(KEY, serialization.PublicFormat.UncompressedPoint),
        "p384:00",  # the point at infinity
        "p384:",
        "p384:p384:" + KEY.public[5:],
        "p384:02" + "ff" * 48,  # no coordinate: beyond the field
        "p384:05" + KEY.public[7:],
        ("p384:03" if KEY.public[5:7] == "02" else "p384:02") + KEY.public[7:],  # −Q
        OTHER.public,
        SigningKey.from_seed(b"1" * 32).public,
    ],
)
def test_a_public_key_has_one_form(public):
    signature = KEY.sign(b"message")
    assert not is_signed(b"message", signature, public)
    assert not is_signed_by_node(b"message", signature, public)


@pytest.mark.parametrize("junk", [None, 5, b"ab" * 96, "zz" * 96, "ab", ["ab"], True])
def test_junk_is_not_a_signature(junk):
    for verify in (is_signed, is_signed_by_node):
        assert not verify(b"message", junk, KEY.public)
        assert not verify(b"message", KEY.sign(b"message"), junk)


def test_operators_sign_only_with_ed25519():
    """The format of what the operator signs allows one algorithm."""
    assert not is_signed_by_operator(b"message", KEY.sign(b"message"), KEY.public)
    operator = SigningKey.new()
    assert is_signed_by_operator(b"message", operator.sign(b"message"), operator.public)
    assert is_signed(b"message", operator.sign(b"message"), operator.public)
    assert not is_signed_by_node(b"message", operator.sign(b"message"), operator.public)


# Files.


@pytest.mark.parametrize("form", PRIVATE_FORMS)
def test_private_keys_are_read(tmp_path, form):
    path = tmp_path / "node"
    path.write_bytes(KEY.private.private_bytes(PEM, PRIVATE_FORMS[form], OPEN))
    path.chmod(0o600)
    read = NodeKey.read(path)
    assert read.public == KEY.public
    assert read.sign(b"x") == KEY.sign(b"x")


@pytest.mark.parametrize(("encoding", "form"), [(PEM, SPKI), (OPENSSH, OPENSSH_LINE)], ids=["pem", "openssh"])
def test_public_keys_are_read(tmp_path, encoding, form):
    content = KEY.private.public_key().public_bytes(encoding, form)
    path = tmp_path / "node.pub"
    for extra in (b"", b"\n", b" node@host\n" if encoding is OPENSSH else b"\n\n"):
        path.write_bytes(content + extra)
        assert node_public_key(content + extra) == KEY.public
        assert read_node_public_key(path) == KEY.public
        assert read_public_key(path) == KEY.public
    with pytest.raises(LedgerError, match=r"does not contain an Ed25519 public key in PEM.*ledger init"):
        read_operator_key(path)


def test_the_pem_of_a_public_key_is_the_librarys():
    assert public_pem(KEY.public) == KEY.private.public_key().public_bytes(PEM, SPKI)


@needs_ssh_keygen
def test_keys_that_ssh_keygen_makes_are_read(tmp_path):
    path = tmp_path / "node"
    subprocess.run([SSH_KEYGEN, "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", path], check=True, timeout=60)
    key = NodeKey.read(path)
    assert read_node_public_key(tmp_path / "node.pub") == key.public
    assert is_signed(b"x", key.sign(b"x"), read_public_key(tmp_path / "node.pub"))


@needs_ssh_keygen
def test_ssh_keygen_reads_what_we_write(tmp_path):
    key = NodeKey.new()
    key.write(tmp_path / "node")
    told = subprocess.run(
        [SSH_KEYGEN, "-y", "-f", tmp_path / "node"], check=True, timeout=60, capture_output=True
    ).stdout
    assert told.split()[:2] == (tmp_path / "node.pub").read_bytes().split()[:2]
    assert node_public_key(told) == key.public


@needs_ssh_keygen
def test_a_key_that_ssh_keygen_locked_is_refused(tmp_path):
    path = tmp_path / "node"
    command = [SSH_KEYGEN, "-q", "-t", "ecdsa", "-b", "384", "-N", "correct horse", "-f", path]
    subprocess.run(command, check=True, timeout=60)
    with pytest.raises(LedgerError, match=r"is encrypted.*ssh-keygen -p"):
        NodeKey.read(path)


def test_flower_reads_what_we_write(tmp_path):
    """Loaded as a SuperNode and a SuperLink load keys."""
    pytest.importorskip("flwr", reason="needs flwr")
    key = NodeKey.new()
    key.write(tmp_path / "node")
    private = serialization.load_ssh_private_key((tmp_path / "node").read_bytes(), None)
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes

    assert node_public_key(public_key_to_bytes(private.public_key())) == key.public


@POSIX
@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_a_written_key_is_readable_only_by_its_owner(tmp_path, mask):
    key = NodeKey.new()
    before = os.umask(mask)
    try:
        key.write(tmp_path / "node.key")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "node.key").stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["node.key", "node.key.pub"]
    assert NodeKey.read(tmp_path / "node.key").public == key.public
    assert read_node_public_key(tmp_path / "node.key.pub") == key.public
    assert b"PRIVATE" not in (tmp_path / "node.key.pub").read_bytes()


@POSIX
@pytest.mark.parametrize("open_to_others", [0o640, 0o604, 0o620, 0o644])
def test_a_key_that_others_can_read_is_refused(tmp_path, open_to_others):
    path = tmp_path / "node.key"
    key = NodeKey.new()
    key.write(path)
    path.chmod(open_to_others)
    with pytest.raises(LedgerError, match=f"has mode {open_to_others:04o}: others can read it.*chmod 600"):
        NodeKey.read(path)
    path.chmod(0o400)
    assert NodeKey.read(path).public == key.public


@pytest.mark.parametrize("there", ["node", "node.pub"])
def test_no_file_is_overwritten(tmp_path, there):
    (tmp_path / there).write_text("something dear")
    with pytest.raises(StorageError, match=rf"Cannot create the node key .*{there}: file exists\. Name a new file"):
        NodeKey.new().write(tmp_path / "node")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {there: "something dear"}


def test_a_key_is_not_written_through_a_link(tmp_path):
    (tmp_path / "node").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="Cannot create the node key"):
        NodeKey.new().write(tmp_path / "node")
    assert not (tmp_path / "elsewhere").exists()


def test_a_place_that_is_not_a_directory_is_refused(tmp_path):
    with pytest.raises(StorageError, match=r"Cannot create the node key .*: no such file"):
        NodeKey.new().write(tmp_path / "none" / "node")


def private_pem(key, form="pkcs8", lock=OPEN):
    return key.private_bytes(PEM, PRIVATE_FORMS[form], lock)


OTHER_PRIVATE_KEYS = {
    "empty": b"",
    "text": b"no key",
    "binary": b"\xff\x00\xfe" * 20,
    "openssh in name alone": b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n",
    "a public one": KEY.private.public_key().public_bytes(PEM, SPKI),
    "P-256": private_pem(ec.generate_private_key(ec.SECP256R1())),
    "P-521 of openssh": private_pem(ec.generate_private_key(ec.SECP521R1()), "openssh"),
    "secp256k1": private_pem(ec.generate_private_key(ec.SECP256K1())),
    "brainpool": private_pem(ec.generate_private_key(ec.BrainpoolP384R1())),
    "ed25519": private_pem(ed25519.Ed25519PrivateKey.generate(), "openssh"),
    "rsa": private_pem(rsa.generate_private_key(65537, 2048)),
}


@pytest.mark.parametrize("which", OTHER_PRIVATE_KEYS)
def test_other_private_keys_are_refused(tmp_path, which):
    (tmp_path / "node").write_bytes(OTHER_PRIVATE_KEYS[which])
    with pytest.raises(LedgerError, match="A node key must be an ECDSA key on the curve P-384"):
        NodeKey.read(tmp_path / "node")


@pytest.mark.parametrize("form", ["pkcs8", "sec1"])
def test_a_locked_private_key_is_refused(tmp_path, form):
    (tmp_path / "node").write_bytes(private_pem(KEY.private, form, LOCKED))
    with pytest.raises(LedgerError, match="is encrypted") as told:
        NodeKey.read(tmp_path / "node")
    assert "horse" not in str(told.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(StorageError, match=r"Cannot read the node key .*none: no such file"):
        NodeKey.read(tmp_path / "none")
    with pytest.raises(StorageError, match=r"Cannot read the node key .*: is a directory"):
        read_node_public_key(tmp_path)


def public_line(key):
    return key.public_key().public_bytes(OPENSSH, OPENSSH_LINE)


def public_file(key):
    return key.public_key().public_bytes(PEM, SPKI)


OTHER_PUBLIC_KEYS = {
    "empty": b"",
    "text": b"no key",
    "binary": b"\xff\x00\xfe" * 20,
    "a line in name alone": b"ecdsa-sha2-nistp384 AAAA",
    "a private one": private_pem(KEY.private),
    "a private one of openssh": private_pem(KEY.private, "openssh"),
    "P-256": public_file(ec.generate_private_key(ec.SECP256R1())),
    "P-256 of openssh": public_line(ec.generate_private_key(ec.SECP256R1())),
    "P-521 of openssh": public_line(ec.generate_private_key(ec.SECP521R1())),
    "brainpool": public_file(ec.generate_private_key(ec.BrainpoolP384R1())),
    "rsa": public_line(rsa.generate_private_key(65537, 2048)),
    "ed25519 of openssh": public_line(ed25519.Ed25519PrivateKey.generate()),
    "dsa": public_file(dsa.generate_private_key(1024)),
}


@pytest.mark.parametrize("which", OTHER_PUBLIC_KEYS)
def test_other_public_keys_are_refused(tmp_path, which):
    path = tmp_path / "other.pub"
    path.write_bytes(OTHER_PUBLIC_KEYS[which])
    with pytest.raises(LedgerError, match="A node's public key must be an ECDSA key on the curve P-384"):
        node_public_key(path.read_bytes())
    with pytest.raises(LedgerError, match=r"Cannot use .*other\.pub: .*P-384"):
        read_node_public_key(path)
    with pytest.raises(LedgerError, match="must contain a public key: Ed25519 in PEM, or P-384 in PEM"):
        read_public_key(path)


def test_an_ed25519_key_is_not_a_node_key(tmp_path):
    """But a member may sign with one."""
    key = SigningKey.new()
    (tmp_path / "pub.pem").write_bytes(public_pem(key.public))
    assert read_public_key(tmp_path / "pub.pem") == read_operator_key(tmp_path / "pub.pem") == key.public
    with pytest.raises(LedgerError, match="another kind of key"):
        read_node_public_key(tmp_path / "pub.pem")


def test_a_key_shows_only_its_public_half():
    secret = f"{KEY.private.private_numbers().private_value:x}"
    shown = " ".join([repr(KEY), str(KEY), f"{KEY}", repr([KEY]), repr({"key": KEY})])
    assert KEY.public in shown
    assert secret not in shown
    assert str(int(secret, 16)) not in shown
