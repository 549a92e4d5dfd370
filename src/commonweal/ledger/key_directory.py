"""The directory of the operator's keys, which nobody else may read.

<first 16 digits of the public key>.pem       the private key, mode 0600, encrypted if there is a passphrase
<first 16 digits of the public key>.pub.pem   the public key, to be sent to every member
current                                       the public key that signs new ledgers
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from commonweal.atomic_write import make_directory, sync_directory, unfinished_beside, write_atomically, write_new
from commonweal.bounded_read import LARGEST_KEY, read_bounded
from commonweal.errors import LedgerError, StorageError, os_reason
from commonweal.ledger.keys import SigningKey, public_pem
from commonweal.ledger.private_file import check_not_shared, check_private

AskPassphrase = Callable[[Path], str | None]


def default_key_directory() -> Path:
    """A folder in the user's configuration directory."""
    import platformdirs

    return platformdirs.user_config_path("commonweal") / "keys"


class KeyDirectory:
    """The operator's keys. New ones are encrypted if there is a `passphrase`.

    `ask` is called when a key turns out to be encrypted and no passphrase was given.
    """

    def __init__(self, path: Path, *, passphrase: str | None = None, ask: AskPassphrase | None = None) -> None:
        self.path = path
        self._passphrase = passphrase
        self._ask = ask

    def current(self) -> SigningKey:
        """The key that signs new ledgers; created on first use."""
        known = self._current_public()
        if known is not None:
            return self.key_of(known)
        key = self.add(SigningKey.new())
        # The first link wins: two processes that start together must not sign with different keys.
        unfinished = unfinished_beside(self.path / "current")
        try:
            write_new(unfinished, key.public.encode())
            with suppress(FileExistsError):
                os.link(unfinished, self.path / "current")
            sync_directory(self.path)
        except OSError as error:
            raise self._unwritable(error) from None
        finally:
            unfinished.unlink(missing_ok=True)
        winner = self._current_public()
        assert winner is not None, "a key was linked above"
        if winner != key.public:
            self._private_file(key.public).unlink(missing_ok=True)
            self.public_file(key.public).unlink(missing_ok=True)
        return self.key_of(winner)

    def make_current(self, public: str) -> None:
        """Sign new ledgers with this key from now on."""
        write_atomically(self.path / "current", public.encode(), what="the key directory")

    def add(self, key: SigningKey) -> SigningKey:
        """Store a key; only this user can read its private half."""
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if self._passphrase:
            encryption = serialization.BestAvailableEncryption(self._passphrase.encode())
        content = key.private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        try:
            make_directory(self.path, mode=0o700)
            unfinished = unfinished_beside(self._private_file(key.public))
            write_new(unfinished, content, mode=0o600)
            unfinished.replace(self._private_file(key.public))
            sync_directory(self.path)
        except OSError as error:
            raise self._unwritable(error) from None
        write_atomically(self.public_file(key.public), public_pem(key.public), what="the public key")
        return key

    def key_of(self, public: str) -> SigningKey:
        """The private half of a public key."""
        path = self._private_file(public)
        try:
            check_not_shared(self.path)
            check_private(path)
            content = read_bounded(path, LARGEST_KEY)
        except OSError as error:
            raise StorageError(
                f"This ledger is signed with the key {public[:16]}…, but {path} cannot be read: {os_reason(error)}. "
                "Name the directory that has this key."
            ) from None
        key = SigningKey(self._decrypted(path, content))
        if key.public != public:
            raise LedgerError(
                f"{path} should hold the key {public[:16]}… but holds {key.public[:16]}…. Restore it from your backup."
            )
        return key

    def public_file(self, public: str) -> Path:
        """The file to send to members."""
        return self.path / f"{public[:16]}.pub.pem"

    def _private_file(self, public: str) -> Path:
        return self.path / f"{public[:16]}.pem"

    def _current_public(self) -> str | None:
        try:
            return read_bounded(self.path / "current", LARGEST_KEY).decode("ascii", "replace").strip()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(
                f"Cannot read the key directory {self.path}: {os_reason(error)}. Name another directory."
            ) from None

    def _decrypted(self, path: Path, content: bytes) -> Ed25519PrivateKey:
        encrypted = b"ENCRYPTED" in content.partition(b"\n")[0]
        if encrypted and self._passphrase is None and self._ask is not None:
            self._passphrase = self._ask(path)
        secret = self._passphrase.encode() if encrypted and self._passphrase else None
        try:
            key = serialization.load_pem_private_key(content, secret)
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            if encrypted:
                raise LedgerError(
                    f"The private key {path} is encrypted, and "
                    f"{'the passphrase is wrong' if secret else 'no passphrase was given'}. Set "
                    "COMMONWEAL_KEY_PASSPHRASE."
                )
            raise LedgerError(f"{path} does not contain an Ed25519 private key in PEM. Restore it from your backup.")
        return key

    def _unwritable(self, error: OSError) -> StorageError:
        return StorageError(
            f"Cannot write to the key directory {self.path}: {os_reason(error)}. Name another directory."
        )
