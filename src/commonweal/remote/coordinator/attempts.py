"""What the coordinator reads in reports about attempts, and in refusals to go back."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from commonweal.errors import FederationError
from commonweal.ledger.canonical import Document
from commonweal.ledger.reports import REPORT_LIMIT, ReportBasis, SignedReport, faults_of_reports, went_on_to
from commonweal.remote.coordinator.answer_rules import LARGEST_COUNT, BrokenRuleError, count_in, number_in
from commonweal.remote.messages.answer_limit import LARGEST_PROOF
from commonweal.remote.messages.message import PROOF, SAW_SETTLED, Message
from commonweal.remote.transport import NoAnswer
from commonweal.task.metrics import Metric

LARGEST_LIST = 1_000_000  # characters


class LedgerInForce(Protocol):
    """What a coordinator asks the ledger that its rounds are settled in."""

    @property
    def terms_hash(self) -> str: ...

    @property
    def stated_terms(self) -> Collection[str]:
        """The hashes of all terms that it has stated."""

    def contradiction(self, content: bytes, source: str) -> str: ...

    def hash_of(self, number: int) -> str:
        """The hash of an entry; empty if there is no such entry."""

    def hash_of_round(self, round_number: int) -> str:
        """The hash of the entry that settles a round; empty if none does."""

    def reversals_before(self, round_number: int) -> int:
        """How many entries were reversed before the one that settles a round."""

    def rounds_with(self, client: str) -> Sequence[int]:
        """The rounds that are settled with a client, in order."""

    def receipt(self, round_number: int, client: str, signature: str) -> bytes:
        """The operator's receipt for a client's report; empty if there is no operator to sign it."""

    def refuses_late(self, client: str, round_number: int, document: Document, signature: str) -> str:
        """Why it would not take a late report; empty if it would."""

    def trail(self, after: int, *, until: int | None = None) -> bytes:
        """The signed hashes of the ledger's entries after a number; empty if there is no ledger."""

    def head(self) -> bytes:
        """The ledger's last entry, signed by the operator; empty if there is no ledger."""


class NoLedger:
    """For measurements without a ledger."""

    terms_hash = ""
    stated_terms = ()

    def contradiction(self, content: bytes, source: str) -> str:
        return ""

    def hash_of(self, number: int) -> str:
        return ""

    def hash_of_round(self, round_number: int) -> str:
        return ""

    def reversals_before(self, round_number: int) -> int:
        return 0

    def rounds_with(self, client: str) -> Sequence[int]:
        return ()

    def receipt(self, round_number: int, client: str, signature: str) -> bytes:
        return b""

    def refuses_late(self, client: str, round_number: int, document: Document, signature: str) -> str:
        return ""

    def trail(self, after: int, *, until: int | None = None) -> bytes:
        return b""

    def head(self) -> bytes:
        return b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportQuestion:
    """What the reports of an attempt must rest on."""

    ledger: str
    round_number: int
    attempt: str
    model: str
    opening_model: str
    terms: str
    settings: str
    stated_terms: Collection[str] = ()  # hashes of others that the ledger has stated, which earlier reports may name
    entry: str | None = None  # of a late report: the hash of the entry that calls the client silent
    has_gains: bool | None = None  # whether earlier reports must follow from gains that were told; None: either

    def basis_in(self, answer: Message, client: str, key: str) -> ReportBasis:
        """What the client says its report rests on, with its earlier reports of the round."""
        settings = answer.fields.get("settings")  # members of earlier versions do not sign them
        if settings not in (None, self.settings):
            raise BrokenRuleError("it measured by other settings than those of this federation")
        try:
            basis = ReportBasis(
                number=count_in(answer, "report_number", least=1, most=REPORT_LIMIT),
                attempt=self.attempt,
                model=self.model,
                opening_model=self.opening_model,
                baseline=None if answer.fields.get("baseline", 0) is None else number_in(answer, "baseline"),
                measured=number_in(answer, "measured") if "measured" in answer.fields else None,
                terms=self.terms,
                settings=settings,
                entry=self.entry,
                earlier=_earlier_in(answer),
            )
        except (KeyError, TypeError, ValueError, RecursionError):
            raise BrokenRuleError("its list of earlier reports cannot be read") from None
        faults = faults_of_reports(
            {client: basis},
            {client: key},
            ledger=self.ledger,
            round_number=self.round_number,
            terms=self.terms,
            stated_terms={self.terms, *self.stated_terms},
            has_gains=self.has_gains,
        )
        if faults:
            raise BrokenRuleError(f"its earlier reports of the round do not count ({faults[0]})")
        return basis


