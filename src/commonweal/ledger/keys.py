"""Ed25519 keys: who signed what.

A public key is written as 64 hexadecimal digits in documents and as PEM in files.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from commonweal.errors import InputError


@dataclass(frozen=True, slots=True, repr=False)
class SigningKey:
    """A private key. It shows nothing of itself but its public half."""

    private: Ed25519PrivateKey

    @classmethod
    def new(cls) -> SigningKey:
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_seed(cls, seed: bytes) -> SigningKey:
        """The key of 32 bytes: the same bytes, the same key."""
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    @property
    def public(self) -> str:
        return self.private.public_key().public_bytes_raw().hex()

    def sign(self, message: bytes) -> str:
        """The signature, in hexadecimal; the same message gives the same one."""
        return self.private.sign(message).hex()

    def __repr__(self) -> str:
        return f"SigningKey(public={self.public!r})"


def is_signed(message: bytes, signature: str, public: str) -> bool:
    """Whether the owner of the public key signed the message; both must be written the one way that they are here."""
    try:
        signed, key = bytes.fromhex(signature), bytes.fromhex(public)
        Ed25519PublicKey.from_public_bytes(key).verify(signed, message)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return signed.hex() == signature and key.hex() == public


def public_pem(public: str) -> bytes:
    """A public key as a file's content."""
    return Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def read_public_key(path: Path) -> str:
    """The public key in a PEM file."""
    try:
        key = serialization.load_pem_public_key(path.read_bytes())
    except OSError as error:
        raise InputError(
            f"a public key must be readable, got {error.strerror} for {str(path)!r}; name the PEM file"
        ) from None
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(
            f"a public key must be an Ed25519 key in a PEM file, got {str(path)!r}; ask the operator for the file that "
            "`commonweal ledger init` named"
        )
    return key.public_bytes_raw().hex()
