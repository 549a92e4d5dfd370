"""The words of the lines in a statement: written and read in one place, so that a member knows all that can be said."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from commonweal.ledger.member_documents import ROUND_LIMIT
from commonweal.records.statement import StatementLine

ABOUT_A_ROUND = ("round", "late-report", "charge", "withdrawal")  # kinds of entries whose lines name their round
ADMITTED, ABSENT, SILENT, RESTING = "admitted", "absent", "silent", "resting"
_SILENT = f"{SILENT}; you had the round's model and did not report"
_RESTING = f"{RESTING}; the mechanism did not ask you to take part"
_MISSED = {ABSENT: ABSENT, SILENT: _SILENT, RESTING: _RESTING}


def round_text(number: int, fate: str) -> str:
    """`fate` is one of the words for a round without the client, or what became of it with reasons."""
    return f"round {number}: {_MISSED.get(fate, fate)}"


def income_text(reference: str) -> str:
    return f"income, {reference}"


def reversal_text(entry: int, reason: str) -> str:
    return f"reversal of entry {entry}: {reason}"


def withdrawal_text(round_number: int) -> str:
    return f"withdrew after round {round_number}"


def charge_text(round_number: int, whose: str | None) -> str:
    """`whose` is the name of another client; None if the client itself was silent."""
    return f"charge for {'your' if whose is None else f'''{whose}'s'''} silence in round {round_number}"


def exclusion_text(rounds: Sequence[int]) -> str:
    return f"membership ended: silent in rounds {', '.join(map(str, rounds))}"


def late_report_text(round_number: int) -> str:
    return f"reported round {round_number} late; the round stays as it was settled"


def amendment_text(number: int, first_round: int) -> str:
    return f"amendment {number}: the terms change from round {first_round} on"


_NUMBER = "[1-9][0-9]{0,9}"
_ROUND = f"(?P<rounds>{_NUMBER})"
_EARLIER_FATES = {"stays": "retained", "let go": "eliminated"}  # of version 0.1
_FATES = ("retained", "eliminated", "eliminated as harmful", *_EARLIER_FATES)
_TOOK_PART = f"(?P<fate>{'|'.join(_FATES)})(?:; .+)?"
_MISSED_ONE = "|".join(re.escape(text) for text in _MISSED.values())
_FORMS = {  # of each kind of entry, in all versions
    kind: re.compile(form)
    for kind, form in {
        "round": f"round {_ROUND}: (?:{_TOOK_PART}|(?P<missed>{_MISSED_ONE}))",
        "realisation": "income, .+",
        "reversal": f"reversal of entry (?P<entry>{_NUMBER}): .+",
        "withdrawal": f"withdrew after round {_ROUND}",
        "charge": f"charge for (?:(?P<own>your)|.+'s) silence in round {_ROUND}",
        "exclusion": f"membership ended: silent in rounds (?P<rounds>{_NUMBER}(?:, {_NUMBER})*)",
        "late-report": f"reported round {_ROUND} late; the round stays as it was settled",
        "admission": ADMITTED,
        "amendment": f"{ADMITTED}|amendment {_NUMBER}: the terms change from round {_NUMBER} on",
    }.items()
}
_WITHOUT_MONEY = ("withdrawal", "exclusion", "late-report", "admission", "amendment")


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a line says, by its words."""

    kind: str
    rounds: tuple[int, ...] = ()
    fate: str = ""  # in a round, in one word
    took_part: bool = False  # in the round
    entry: int | None = None  # that is reversed
    is_own: bool = True  # a charge for the silence of the client itself


def told_in(line: StatementLine) -> Told | None:
    """What a line says; None if its words are not those of its kind. Whole statements have no kinds."""
    for kind in _FORMS if line.kind is None else (line.kind,):
        match = _FORMS[kind].fullmatch(line.text) if kind in _FORMS else None
        if match is None:
            continue
        found = match.groupdict()
        fate = found.get("fate") or found.get("missed") or ""
        return Told(
            kind=kind,
            rounds=tuple(map(int, re.findall("[0-9]+", found.get("rounds") or ""))),
            fate=fate.partition(";")[0],
            took_part=found.get("fate") is not None,
            entry=int(match["entry"]) if found.get("entry") else None,
            is_own=kind != "charge" or match["own"] is not None,
        )
    return None


def says_the_same(one: StatementLine, other: StatementLine) -> bool:
    """Whether two lines about an entry say the same, in the words of any version and with any explanations.

    Words that are not known here say nothing else.
    """
    if one.kind is None or other.kind is None:  # whole statements have no kinds; there the words must do
        one, other = replace(one, kind=None), replace(other, kind=None)
    first, second = told_in(one), told_in(other)
    if first is None or second is None:
        return True
    first, second = (replace(told, fate=_EARLIER_FATES.get(told.fate, told.fate)) for told in (first, second))
    return first == second


def fault_of_line(line: StatementLine, *, is_part: bool) -> str:
    """Why a line is none that a ledger leads to, whatever came before it; empty if it may be one."""
    told = told_in(line)
    if is_part and line.kind is None:
        return "does not say of what kind that entry is"
    if told is None:
        kind = "" if line.kind is None else f"of kind {line.kind[:40]!r} "
        return f"{kind}says {line.text[:40]!r}, which is not known here"
    if line.kind in ("round", "late-report") and line.round_number is None:
        return "does not say which round it is about"
    if max(told.rounds, default=0) > ROUND_LIMIT:
        return f"is about round {max(told.rounds)}, but there are at most {ROUND_LIMIT}"
    named = told.rounds[0] if told.kind in ABOUT_A_ROUND else None
    if line.round_number not in (None, named):
        says = "no round" if named is None else f"round {named}"
        return f"says {says}, but names round {line.round_number}"
    if told.kind == "round" and told.took_part != (line.profit is not None):
        return f"says {told.fate!r} {'without' if told.took_part else 'with'} a profit"
    return _fault_of_money(line, told)


def _fault_of_money(line: StatementLine, told: Told) -> str:
    """Income only adds; a charge takes from who was silent and gives to others; the rest moves nothing."""
    moved = f"moves {line.amount} and accrues {line.accrued} minor units, which {line.text[:40]!r} cannot"
    if told.kind in _WITHOUT_MONEY or (told.kind == "round" and not told.took_part):
        return moved if line.amount or line.accrued else ""
    if told.kind == "realisation":
        return moved if line.amount <= 0 or line.accrued else ""
    if told.kind == "charge":
        return moved if line.accrued or (line.amount > 0) == told.is_own else ""
    return ""