def check_baseline(basis: ReportBasis, settled: Mapping[str, Any] | None, gains_count: bool) -> None:
    """A client goes on from what it measured in its last settled round; `settled` is its report of that.

    `gains_count` says that its profit follows from its gain by agreed rates.
    """
    if settled is None or "baseline" not in settled["report"]:  # of version 0.1
        return
    if not basis.goes_on_from(settled["report"], gains_count=gains_count):
        raise BrokenRuleError(
            f"its utility must be measured from {went_on_to(settled['report'])!r}, as it signed in its last settled "
            f"round, got {basis.baseline!r}"
        )


def check_settings_named(basis: ReportBasis, settled: Mapping[str, Any] | None) -> None:
    """A client names the settings that it measures by, if it did in `settled`, its report of its last settled round."""
    if basis.settings is None and settled is not None and settled["report"].get("settings") is not None:
        raise BrokenRuleError("it must name the settings that it measures by, as in its last settled round")


def check_metrics(basis: ReportBasis, metric: Metric) -> None:
    """What a client signs of the metric of a model lies within the metric's bounds."""
    for name, value in (("baseline", basis.baseline), ("measured", basis.measured)):
        if value is not None and not metric.can_be(value):
            bounds = f"{metric.lowest:g} to {metric.highest:g}"
            raise BrokenRuleError(f"its {name} must lie within the bounds of {metric.label}, {bounds}, got {value!r}")


def check_gain(basis: ReportBasis, gain: float, *, higher_is_better: bool, needs_metrics: bool = False) -> None:
    """What a client signs of the round's model and of the one that opened it gives the gain that it measured.

    With `needs_metrics`, nothing was gained where it did not sign both.
    """
    if basis.change is None:
        if needs_metrics and gain:
            raise BrokenRuleError(f"its gain must be 0 without both metrics that it is the change of, got {gain:.12g}")
        return
    change = basis.change if higher_is_better else -basis.change
    if not basis.is_gain(gain, change):
        raise BrokenRuleError(
            f"its gain must be the change of the metric that it signs, {change:.12g} from {basis.baseline!r} to "
            f"{basis.measured!r}, got {gain:.12g}"
        )


def _earlier_in(answer: Message) -> tuple[SignedReport, ...]:
    text = answer.fields.get("earlier")
    if not isinstance(text, str) or len(text) > LARGEST_LIST:
        raise ValueError("no list of a bearable length")
    return tuple(map(SignedReport.from_document, json.loads(text)))


def refusals_to_go_back(
    answers: Mapping[str, Message], ledger: LedgerInForce, settled: Collection[int] = ()
) -> dict[str, NoAnswer]:
    """Members that refuse to go back, and are absent. Raises if one of them proves that the ledger has gone back.

    `settled` are the rounds that this run has settled.
    """
    refusals = {}
    for client, answer in answers.items():
        if SAW_SETTLED not in answer.fields:
            continue
        seen, proof = answer.fields[SAW_SETTLED], answer.fields.get(PROOF)
        if type(seen) is not int or not 0 <= seen <= LARGEST_COUNT:
            seen = 0
        if isinstance(proof, str) and len(proof) <= LARGEST_PROOF:
            found = ledger.contradiction(proof.encode(errors="replace"), f"the statement of {client}")
            if found:
                raise FederationError(_gone_back(client, seen, found, settled))
        refusals[client] = NoAnswer(
            kind="refused", reason=f"it says that round {seen} was settled there, and does not go back behind it"
        )
    return refusals


def _settled_now(settled: Collection[int]) -> str:
    if not settled:
        return "Nothing was settled now, and nobody was eliminated."
    numbers = ", ".join(map(str, settled))
    return f"Before that was known, this run settled round {numbers} again: what it wrote does not count."


def _gone_back(client: str, seen: int, found: str, settled: Collection[int]) -> str:
    return (
        f"The ledger or the results folder is older than what was settled: {client} saw round {seen} settled, and can "
        f"prove it: {found}. {_settled_now(settled)} If a backup was restored, put back "
        f"the newer ledger and results folder, as they were after round {seen}. If those are lost, the members' "
        "statements are the evidence of what was settled: agree on the balances by them, and start again with a new "
        "ledger, another results folder and new member folders."
    )


def check_majority(
    refusing: Collection[str], asked: Collection[str], round_number: int, settled: Collection[int] = ()
) -> None:
    """Do not go on with the few who follow if most members refuse to go back, though none of them has a proof."""
    if 2 * len(refusing) > len(asked):
        raise FederationError(
            f"{len(refusing)} of {len(asked)} members refuse to go back to round {round_number}: "
            f"{', '.join(sorted(refusing)[:10])}. {_settled_now(settled)} If a backup of "
            "the ledger or of the results folder was restored, put back the newer one. If it is lost, agree with the "
            "members on what was settled, by their statements, and start again with a new ledger, another results "
            "folder and new member folders."
        )
