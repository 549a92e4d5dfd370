"""The agreed rates that a member's profit is to follow from, as a question tells them.

They stand in the terms of the ledger, of which the member knows and signs the hash. So they may change with the terms,
and never without them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from commonweal.records import Rates
from commonweal.remote.member.store import ERROR, MemberState, MemberStore
from commonweal.remote.messages.message import QuestionError

FIELD = "rates"


def read_rates(store: MemberStore, state: MemberState, fields: Mapping[str, Any], terms: str) -> Rates | None:
    """The rates, or None if the profit follows from what the member alone knows. `terms` is the hash that it signs.

    Raises `QuestionError` if they are not those of an earlier round under the same terms.
    """
    told = json.loads(fields[FIELD]) if FIELD in fields else None
    known = state.rates.setdefault(terms, told)
    if told != known:
        refusal = (
            f"Profits followed from {_in_words(known)} in an earlier round, and are to follow from {_in_words(told)} "
            f"in round {fields['round']}, but the terms are the same. Rates change only by an amendment."
        )
        store.log(f"{ERROR} refused to report: {refusal}")
        raise QuestionError(refusal)
    return None if told is None else Rates(**told)


def _in_words(told: Mapping[str, float] | None) -> str:
    return "private figures" if told is None else f"the rates {Rates(**told).in_words}"
