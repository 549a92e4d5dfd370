"""What a client's report of a round rests on, and the reports of the same round that the client signed before it.

A round can take several attempts: a coordinator is started again, or a member is lost late and the others are valued
without it. A client signs one report per attempt and numbers its reports of a round 1, 2, ...; the last one counts.
The entry of the round lists all of them, so a missing number shows that the operator hides a report.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from commonweal.ledger.canonical import Document, canonical
from commonweal.ledger.keys import is_signed

BASED_REPORT_FORMATS = ("commonweal.report/3", "commonweal.report/4")
"""Of a client that signs what its report rests on: without the settings that it measured under, and with them."""
LATE_REPORT_FORMAT = "commonweal.report/5"
"""Of a client that was silent: it also signs the hash of the entry that says so, which is not there in time."""
REPORT_LIMIT = 20  # reports that a member signs for one round
_TEXTS = frozenset({"format", "book", "client", "attempt", "model", "opening_model", "terms"})
_FURTHER_TEXTS: Mapping[str, frozenset[str]] = {
    BASED_REPORT_FORMATS[0]: frozenset(),
    BASED_REPORT_FORMATS[1]: frozenset({"settings"}),
    LATE_REPORT_FORMAT: frozenset({"settings", "entry"}),
}
_NUMBERS = frozenset({"round", "number", "profit", "sample_count", "cost", "baseline"})  # or null
_TOLD = frozenset(  # numbers or null in reports that follow from gains; their field `gains` is a text
    {"gain", "validation_count", "squared_change", "pooled_gain", "expected_gain", "expected_profit"}
)
_LONGEST_TEXT = 1000
ROUNDING = 1e-9  # of metrics: processors round differently


def report_attempt(opening: str, valuation: int) -> str:
    """The attempt that a report names: the round's opening, and how often the round was valued since."""
    return f"{opening}/{valuation}"


def is_of_opening(attempt: str, opening: str) -> bool:
    return attempt.rpartition("/")[0] == opening


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedReport:
    """A report as its client signed it, whether or not the signature is valid."""

    document: Mapping[str, Any]
    signature: str

    def __post_init__(self) -> None:
        if not isinstance(self.document, dict) or not isinstance(self.signature, str):
            raise TypeError("a signed report is a table and a signature")

    def is_signed(self, public: str) -> bool:
        try:
            return is_signed(canonical(self.document), self.signature, public)
        except ValueError:  # a document without a canonical form cannot have been signed
            return False

    def to_document(self) -> Document:
        return {"report": dict(self.document), "signature": self.signature}

    @classmethod
    def from_document(cls, document: Document) -> SignedReport:
        """Raises KeyError or TypeError if it is damaged."""
        return cls(document=document["report"], signature=document["signature"])


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportBasis:
    """What a report rests on, apart from the figures in it."""

    number: int  # of the report, among those that the client signed for the round
    attempt: str  # of the round, as the coordinator names it
    model: str  # hash of the model that the profit was measured on
    opening_model: str  # hash of the model that opened the round
    baseline: float | None  # the metric that utility is measured from; None: it cannot be measured
    terms: str  # hash of the terms in force
    measured: float | None = None  # the metric of `model`, where utility is the gain
    settings: str | None = None  # hash of what the client measures by; None: earlier versions did not sign it
    entry: str | None = None  # hash of the entry that calls the client silent; only of a late report
    earlier: tuple[SignedReport, ...] = ()  # the client's reports of the round before this one

    def __post_init__(self) -> None:
        if type(self.number) is not int or self.number < 1:
            raise ValueError(f"a report's number must be at least 1, got {self.number!r}")
        for text in (self.attempt, self.model, self.opening_model, self.terms):
            if not isinstance(text, str):
                raise TypeError(f"an attempt and hashes must be texts, got {text!r}")
        for digest in (self.settings, self.entry):
            if digest is not None and not isinstance(digest, str):
                raise TypeError(f"a hash must be a text, got {digest!r}")
        for name in ("baseline", "measured"):
            value = getattr(self, name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (is_number and math.isfinite(value)):
                raise ValueError(f"{name} must be a finite number, got {value!r}")

    @property
    def change(self) -> float | None:
        """Of the metric, from the model that opened the round; None if one of both was not measured or not signed."""
        return None if self.measured is None or self.baseline is None else self.measured - self.baseline

    def is_gain(self, gain: float, change: float) -> bool:
        """Whether a gain is this change of the metric, up to the rounding of other processors."""
        return math.isclose(change, gain, rel_tol=ROUNDING, abs_tol=ROUNDING * max(1.0, abs(self.baseline or 0.0)))

    def goes_on_from(self, settled: Mapping[str, Any], *, gains_count: bool) -> bool:
        """Whether utility is measured from what the client signed of its last settled round, in this report.

        Where profits follow from gains (`gains_count`), a metric that was not signed does not let the client choose
        another baseline: it goes on from what it signed last. Other profits are its word.
        """
        if gains_count:
            return self.baseline == went_on_to(settled)
        measured = settled.get("measured")
        return None in (self.measured, measured) or self.baseline == measured

    @property
    def signed_fields(self) -> Document:
        """Its part of the message that the client signs."""
        form = BASED_REPORT_FORMATS[self.settings is not None] if self.entry is None else LATE_REPORT_FORMAT
        return {**self._own_fields(), "terms": self.terms, "format": form}

    def to_document(self) -> Document:
        """As an input of a round's entry states it. The terms' hash is the whole round's."""
        return {**self._own_fields(), "earlier": [report.to_document() for report in self.earlier]}

    @classmethod
    def from_document(cls, document: Document, terms: str) -> ReportBasis:
        """Raises KeyError, TypeError or ValueError if it is damaged."""
        if not isinstance(document["earlier"], list):
            raise TypeError(f"earlier reports must be a list, got {document['earlier']!r}")
        earlier = tuple(map(SignedReport.from_document, document["earlier"]))
        names = ("number", "attempt", "model", "opening_model", "baseline")
        rests_on = {name: document[name] for name in names}
        rests_on |= {name: document.get(name) for name in ("measured", "settings")}
        return cls(**rests_on, terms=terms, earlier=earlier)

    def _own_fields(self) -> dict[str, Any]:
        fields = {
            "number": self.number,
            "attempt": self.attempt,
            "model": self.model,
            "opening_model": self.opening_model,
            "baseline": self.baseline,
        }
        later = {"measured": self.measured, "settings": self.settings, "entry": self.entry}
        return fields | {name: value for name, value in later.items() if value is not None}


def went_on_to(report: Mapping[str, Any]) -> float | None:
    """What the next gain is measured from: the metric of the model, or if it was not signed, what this one was."""
    measured: float | None = report.get("measured")
    baseline: float | None = report["baseline"]
    return baseline if measured is None else measured


@dataclass(frozen=True, slots=True)
class ReportFault:
    """A rule that the reports of a round break."""

    rule: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.rule}: expected {self.expected}, found {self.found}"


