"""Keys of Flower SuperNodes: ECDSA on NIST P-384, as clients that a SuperLink knows by their key sign their reports.

public key   "p384:" + hexadecimal of the compressed point: 02 or 03, then x, 49 bytes in all
signature    hexadecimal of r and s, 48 bytes each, over SHA-384 of the message

With (r, s) also (r, order − s) fits a message. Only the smaller s counts here, so that nobody can write another
signature under what somebody signed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from commonweal.errors import CommonwealError, LedgerError

PREFIX = "p384:"
ORDER = int(  # of the curve's group
    "ffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973", 16
)
_POINT_LENGTH = 49
_NUMBER_LENGTH = 48
_UNREADABLE = (ValueError, TypeError, UnsupportedAlgorithm)


@dataclass(frozen=True, slots=True, repr=False)
class NodeKey:
    """A node's private key. It shows nothing of itself but its public half."""

    private: ec.EllipticCurvePrivateKey

    @classmethod
    def new(cls) -> NodeKey:
        return cls(ec.generate_private_key(ec.SECP384R1()))

    @classmethod
    def read(cls, path: Path) -> NodeKey:
        """The key in an OpenSSH or PEM file that no passphrase locks: nodes start with nobody there to type one."""
        content = _content(path, "a node's private key")
        is_openssh = b"OPENSSH PRIVATE KEY" in content.partition(b"\n")[0]
        load = serialization.load_ssh_private_key if is_openssh else serialization.load_pem_private_key
        try:
            key = load(content, None)
        except TypeError:
            raise LedgerError(
                f"a node's private key must be there without a passphrase, got the locked {str(path)!r}; make a copy "
                "that the node alone can read, with ssh-keygen -p"
            ) from None
        except _UNREADABLE:
            key = None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP384R1):
            raise LedgerError(
                "a node's private key must be an ECDSA key on the curve P-384 in an OpenSSH or PEM file, got "
                f"{_what(key)} in {str(path)!r}; make one with ssh-keygen -t ecdsa -b 384"
            )
        return cls(key)

    @property
    def public(self) -> str:
        return _public_text(self.private.public_key())

    def sign(self, message: bytes) -> str:
        """The signature, in hexadecimal; the same message gives the same one (RFC 6979, and the smaller s)."""
        algorithm = ec.ECDSA(hashes.SHA384(), deterministic_signing=True)
        r, s = decode_dss_signature(self.private.sign(message, algorithm))
        return b"".join(value.to_bytes(_NUMBER_LENGTH, "big") for value in (r, min(s, ORDER - s))).hex()

    def write(self, path: Path) -> None:
        """Into a new file for this user alone, and the public half beside it with .pub behind the name."""
        public_path = path.with_name(path.name + ".pub")
        private = self.private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        )
        public = self.private.public_key().public_bytes(
            serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        )
        _write_new(path, private, mode=0o600)
        try:
            _write_new(public_path, public + b"\n", mode=0o644)
        except CommonwealError:
            path.unlink()
            raise

    def __repr__(self) -> str:
        return f"NodeKey(public={self.public!r})"


def node_public_key(content: bytes) -> str:
    """The public key in a line of OpenSSH or in PEM."""
    load = serialization.load_pem_public_key if b"-----BEGIN" in content else serialization.load_ssh_public_key
    try:
        key = load(content)
    except _UNREADABLE:
        key = None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP384R1):
        raise LedgerError(
            "a node's public key must be an ECDSA key on the curve P-384 in OpenSSH's form or in PEM, got "
            f"{_what(key)}; take the .pub file that ssh-keygen -t ecdsa -b 384 makes"
        )
    return _public_text(key)


def read_node_public_key(path: Path) -> str:
    """The public key in a file."""
    content = _content(path, "a node's public key")
    try:
        return node_public_key(content)
    except CommonwealError as error:
        raise LedgerError(f"{error} ({str(path)!r})") from None


def node_public_pem(public: str) -> bytes:
    """A node's public key as a PEM file's content."""
    return _point(public).public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def is_signed_by_node(message: bytes, signature: str, public: str) -> bool:
    """Whether the node signed the message; both must be written the one way that they are here."""
    try:
        key, signed = _point(public), bytes.fromhex(signature)
        if len(signed) != 2 * _NUMBER_LENGTH or signed.hex() != signature:
            return False
        r, s = (int.from_bytes(half, "big") for half in (signed[:_NUMBER_LENGTH], signed[_NUMBER_LENGTH:]))
        if s > ORDER - s:
            return False
        key.verify(encode_dss_signature(r, s), message, ec.ECDSA(hashes.SHA384()))
    except (InvalidSignature, ValueError, TypeError, AttributeError):
        return False
    return True


def _point(public: str) -> ec.EllipticCurvePublicKey:
    """The key that a text names; ValueError if it is not the one way to write it."""
    point = bytes.fromhex(public.removeprefix(PREFIX))
    if len(point) != _POINT_LENGTH or f"{PREFIX}{point.hex()}" != public:
        raise ValueError(public)
    return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP384R1(), point)


def _public_text(key: ec.EllipticCurvePublicKey) -> str:
    point = key.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.CompressedPoint)
    return f"{PREFIX}{point.hex()}"


def _content(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise LedgerError(f"{what} must be readable, got {error.strerror} for {str(path)!r}; name its file") from None


def _write_new(path: Path, content: bytes, *, mode: int) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
        except OSError:
            path.unlink()  # half a key is none
            raise
    except OSError as error:
        raise LedgerError(
            f"a node's key is written into a new file, got {error.strerror} for {str(path)!r}; name another"
        ) from None


def _what(key: object) -> str:
    if isinstance(key, ec.EllipticCurvePrivateKey | ec.EllipticCurvePublicKey):
        return f"one on {key.curve.name}"
    return "no key" if key is None else "a key of another kind"
