"""Ed25519 keys of small order, for which one signature fits every message, are refused wherever a key is read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from commonweal.errors import InputError, LedgerError
from commonweal.ledger.keys import (
    SigningKey,
    fault_of_key,
    is_signed,
    is_signed_by_operator,
    read_operator_key,
    read_public_key,
)
from commonweal.ledger.node_keys import NodeKey
from commonweal.ledger.weak_keys import is_weak
from tests.ledger.sample_ledger import (
    FIRST_ROUND,
    make_sample,
    next_document,
    open_ledger,
    parsed,
    sealed,
    signed_round,
    tampering,
    verified,
)

P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P

# The points of small order as published (libsodium, ge25519_has_small_order; Cremers and Jackson 2019, table 1).
SMALL_ORDER = {
    "0100000000000000000000000000000000000000000000000000000000000000": 1,
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f": 2,
    "0000000000000000000000000000000000000000000000000000000000000000": 4,
    "0000000000000000000000000000000000000000000000000000000000000080": 4,
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05": 8,
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85": 8,
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a": 8,
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa": 8,
}
# Other encodings of the same points: y + p, and a sign of x = 0.
NOT_CANONICAL = (
    "0100000000000000000000000000000000000000000000000000000000000080",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
)
WEAK = (*SMALL_ORDER, *NOT_CANONICAL)
IDENTITY = next(iter(SMALL_ORDER))
FITS_ALL = IDENTITY + "00" * 32  # R is the identity and s = 0: s·B = R + h·A, whatever h is


def point(key):
    """The affine coordinates of a canonical encoding (RFC 8032, 5.1.3); None if it is none."""
    y, sign = int.from_bytes(key, "little") & (2**255 - 1), key[31] >> 7
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    if y >= P or x * x % P != square or (x == 0 and sign):
        return None
    return (x if x % 2 == sign else P - x), y


def added(one, other):
    (x1, y1), (x2, y2) = one, other
    product = D * x1 * x2 * y1 * y2
    return (
        (x1 * y2 + x2 * y1) * pow(1 + product, -1, P) % P,
        (y1 * y2 + x1 * x2) * pow(1 - product, -1, P) % P,
    )


def order_up_to_8(key):
    """The order of a point by repeated addition; None if it is greater than 8."""
    start = here = point(key)
    for order in range(1, 9):
        if here == (0, 1):
            return order
        here = added(here, start)
    return None


def test_the_published_points_have_these_orders():
    assert {key: order_up_to_8(bytes.fromhex(key)) for key in SMALL_ORDER} == SMALL_ORDER
    assert [point(bytes.fromhex(key)) for key in NOT_CANONICAL] == [None] * len(NOT_CANONICAL)


def test_one_signature_fits_two_messages():
    """With the library that verifies signatures; this is what the refusal is for."""
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(IDENTITY))
    for message in (b"profit 0.1", b"profit 0.9"):
        key.verify(bytes.fromhex(FITS_ALL), message)  # raises if it is invalid
        assert not is_signed_by_operator(message, FITS_ALL, IDENTITY)
        assert not is_signed(message, FITS_ALL, IDENTITY)


@pytest.mark.parametrize("key", WEAK)
def test_weak_keys_are_known(key):
    assert is_weak(bytes.fromhex(key))
    assert "one signature would fit every message" in fault_of_key(key)


@given(seed=st.binary(min_size=32, max_size=32))
def test_no_other_key_is_weak(seed):
    key = SigningKey.from_seed(seed)
    assert order_up_to_8(bytes.fromhex(key.public)) is None
    assert fault_of_key(key.public) is None
    assert is_signed(b"x", key.sign(b"x"), key.public)


@given(key=st.binary(min_size=32, max_size=32))
def test_points_are_weak_if_their_order_is_small(key):
    at = point(key)
    assert is_weak(key) == (
        int.from_bytes(key, "little") & (2**255 - 1) >= P or (at and order_up_to_8(key)) is not None
    )


@pytest.mark.parametrize("key", WEAK)
def test_a_file_with_a_weak_key_is_refused(tmp_path, key):
    path = tmp_path / "weak.pub.pem"
    path.write_bytes(
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    for read in (read_public_key, read_operator_key):
        with pytest.raises(LedgerError, match=r"weak\.pub\.pem is a weak Ed25519 key: one signature would fit every"):
            read(path)


@pytest.mark.parametrize("key", [*WEAK, "", "ab", "AB" * 32, "zz" * 32, "p384:", "p384:02" + "ff" * 48, "ab" * 33, 5])
def test_nobody_is_admitted_with_a_weak_key_or_none(tmp_path, key):
    sample = open_ledger(str(tmp_path / "ledger.db"), tmp_path / "keys")
    with pytest.raises(InputError, match=r"The public key .* of client 'mallory' is .*Ask the member for another key"):
        sample.ledger.admit({"mallory": key})
    assert sample.ledger.state.members == {}
    sample.ledger.admit({"ann": NodeKey.new().public, "bob": SigningKey.new().public, "cyd": None})
    sample.store.close()


@pytest.mark.parametrize("key", WEAK)
def test_an_admitted_weak_key_is_a_finding(tmp_path, key):
    sample = make_sample(str(tmp_path / "ledger.db"), tmp_path / "keys", "transfers")
    with tampering(sample.store) as inside:
        entries = inside.entries()
        admission = next_document(entries, "admission", {"members": [{"client": "mallory", "key": key}]})
        inside.add(sealed(admission, sample.operator))
        rules = [finding.rule for finding in verified(inside).findings]
    assert rules == ["members have keys that only they can sign with"]
    sample.store.close()


def test_a_report_with_the_signature_that_fits_all_is_a_finding(tmp_path):
    sample = open_ledger(str(tmp_path / "ledger.db"), tmp_path / "keys")
    sample.ledger.admit(dict.fromkeys(FIRST_ROUND))
    sample.ledger.settle(replace(signed_round(sample.ledger.identity, 1, FIRST_ROUND), signatures={}))
    with tampering(sample.store) as inside:
        entries = inside.entries()
        admission, settled = parsed(entries[1]), parsed(entries[2])
        admission["body"]["members"][0]["key"] = IDENTITY
        settled["body"]["inputs"][0]["signature"] = FITS_ALL
        inside.put(sealed(admission, sample.operator))
        settled["previous"] = inside.entries()[1].hash
        inside.put(sealed(settled, sample.operator))
        rules = [finding.rule for finding in verified(inside).findings]
    assert rules == ["members have keys that only they can sign with", "a report is signed by its client"]
    sample.store.close()
