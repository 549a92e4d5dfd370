"""Asking members that fell silent for the report that they owe, when they are back.

The member's round is still open at home, since it got no further model; if its folder was restored since, it opens the
round by what the question says of it. It is asked to evaluate the model that it had then, which is sent again if it was
lost, and to report on that. In its first round it may be asked to evaluate the model that opened the round, too: it has
no earlier round to measure its gain from. The report is numbered like one of another attempt. Its profit is as
measured, also where others were told pooled gains: the round is settled, and nothing in it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from commonweal.federation.client_set import LateReport, State
from commonweal.ledger.member_documents import ClientReport
from commonweal.ledger.reports import report_attempt
from commonweal.records.rounds import GAIN
from commonweal.remote.coordinator.answer_rules import (
    MOST_VALIDATION_SAMPLES,
    BrokenRuleError,
    number_in,
    profit_in,
    text_in,
)
from commonweal.remote.coordinator.attempts import ReportQuestion
from commonweal.remote.messages.answer_limit import AnswerLimit, GroupLimit
from commonweal.remote.messages.message import EVALUATE, LACKS, MODEL, REPORT, Message, printable
from commonweal.remote.transport import Answers
from commonweal.task.records import Model
from commonweal.valuation.bootstrap import DRAW_COUNT

_ARRAYS = "owed/"  # prefix of the models among the arrays of a checkpoint

ALONE = AnswerLimit(groups={"alone": GroupLimit.of_doubles(1, DRAW_COUNT)})

Put = Callable[[str, Mapping[str, Message]], Answers]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwedReport:
    """The report that a member owes, and what it must rest on."""

    round_number: int
    attempt: str  # names the opening of the round
    valuation: int  # of the late report if nothing was reversed: one more than the last one in which it was asked
    model: str  # hash
    opening_model: str
    terms: str
    sample_count: int
    rates: str | None = None  # that its profit is to follow from, as the question tells them; None: profits are private


def _rates_of(owed: OwedReport) -> dict[str, Any]:
    return {} if owed.rates is None else {"rates": owed.rates}


def _measures(model_count: int) -> AnswerLimit:
    computed = GroupLimit.of_doubles(model_count, DRAW_COUNT)
    scores = GroupLimit.of_doubles(model_count, MOST_VALIDATION_SAMPLES)
    return AnswerLimit(groups={"scores": scores, "measured": computed, "smooth": computed})


class LateReports:
    """The reports that members owe, by member; `keys` are the members' public keys."""

    def __init__(self, ledger: str, keys: Mapping[str, str], say: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._say = say
        self._keys = keys
        self._owed: dict[str, OwedReport] = {}
        self._models: dict[str, Model] = {}  # by hash: those that members are asked to evaluate

    def remember(self, client: str, owed: OwedReport, model: Model, opening: Model | None) -> None:
        """`opening` is the model that opened the round, if it is the member's first."""
        self._owed[client] = owed
        self._models[owed.model] = model
        if opening is not None:
            self._models[owed.opening_model] = opening

    def forget(self, client: str) -> None:
        """The client takes part again."""
        self._owed.pop(client, None)
        self._forget_models()

    def ask(
        self,
        owing: Mapping[str, list[int]],
        put: Put,
        common: Callable[[str], dict[str, Any]],
        bounds: Callable[[str], tuple[float, float]],
        settings: str,
        entry_of: Callable[[int], str],
        reversals_before: Callable[[int], int],
        stated_terms: Collection[str],
        refuses: Callable[[str, int, Mapping[str, Any], str], str],
    ) -> list[LateReport]:
        """Ask members that owe reports of these rounds; returns those that came and count.

        `settings` is the hash of what members measure by, `entry_of` gives that of the entry that settled a round,
        `reversals_before` how many entries were reversed before that one; `stated_terms` are the hashes of all terms of
        the ledger. `refuses` says why the ledger would not take a report: one without a receipt is no evidence against
        the operator.
        """
        asked = {
            # A round that was reversed and settled again has another entry, so the late report is another attempt.
            c: replace(owed, valuation=owed.valuation + reversals_before(owed.round_number))
            for c in owing
            if (owed := self._owed.get(c)) and owed.round_number in owing[c]
        }

        def question(client: str, limit: AnswerLimit, *, with_model: bool = False, **fields: Any) -> Message:
            owed, models = asked[client], fields.get("whole", [asked[client].model])
            opened = {"round": owed.round_number, "attempt": owed.attempt, "models": models}
            groups = {MODEL + digest: self._models[digest] for digest in models} if with_model else {}
            return Message(fields=common(client) | opened | fields, groups=groups, limit=limit)

        def evaluation(client: str, *, with_model: bool = False) -> Message:
            owed = asked[client]
            whole = [digest for digest in dict.fromkeys((owed.model, owed.opening_model)) if digest in self._models]
            about = {"whole": whole, "parts": [], "opening_model": owed.opening_model, "terms": owed.terms}
            return question(client, _measures(len(whole)), with_model=with_model, **about)

        answers = put(EVALUATE, {client: evaluation(client) for client in asked})
        given, missing = dict(answers.given), {client: why.reason for client, why in answers.missing.items()}
        lacking = [client for client, answer in given.items() if LACKS in answer.fields]
        again = put(EVALUATE, {client: evaluation(client, with_model=True) for client in lacking})
        given |= again.given
        missing |= {client: why.reason for client, why in again.missing.items()}
        ready = [client for client, answer in given.items() if LACKS not in answer.fields and client not in missing]
        reports = put(
            REPORT,
            {
                c: question(
                    c,
                    ALONE,
                    adopted=asked[c].model,
                    valuation=asked[c].valuation,
                    entry=entry_of(asked[c].round_number),
                    **_rates_of(asked[c]),
                )
                for c in ready
            },
        )
        missing |= {client: why.reason for client, why in reports.missing.items()}
        found = []
        for client, answer in reports.given.items():
            try:
                entry = entry_of(asked[client].round_number)
                late = self._read(client, asked[client], answer, bounds(client), settings, entry, stated_terms)
            except BrokenRuleError as error:
                missing[client] = str(error)
                continue
            if refusal := refuses(late.client, late.round_number, late.document, late.signature):
                missing[client] = refusal
            else:
                found.append(late)
        for client, reason in missing.items():
            number = asked[client].round_number
            self._say(printable(f"{client} was asked for its report of round {number}, which did not come: {reason}"))
        for late in found:
            del self._owed[late.client]
        self._forget_models()
        return found

    def _read(
        self,
        client: str,
        owed: OwedReport,
        answer: Message,
        bounds: tuple[float, float],
        settings: str,
        entry: str,
        stated_terms: Collection[str],
    ) -> LateReport:
        rests_on = ReportQuestion(
            ledger=self._ledger,
            round_number=owed.round_number,
            attempt=report_attempt(owed.attempt, owed.valuation),
            model=owed.model,
            opening_model=owed.opening_model,
            terms=owed.terms,
            settings=settings,
            stated_terms=stated_terms,
            entry=entry,
        )
        report = ClientReport(
            ledger=self._ledger,
            round_number=owed.round_number,
            client=client,
            profit=profit_in(answer, bounds),
            sample_count=owed.sample_count,
            further={} if owed.rates is None else {GAIN: number_in(answer, GAIN)},
            basis=rests_on.basis_in(answer, client, self._keys[client]),
        )
        signature = text_in(answer, "signature")
        if not report.is_signed(signature, self._keys[client]):
            raise BrokenRuleError("its report was not signed with the key of its SuperNode")
        return LateReport(
            client=client, round_number=owed.round_number, document=report.document(), signature=signature
        )

    def _forget_models(self) -> None:
        needed = {digest for owed in self._owed.values() for digest in (owed.model, owed.opening_model)}
        self._models = {digest: model for digest, model in self._models.items() if digest in needed}

    def save(self) -> dict[str, Any]:
        return {client: asdict(owed) for client, owed in self._owed.items()}

    def arrays(self) -> dict[str, Any]:
        """The models, as arrays of a checkpoint."""
        return {f"{_ARRAYS}{d}/{name}": array for d, model in self._models.items() for name, array in model.items()}

    def restore(self, saved: Mapping[str, Any], state: State) -> None:
        self._owed = {client: OwedReport(**owed) for client, owed in saved.items()}
        self._models = {}
        for name, array in state.items():
            if name.startswith(_ARRAYS):
                digest, _, own = name.removeprefix(_ARRAYS).partition("/")
                self._models.setdefault(digest, {})
                self._models[digest] = {**self._models[digest], own: array}
