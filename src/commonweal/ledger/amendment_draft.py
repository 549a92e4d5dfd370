"""The file in which an amendment goes from the operator to its members, who sign it, and back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from commonweal.atomic_write import write_atomically
from commonweal.bounded_read import LARGEST_DOCUMENT, read_bounded
from commonweal.errors import CommonwealError, LedgerError, StorageError, os_reason
from commonweal.ledger.amendments import Amendment
from commonweal.ledger.canonical import parse
from commonweal.ledger.keys import Signer, is_signed
from commonweal.ledger.money import amount_text
from commonweal.ledger.terms import Terms

DRAFT_FORMAT = "commonweal.amendment-draft/2"


@dataclass(frozen=True, slots=True, kw_only=True)
class AmendmentDraft:
    """An amendment with the terms that it changes, and the signatures so far."""

    amendment: Amendment
    before: Terms
    signatures: Mapping[str, str] = field(default_factory=dict)  # by client

    def signed(self, client: str, key: Signer) -> AmendmentDraft:
        signature = self.amendment.signed(client, key)
        assert is_signed(self.amendment.message(client), signature, key.public), "signed just now"
        return replace(self, signatures={**self.signatures, client: signature})

    def write(self, path: Path) -> None:
        document = {
            "format": DRAFT_FORMAT,
            "amendment": self.amendment.to_document(),
            "before": self.before.to_document(),
            "signatures": dict(self.signatures),
        }
        content = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
        write_atomically(path, content.encode(), what="the amendment")

    def changes(self) -> list[str]:
        """What it changes, one line each: "mu: 0.05 → 0.2"."""
        lines = changes_between(self.before, self.amendment.terms)
        return [*lines, *(_admitted(client, key) for client, key in self.amendment.members.items())]


def read_draft(path: Path) -> AmendmentDraft:
    """The draft in a file; its terms before are those that the amendment names."""
    try:
        document = parse(read_bounded(path, LARGEST_DOCUMENT).decode())
    except OSError as error:
        raise StorageError(f"Cannot read {path}: {os_reason(error)}.") from None
    except UnicodeDecodeError:
        document = None
    try:
        if document is None or document["format"] != DRAFT_FORMAT:
            raise ValueError
        signatures = {str(client): str(signature) for client, signature in document["signatures"].items()}
        amendment = Amendment.from_document(document["amendment"])
        draft = AmendmentDraft(
            amendment=amendment, before=Terms.from_document(document["before"]), signatures=signatures
        )
        amendment.message("")  # it has a canonical form
    except (CommonwealError, KeyError, TypeError, ValueError, AttributeError):
        raise LedgerError(
            f"{path} is not a draft of an amendment. Use the file exactly as the operator sent it."
        ) from None
    if draft.before.digest() != amendment.terms_before:
        raise LedgerError(
            f"{path} shows other terms than those that its amendment changes. Do not sign it; ask the operator for "
            "another draft."
        )
    return draft


def merged(drafts: Sequence[AmendmentDraft]) -> AmendmentDraft:
    """One draft with the signatures of all; they must be drafts of the same amendment."""
    first = drafts[0]
    if any(draft.amendment != first.amendment for draft in drafts):
        raise LedgerError("These files are drafts of different amendments. Name files of one amendment.")
    return replace(first, signatures={client: one for draft in drafts for client, one in draft.signatures.items()})


def changes_between(before: Terms, after: Terms) -> list[str]:
    """Every rule that differs, with both values."""
    old, new = (dict(_flat(_readable(terms))) for terms in (before, after))
    return [
        f"{'.'.join(name)}: {_text(old.get(name))} → {_text(new.get(name))}"
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name)
    ]


def _admitted(client: str, key: str | None) -> str:
    return f"admitted: {client}" + ("" if key is None else f", with the key {key}")


def _readable(terms: Terms) -> dict[str, Any]:
    """The terms' document, with the amount in it as people write amounts."""
    document = dict(terms.to_document())
    if terms.agreed is not None and terms.agreed.silence_charge is not None:
        charge = f"{amount_text(terms.agreed.silence_charge, terms.minor_digits)} {terms.currency}"
        document["agreed"] = {**document["agreed"], "silence_charge": charge}
    return document


def _flat(document: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """By path, not by text: clients and classes may have any names."""
    for name, value in document.items():
        inner = (*path, name)
        if isinstance(value, Mapping):
            yield from _flat(value, () if inner in (("agreed",), ("rules",)) else inner)
        else:
            yield inner, value


def _text(value: Any) -> str:
    """Floats in full if six digits would not tell them apart from others."""
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return "none" if value is None else str(value)