def bases_in(body: Mapping[str, Any]) -> dict[str, ReportBasis]:
    """What the reports of a settled round rest on, by client; empty for rounds in which clients did not sign it.

    Raises KeyError, TypeError or ValueError if it is damaged.
    """
    return {
        row["client"]: ReportBasis.from_document(row["report"], body["terms"])
        for row in body["inputs"]
        if "report" in row
    }


def unused_in(body: Mapping[str, Any]) -> dict[str, tuple[SignedReport, ...]]:
    """The reports of a settled round by clients that are absent from it in the end, in order.

    Raises KeyError or TypeError if they are damaged.
    """
    found: dict[str, tuple[SignedReport, ...]] = {}
    for row in body.get("unused_reports", ()):
        found[row["client"]] = (*found.get(row["client"], ()), SignedReport.from_document(row))
    return found


def faults_of_reports(
    bases: Mapping[str, ReportBasis],
    keys: Mapping[str, str | None],
    *,
    ledger: str,
    round_number: int,
    terms: str,
    stated_terms: Collection[str],
    has_gains: bool | None = None,
) -> list[ReportFault]:
    """What is wrong with the reports of a round; `keys` are those of its clients, `terms` the hash of those in force.

    `stated_terms` are the hashes of all terms that the ledger has stated: an attempt may have been interrupted by an
    amendment. `has_gains` says whether profits of the round follow from gains that clients were told; None: not
    compared. The signatures of the reports that count are checked with their figures.
    """
    if not bases:
        return []
    faults = []
    first_client, first = next(iter(bases.items()))
    setting = next(((client, basis.settings) for client, basis in bases.items() if basis.settings is not None), None)
    for client, basis in bases.items():
        for name in ("attempt", "model", "opening_model"):
            expected, found = getattr(first, name), getattr(basis, name)
            if found != expected:
                what = f"the {name.replace('_', ' ')}"
                faults.append(
                    ReportFault(
                        f"all reports that count are of one attempt: {what}",
                        f"{_short(expected)} as in the report of {first_client}",
                        f"{_short(found)} in that of {client}",
                    )
                )
        if setting is not None and basis.settings not in (None, setting[1]):
            faults.append(
                ReportFault(
                    "all clients measure by the same settings",
                    f"{_short(setting[1])} as in the report of {setting[0]}",
                    f"{_short(basis.settings)} in that of {client}",
                )
            )
        if basis.terms != terms:
            faults.append(
                ReportFault("reports name the terms in force", _short(terms), f"{_short(basis.terms)} by {client}")
            )
        faults += _faults_of_earlier(client, basis, keys.get(client), ledger, round_number, stated_terms)
        told = ["gains" in report.document for report in basis.earlier]
        if has_gains is not None and told.count(has_gains) < len(told):
            kinds = ("as measured", "by gains that were told")
            faults.append(
                ReportFault(
                    "all reports of a round use one kind of figures",
                    f"profits {kinds[has_gains]} in the reports of {client}",
                    f"one {kinds[not has_gains]}",
                )
            )
    return faults


