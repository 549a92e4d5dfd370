"""A document that its signer can be held to, in a file that anybody can check offline.

{"document": {...}, "signer": <public key>, "signature": <Ed25519 of "<format> <hash of the canonical document>">}
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from commonweal.errors import LedgerError
from commonweal.ledger.canonical import Document, canonical, hash_of, parse
from commonweal.ledger.keys import SigningKey, is_signed_by_operator


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedDocument:
    """What a signed file says, whether or not its signature is right."""

    document: dict[str, Any]
    signer: str
    signature: str

    @property
    def is_sound(self) -> bool:
        """Whether the signer it names signed it."""
        try:
            return is_signed_by_operator(_message(self.document), self.signature, self.signer)
        except ValueError:  # what has no canonical form was not signed
            return False


def signed_content(document: Document, key: SigningKey) -> bytes:
    """The content of a signed file, laid out for people."""
    whole = {"document": document, "signer": key.public, "signature": key.sign(_message(document))}
    return (json.dumps(whole, indent=1, ensure_ascii=False) + "\n").encode()


def read_signed(path: Path, formats: tuple[str, ...]) -> SignedDocument:
    """The document in a file, of one of the formats."""
    try:
        whole = parse(path.read_bytes().decode())
    except OSError as error:
        raise LedgerError(
            f"a signed file must be readable, got {error.strerror} for {str(path)!r}; name another file"
        ) from None
    except UnicodeDecodeError:
        whole = None
    document = whole.get("document") if whole is not None else None
    if whole is None or not isinstance(document, dict) or document.get("format") not in formats:
        raise LedgerError(
            f"a signed file must be of the format {' or '.join(formats)}, got {str(path)!r}; name the file as the "
            "operator gave it to you"
        )
    return SignedDocument(
        document=document, signer=str(whole.get("signer", "")), signature=str(whole.get("signature", ""))
    )


def _message(document: Document) -> bytes:
    return f"{document['format']} {hash_of(canonical(document))}".encode()
