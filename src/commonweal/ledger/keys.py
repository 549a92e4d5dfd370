"""Signatures. Operators sign with Ed25519; members with Ed25519 or the key of their Flower node (`node_keys`).

An Ed25519 public key is written as 64 hexadecimal digits in documents and as PEM in files.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from commonweal.bounded_read import LARGEST_KEY, read_bounded
from commonweal.errors import CommonwealError, LedgerError, StorageError, os_reason
from commonweal.ledger.node_keys import PREFIX, is_node_key, is_signed_by_node, node_public_key, node_public_pem
from commonweal.ledger.weak_keys import is_weak


class Signer(Protocol):
    """Anything that signs: a key of either kind, or an object that asks the key's owner to sign."""

    @property
    def public(self) -> str: ...

    def sign(self, message: bytes) -> str: ...


@dataclass(frozen=True, slots=True, repr=False)
class SigningKey:
    """A private key; its repr shows only the public half."""

    private: Ed25519PrivateKey

    @classmethod
    def new(cls) -> SigningKey:
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_seed(cls, seed: bytes) -> SigningKey:
        """The key derived from a seed of 32 bytes."""
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    @property
    def public(self) -> str:
        return self.private.public_key().public_bytes_raw().hex()

    def sign(self, message: bytes) -> str:
        """The signature in hexadecimal; the same message always gives the same signature."""
        return self.private.sign(message).hex()

    def __repr__(self) -> str:
        return f"SigningKey(public={self.public!r})"


def is_signed(message: bytes, signature: str, public: str) -> bool:
    """Whether the owner of a public key of either kind signed the message."""
    if isinstance(public, str) and public.startswith(PREFIX):
        return is_signed_by_node(message, signature, public)
    return is_signed_by_operator(message, signature, public)


def is_signed_by_operator(message: bytes, signature: str, public: str) -> bool:
    """Whether the owner of an Ed25519 key signed the message; only this module's encoding of both is accepted."""
    try:
        signed, key = bytes.fromhex(signature), bytes.fromhex(public)
        Ed25519PublicKey.from_public_bytes(key).verify(signed, message)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return signed.hex() == signature and key.hex() == public and not is_weak(key)


def fault_of_key(public: object) -> str | None:
    """What is wrong with a public key, to end a sentence with "which ..."; None if members can be admitted with it."""
    if isinstance(public, str) and public.startswith(PREFIX):
        return None if is_node_key(public) else "is not a point of the curve P-384"
    try:
        key = bytes.fromhex(str(public))
    except ValueError:
        key = b""
    if len(key) != 32 or key.hex() != public:
        return "is neither an Ed25519 key of 64 hexadecimal digits nor a P-384 key"
    return "is a weak Ed25519 key: one signature would fit every message" if is_weak(key) else None


def public_pem(public: str) -> bytes:
    """A public key in PEM."""
    if public.startswith(PREFIX):
        return node_public_pem(public)
    return Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def read_public_key(path: Path) -> str:
    """A member's public key: Ed25519 in PEM, or that of its Flower node in PEM or OpenSSH format."""
    content = _content(path)
    key = _strong(_ed25519(content), path)
    try:
        return key or node_public_key(content)
    except CommonwealError:
        raise LedgerError(
            f"{path} must contain a public key: Ed25519 in PEM, or P-384 in PEM or OpenSSH format. Ask the member "
            "for the public half of the key it signs with."
        ) from None


def read_operator_key(path: Path) -> str:
    """The operator's public key in a PEM file."""
    key = _strong(_ed25519(_content(path)), path)
    if key is None:
        raise LedgerError(
            f"{path} does not contain an Ed25519 public key in PEM. Ask the operator for the file that `commonweal "
            "ledger init` named."
        )
    return key


def _content(path: Path) -> bytes:
    try:
        return read_bounded(path, LARGEST_KEY)
    except OSError as error:
        raise StorageError(f"Cannot read the public key {path}: {os_reason(error)}.") from None


def _ed25519(content: bytes) -> str | None:
    """The Ed25519 key in PEM; None if it is something else."""
    try:
        key = serialization.load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        return None
    return key.public_bytes_raw().hex() if isinstance(key, Ed25519PublicKey) else None


def _strong(key: str | None, path: Path) -> str | None:
    if key is not None and (fault := fault_of_key(key)) is not None:
        raise LedgerError(
            f"The public key in {path} {fault}. Ask its owner for a key made by a program that you trust."
        )
    return key