def _faults_of_earlier(
    client: str,
    basis: ReportBasis,
    key: str | None,
    ledger: str,
    round_number: int,
    stated_terms: Collection[str],
) -> list[ReportFault]:
    for report in basis.earlier:  # before anything else is read of them: a client signs what it likes
        form = report.document.get("format")
        odd = odd_field(report.document) if isinstance(form, str) and form in _FURTHER_TEXTS else "format"
        if odd is not None:
            rule = "an earlier report has the fields of its format"
            return [ReportFault(rule, f"a report of {client} as commonweal writes it", f"another {ascii(odd)[:80]}")]
    faults = []
    numbers = [report.document["number"] for report in basis.earlier]
    if len(numbers) != basis.number - 1 or numbers != list(range(1, basis.number)):
        faults.append(
            ReportFault(
                "all reports that a client signed for a round are listed",
                f"reports 1 to {basis.number} of {client}",
                f"numbers {', '.join(map(str, [*numbers, basis.number]))}",
            )
        )
    attempts = [basis.attempt, *(report.document["attempt"] for report in basis.earlier)]
    if len(set(attempts)) < len(attempts):
        faults.append(ReportFault("a client reports once per attempt", f"one report of {client}", "several"))
    wanted = {"book": ledger, "round": round_number, "client": client}
    for number, report in enumerate(basis.earlier, 1):
        other = next((name for name, value in wanted.items() if report.document[name] != value), None)
        if other is not None:
            found = f"{other} {report.document[other]!r}"
            faults.append(ReportFault("earlier reports are of this round", f"a report of {client}", found))
        elif key is None or not report.is_signed(key):
            rule = "an earlier report is signed by its client"
            faults.append(ReportFault(rule, f"a signature by {client}", "another signature"))
        elif stated_terms and report.document["terms"] not in stated_terms:
            rule, found = "earlier reports name terms that the ledger has stated", _short(report.document["terms"])
            faults.append(ReportFault(rule, "such terms", f"{found} in report {number} of {client}"))
    return faults


def faults_of_unused(
    client: str,
    reports: tuple[SignedReport, ...],
    key: str | None,
    *,
    attempt: str | None,
    ledger: str,
    round_number: int,
    stated_terms: Collection[str],
) -> list[ReportFault]:
    """What is wrong with the reports of a client that is absent in the end, though it reported the round before.

    `attempt` is that of the reports that count; these must be of earlier valuations, the last one of the same opening.
    They are checked as the earlier reports of one that never came.
    """
    never_came = ReportBasis(
        number=len(reports) + 1,
        attempt=attempt or "",
        model="",
        opening_model="",
        baseline=None,
        terms="",
        earlier=reports,
    )
    faults = _faults_of_earlier(client, never_came, key, ledger, round_number, stated_terms)
    if not faults and not (reports and attempt and is_valued_before(reports[-1].document["attempt"], attempt)):
        found = f"one of attempt {_short(reports[-1].document['attempt'])}" if reports else "none"
        rule = "who reported and is absent is asked again in a later valuation of the same opening"
        faults.append(ReportFault(rule, f"a report of {client} before {attempt}", found))
    return faults


def is_valued_before(one: str, other: str) -> bool:
    """Whether an attempt is an earlier valuation of the same opening than another one."""
    opening, _, valuation = one.rpartition("/")
    its_opening, _, its_valuation = other.rpartition("/")
    digits = all(each.isascii() and each.isdigit() and len(each) < 10 for each in (valuation, its_valuation))
    return opening == its_opening and digits and int(valuation) < int(its_valuation)


def odd_field(document: Mapping[str, Any]) -> str | None:
    """A field that a report of this format lacks, should not have, or has with another type; None if there is none."""
    texts = _TEXTS | ((_FURTHER_TEXTS[document["format"]] | {"gains"}) & document.keys())
    numbers = _NUMBERS | (_TOLD if "gains" in document else set()) | ({"measured"} & document.keys())
    for name in sorted(texts | numbers | (document.keys() - {"further"})):
        value = document.get(name)
        if name not in document or not (_is_text(value) if name in texts else name in numbers and _is_number(value)):
            return name
    further = document.get("further", {})
    is_flat = isinstance(further, dict) and all(map(_is_text, further)) and all(map(_is_number, further.values()))
    return None if is_flat else "further"


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable() and len(value) <= _LONGEST_TEXT


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _short(text: str) -> str:
    return text if len(text) <= 24 else f"{text[:16]}…"
