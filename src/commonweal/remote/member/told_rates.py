"""The agreed rates that a member's profit is to follow from, as a question tells them.

They stand in the terms of the ledger, of which the member knows and signs the hash. So they may change with the terms,
and never without them. Whether there are any is the operator's word, unless the member's own file says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from commonweal.records import Rates
from commonweal.remote.member.member_file import Member
from commonweal.remote.member.store import ERROR, MemberState, MemberStore
from commonweal.remote.messages.message import QuestionError

FIELD = "rates"


def read_rates(
    store: MemberStore, state: MemberState, member: Member, fields: Mapping[str, Any], terms: str
) -> Rates | None:
    """The rates, or None if the profit follows from what the member alone knows. `terms` is the hash that it signs.

    Raises `QuestionError` if they are not those of an earlier round under the same terms, or of the member's file.
    """
    told = json.loads(fields[FIELD]) if FIELD in fields else None
    refusal = ""
    if member.profits is not None and (member.profits == "rates") != (told is not None):
        refusal = (
            f"Profits are to follow from {_in_words(told)} in round {fields['round']}, but the member's file says "
            f'profits = "{member.profits}".'
        )
    elif terms not in state.rates:
        state.rates[terms] = told
        store.log(f"round {fields['round']}: under terms {terms[:16]}… profits follow from {_in_words(told)}")
    elif told != (known := state.rates[terms]):
        refusal = (
            f"Profits followed from {_in_words(known)} in an earlier round, and are to follow from {_in_words(told)} "
            f"in round {fields['round']}, but the terms are the same. Rates change only by an amendment."
        )
    if refusal:
        store.log(f"{ERROR} refused to report: {refusal}")
        raise QuestionError(refusal)
    return None if told is None else Rates(**told)


def _in_words(told: Mapping[str, float] | None) -> str:
    return "private figures" if told is None else f"the rates {Rates(**told).in_words}"
