"""A round that was settled without the member and is not open in its folder.

The folder was restored from a backup, or the coordinator was, and the member opened another attempt of the round since.
It is opened once more for the report that the member owes and for nothing else, or the member would be kept out for
good. Nothing is trained in it, and only a late report is signed, which names the entry that calls the member silent.
How many steps were trained in the round is lost, so their cost is not in the report; no money follows from that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from commonweal.remote.member.report_book import ReportBook
from commonweal.remote.member.settled_rounds import keep_reported
from commonweal.remote.member.store import ERROR, MemberState, MemberStore, OpenRound
from commonweal.task.records import LoadedData

_NAMED = ("opening_model", "terms")  # fields of a question for what a late report is about


def may_open_late(store: MemberStore, state: MemberState, fields: Mapping[str, Any]) -> bool:
    """Whether a round may be opened for a late report: it is missed by a statement, and was not reported late yet.

    A report that the coordinator never got, or one of another attempt, is listed as an earlier one: a late report has
    an attempt of its own. What is measured must be from the round before it, in the member's first round from the model
    that opened it, which must come along, and a later round that is open must not be dropped.
    """
    reports = ReportBook(store, fields["round"])
    number, opened = fields["round"], 0 if state.under_way is None else state.under_way.round_number
    is_first = not fields.get("settled_round", state.settled_round)
    is_measurable = fields.get("opening_model") in fields["whole"] if is_first else _has_alone(state, fields)
    is_owed = number in state.missed_rounds and state.settled_round < number and opened <= number
    return is_owed and is_measurable and fields.keys() >= set(_NAMED) and not reports.has_late


def open_late(store: MemberStore, state: MemberState, fields: Mapping[str, Any], data: LoadedData) -> None:
    """Open it as it was opened before, from what the folder remembers of the round before it."""
    first_alone = None if _has_alone(state, fields) else fields["opening_model"]
    keep_reported(store, state)
    state.under_way = OpenRound(
        round_number=fields["round"],
        attempt=fields["attempt"],
        declared_count=data.newest.declared_count,
        cost_count=data.newest.cost_count,
        validation_count=len(data.validation[0]),
        opening=fields["opening_model"],
        terms=fields["terms"],
        memory=state.memory,
        alone=state.alone or first_alone,
        alone_memory=state.alone_memory,
        first_alone=first_alone,
    )
    store.log(
        f"{ERROR} round {fields['round']} was settled without this member and is not open in its folder: it is opened "
        "for the late report alone. If neither this folder nor the coordinator was restored from a backup, ask the "
        "operator"
    )


def _has_alone(state: MemberState, fields: Mapping[str, Any]) -> bool:
    """Whether the model that the member trains alone is there, if its advantage over that counts."""
    return fields["utility"] != "advantage" or state.alone is not None
