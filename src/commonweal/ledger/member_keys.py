"""The private key that a member signs with: Ed25519, or that of its Flower node."""

from __future__ import annotations

from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from commonweal.bounded_read import LARGEST_KEY, read_bounded
from commonweal.errors import LedgerError, StorageError, os_reason
from commonweal.ledger.keys import Signer, SigningKey
from commonweal.ledger.node_keys import NodeKey
from commonweal.ledger.private_file import check_private


def read_signing_key(path: Path) -> Signer:
    """An Ed25519 key in PEM, or a P-384 key in PEM or OpenSSH format, without a passphrase."""
    try:
        check_private(path)
        content = read_bounded(path, LARGEST_KEY)
    except OSError as error:
        raise StorageError(f"Cannot read the private key {path}: {os_reason(error)}.") from None
    try:
        key = serialization.load_pem_private_key(content, None)
    except TypeError:
        raise LedgerError(f"The private key {path} is encrypted. Sign with a copy without a passphrase.") from None
    except (ValueError, UnsupportedAlgorithm):
        return NodeKey.read(path)
    return SigningKey(key) if isinstance(key, Ed25519PrivateKey) else NodeKey.read(path)
