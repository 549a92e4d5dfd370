"""Keys of Flower SuperNodes: ECDSA on NIST P-384. Members on Flower sign with the key that their SuperLink knows.

public key   "p384:" + hexadecimal of the compressed point: 02 or 03, then x, 49 bytes in all
signature    hexadecimal of r and s, 48 bytes each, over SHA-384 of the message

If (r, s) is a valid signature, so is (r, order − s). Only the smaller s counts here, so that nobody can turn a
signature into another one.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from commonweal.atomic_write import sync_directory, write_new
from commonweal.bounded_read import LARGEST_KEY, read_bounded
from commonweal.errors import CommonwealError, LedgerError, StorageError, os_reason
from commonweal.ledger.private_file import check_private

PREFIX = "p384:"
ORDER = int(  # of the curve's group
    "ffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973", 16
)
_POINT_LENGTH = 49
_NUMBER_LENGTH = 48
_UNREADABLE = (ValueError, TypeError, UnsupportedAlgorithm)


@dataclass(frozen=True, slots=True, repr=False)
class NodeKey:
    """A node's private key; its repr shows only the public half."""

    private: ec.EllipticCurvePrivateKey

    @classmethod
    def new(cls) -> NodeKey:
        return cls(ec.generate_private_key(ec.SECP384R1()))

    @classmethod
    def read(cls, path: Path) -> NodeKey:
        """The key in an OpenSSH or PEM file without a passphrase, since nodes start unattended."""
        content = _content(path)
        is_openssh = b"OPENSSH PRIVATE KEY" in content.partition(b"\n")[0]
        load = serialization.load_ssh_private_key if is_openssh else serialization.load_pem_private_key
        try:
            key = load(content, None)
        except TypeError:
            raise LedgerError(
                f"The node key {path} is encrypted, and a node cannot ask for a passphrase. Remove it from a copy that "
                "only the node can read, with: ssh-keygen -p"
            ) from None
        except _UNREADABLE:
            key = None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP384R1):
            raise LedgerError(
                f"A node key must be an ECDSA key on the curve P-384 in OpenSSH format or PEM, got {_what(key)} in "
                f"{path}. Create one with: ssh-keygen -t ecdsa -b 384"
            )
        check_private(path)
        return cls(key)

    @property
    def public(self) -> str:
        return _public_text(self.private.public_key())

    def sign(self, message: bytes) -> str:
        """The signature in hexadecimal; the same message always gives the same one (RFC 6979, the smaller s)."""
        algorithm = ec.ECDSA(hashes.SHA384(), deterministic_signing=True)
        r, s = decode_dss_signature(self.private.sign(message, algorithm))
        return b"".join(value.to_bytes(_NUMBER_LENGTH, "big") for value in (r, min(s, ORDER - s))).hex()

    def write(self, path: Path) -> None:
        """Write a new file that only this user can read, and the public half beside it, with .pub added to the name."""
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
    """The public key in OpenSSH format or PEM."""
    load = serialization.load_pem_public_key if b"-----BEGIN" in content else serialization.load_ssh_public_key
    try:
        key = load(content)
    except _UNREADABLE:
        key = None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP384R1):
        raise LedgerError(
            f"A node's public key must be an ECDSA key on the curve P-384 in OpenSSH format or PEM, got {_what(key)}. "
            "Use the .pub file that ssh-keygen -t ecdsa -b 384 creates."
        )
    return _public_text(key)


def read_node_public_key(path: Path) -> str:
    """The public key in a file."""
    content = _content(path)
    try:
        return node_public_key(content)
    except CommonwealError as error:
        raise LedgerError(f"Cannot use {path}: {error}") from None


def node_public_pem(public: str) -> bytes:
    """A node's public key in PEM."""
    return _point(public).public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def is_signed_by_node(message: bytes, signature: str, public: str) -> bool:
    """Whether the node signed the message; only this module's encoding of key and signature is accepted."""
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


def is_node_key(public: str) -> bool:
    """Whether a text is a public key in this module's encoding."""
    try:
        _point(public)
    except ValueError:
        return False
    return True


def _point(public: str) -> ec.EllipticCurvePublicKey:
    """The key that a text encodes; ValueError if it is not in this module's encoding."""
    point = bytes.fromhex(public.removeprefix(PREFIX))
    if len(point) != _POINT_LENGTH or f"{PREFIX}{point.hex()}" != public:
        raise ValueError(public)
    return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP384R1(), point)


def _public_text(key: ec.EllipticCurvePublicKey) -> str:
    point = key.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.CompressedPoint)
    return f"{PREFIX}{point.hex()}"


def _content(path: Path) -> bytes:
    try:
        return read_bounded(path, LARGEST_KEY)
    except OSError as error:
        raise StorageError(f"Cannot read the node key {path}: {os_reason(error)}.") from None


def _write_new(path: Path, content: bytes, *, mode: int) -> None:
    try:
        write_new(path, content, mode=mode)
        sync_directory(path.parent)
    except FileExistsError as error:
        raise StorageError(f"Cannot create the node key {path}: {os_reason(error)}. Name a new file.") from None
    except OSError as error:
        with suppress(OSError):
            path.unlink()  # do not leave half a key pair behind
        raise StorageError(f"Cannot create the node key {path}: {os_reason(error)}. Name a new file.") from None


def _what(key: object) -> str:
    if isinstance(key, ec.EllipticCurvePrivateKey | ec.EllipticCurvePublicKey):
        return f"a key on {key.curve.name}"
    return "no key" if key is None else "another kind of key"
