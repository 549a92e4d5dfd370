"""How a member answers the coordinator's questions, independent of the transport.

A round is open until the coordinator says that it was settled. What it changed (the metric that the next utility is
measured from, the memory of training) counts only then, so a round that was interrupted leaves no trace and can be run
again.
"""

from __future__ import annotations

import json
import math
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from commonweal.client.reporting import account, as_reported
from commonweal.errors import FederationError
from commonweal.ledger.member_documents import ROUND_LIMIT, ClientReport, WithdrawalNotice
from commonweal.ledger.node_keys import NodeKey
from commonweal.ledger.reports import ReportBasis, report_attempt
from commonweal.remote.member.contradictions import Contradictions
from commonweal.remote.member.going_back import refusal_to_go_back
from commonweal.remote.member.kept_statements import Kept, keep_statement
from commonweal.remote.member.local_work import ALGORITHM, LocalWork, combined, sent_measures, value_of
from commonweal.remote.member.member_file import Member, read_member
from commonweal.remote.member.peer_heads import PeerHeads
from commonweal.remote.member.pinned_settings import check_question, check_summary, is_first_measure, pin, pin_terms
from commonweal.remote.member.receipts import KeptReceipts
from commonweal.remote.member.report_book import ReportBook
from commonweal.remote.member.seen_entries import SeenEntries
from commonweal.remote.member.sent_models import keep_sent_models
from commonweal.remote.member.settled_rounds import (
    baseline_of,
    commit,
    commit_as_stated,
    recover,
    refuse_after_withdrawal,
    refuse_to_open_again,
)
from commonweal.remote.member.store import ERROR, MemberState, MemberStore, OpenRound
from commonweal.remote.member.told_gains import gains_in_words, own_gain, read_told
from commonweal.remote.messages.message import (
    CLOSE,
    EVALUATE,
    GRADIENT,
    LACKS,
    NUMBER,
    OPEN,
    RECEIPT,
    REPORT,
    SUMMARISE,
    TRAIN,
    Message,
    QuestionError,
    printable,
    signed_answer,
)
from commonweal.remote.messages.settings_hash import settings_hash
from commonweal.task.measured import Measured
from commonweal.task.records import Task

LONGEST_OUTCOME = 1000  # characters of it in the log


class MemberAgent:
    """Answers questions for one member, from its private figures and its own data."""

    def __init__(self, member: Member, task: Task, key: NodeKey) -> None:
        self._member = member
        self._task = task
        self._key = key
        self._store = MemberStore(member.home)
        self._local = LocalWork(member, task, self._store)

    def answer(self, kind: str, question: Message) -> Message:
        """The signed answer; raises `QuestionError` if this member cannot answer the question now."""
        answer = self._answer(kind, question)
        return signed_answer(answer, kind=kind, number=question.fields[NUMBER], key=self._key)

    def _answer(self, kind: str, question: Message) -> Message:
        fields = question.fields
        if fields["client"] != self._member.name:
            raise QuestionError(
                f"This SuperNode answers for {self._member.name!r}, but the question is for {fields['client']!r}. The "
                "operator's file must give each client the same name as the client's own file."
            )
        with self._store.locked():
            state = self._store.load()
            if state.book not in (None, fields["book"]):
                raise QuestionError(
                    f"This member's folder belongs to ledger {state.book[:16] if state.book else ''}…, but the "
                    f"question is about ledger {str(fields['book'])[:16]}…. Name another `home` in the member's file."
                )
            check_question(self._store, state, kind, fields)
            if (refusal := refusal_to_go_back(self._store, state, kind, fields)) is not None:
                if kind == CLOSE:  # evidence, if it contradicts those kept
                    self._store.log(self._keep_statement(fields).line)
                return refusal
            keep_sent_models(kind, question, state, self._store)
            lacking = self._store.lacks(fields.get("models", []))
            if lacking:
                return Message(fields={LACKS: lacking})
            return self._answers()[kind](question, state)

    def _answers(self) -> Mapping[str, Callable[[Message, MemberState], Message]]:
        return {
            SUMMARISE: self._summarise,
            OPEN: self._open,
            TRAIN: self._train,
            EVALUATE: self._evaluate,
            GRADIENT: self._gradient,
            REPORT: self._report,
            RECEIPT: self._receipt,
            CLOSE: self._close,
        }

    def _summarise(self, question: Message, state: MemberState) -> Message:
        """What the member's data look like, for everybody to agree on what they have in common."""
        from commonweal.client.work import told

        if self._task.summarise is None:
            raise FederationError("This federation's task has no function `summarise`. Ask the operator for its app.")
        with told("summarise", self._task.name, self._member.name, 1):
            summarised = self._task.summarise(self._local.task_member(question.fields, state))
            summary = json.dumps(summarised)
        check_summary(self._store, summarised)
        pin(self._store, state, question.fields)
        self._store.save(state)
        self._store.log(f"sent a summary of its data, {len(summary)} characters: {summary}")
        return Message(fields={"summary": summary})

    def _open(self, question: Message, state: MemberState) -> Message:
        """Load the round's new data, and measure the model that the round starts from."""
        fields = question.fields
        commit(self._store, state, fields)
        number = fields["round"]
        refuse_after_withdrawal(self._store, state, number)
        refuse_to_open_again(self._store, state, fields)
        (digest,) = fields["models"]
        older = recover(self._store, state, fields, client=self._member.name, key=self._key.public)
        state.agreed = json.loads(fields["agreed"])
        work = self._local.work(fields, digest)
        member = self._local.task_member(fields, state)
        data = work.load_all(member, number)
        pin(self._store, state, fields)
        pin_terms(self._store, state, fields)
        state.book = fields["book"]
        first_alone = digest if state.alone is None and fields["utility"] == "advantage" else None
        state.under_way = open_round = OpenRound(
            round_number=number,
            attempt=fields["attempt"],
            declared_count=data.newest.declared_count,
            cost_count=data.newest.cost_count,
            validation_count=len(data.validation[0]),
            opening=digest,
            terms=_terms(fields),
            memory=state.memory,
            alone=state.alone or first_alone,
            alone_memory=state.alone_memory,
            first_alone=first_alone,
        )
        notice = self._notice(fields)
        open_round.has_notice = bool(notice)
        evaluation = self._local.evaluated(work, member, data, self._store.get(digest), open_round)
        value = value_of(work, member, evaluation)
        is_first_measure(open_round, digest)
        open_round.accuracies[digest] = value
        self._local.keep_measure(fields, open_round, digest, work, member, evaluation)
        if state.baseline is None:
            open_round.first_baseline = value  # ε(n,0), once the round is settled
        elif not fields["has_baseline"]:
            self._store.log(
                f"round {number}: the coordinator has no record of what this member measured before; utility is still "
                f"measured from {_shown(state.baseline, work.metric.is_share)}"
            )
        notes = dict(data.newest.notes)
        if why := work.why_unmeasurable(member, evaluation):
            notes["unmeasurable"] = why
        self._look_around(fields)
        if contradiction := Contradictions(self._store).in_words():
            notes["contradiction"] = contradiction
        if older:
            notes["older-folder"] = older
            self._store.log(f"{ERROR} {older}")
        self._store.save(state)
        self._store.forget_all_but(
            [digest, state.memory, state.alone, state.alone_memory, *open_round.measures.values()]
        )
        self._store.log(
            f"round {number}: opened with {data.newest.declared_count} new samples, {len(data.training[0])} for "
            f"training and {len(data.validation[0])} for validation; the model's {work.metric.label} is "
            f"{_shown(value, work.metric.is_share)}"
        )
        return Message(
            fields={
                "sample_count": data.newest.declared_count,
                "training_count": len(data.training[0]),
                "validation_count": len(data.validation[0]),
                "withdrawal": notice,
                "notes": json.dumps(notes),
            },
            groups=sent_measures(work, member, [evaluation]),
        )

    def _train(self, question: Message, state: MemberState) -> Message:
        fields = question.fields
        open_round = self._open_round(state, fields)
        number, iteration = fields["round"], fields["iteration"]
        (digest,) = fields["models"]
        work = self._local.work(fields, digest)
        member = self._local.task_member(fields, state)
        data = work.load_all(member, number)
        memory, task_memory = self._local.memories(work, open_round.memory, digest)
        served = question.groups.get("served", {}).get("served")
        trained = work.train(
            member,
            number,
            iteration,
            data.training,
            shared=work.layout.pack(self._store.get(digest)),
            served=work.vector(served),
            memory=memory,
            task_memory=task_memory,
            defect=self._member.defect,
        )
        kept = dict(trained.task_memory)
        if trained.result.memory.numel():
            kept[ALGORITHM] = trained.result.memory.numpy()
        open_round.memory = self._store.put(kept) if kept else None
        open_round.steps[str(iteration)] = trained.step_count
        model = work.layout.unpack(trained.result.model)
        self._store.put(model)
        self._store.save(state)
        self._store.log(
            f"round {number}, iteration {iteration}: trained in {trained.step_count} steps, loss {trained.loss:.4g}"
        )
        groups = {"local": model}
        if work.algorithm.server_reads_memories:
            groups["memory"] = {"memory": trained.result.memory.numpy()}
        return Message(groups=groups)

    def _evaluate(self, question: Message, state: MemberState) -> Message:
        """Measure the `whole` models as sent, and those that `rows` describe as weighted averages of local models."""
        fields = question.fields
        open_round = self._open_round(state, fields)
        work = self._local.work(fields, (*fields["whole"], *fields["parts"])[0])
        member = self._local.task_member(fields, state)
        data = work.load_all(member, fields["round"])
        evaluations = []
        for digest in fields["whole"]:
            evaluation = self._local.evaluated(work, member, data, self._store.get(digest), open_round)
            if is_first_measure(open_round, digest):
                open_round.accuracies[digest] = value_of(work, member, evaluation)
                self._local.keep_measure(fields, open_round, digest, work, member, evaluation)
            evaluations.append(evaluation)
        if fields["parts"]:
            parts = [self._store.get(digest) for digest in fields["parts"]]
            for weights in question.groups["rows"]["rows"]:
                evaluations.append(self._local.evaluated(work, member, data, combined(parts, weights), open_round))
        self._store.save(state)
        return Message(groups=sent_measures(work, member, evaluations))

    def _gradient(self, question: Message, state: MemberState) -> Message:
        """The gradient of the mean smooth score of the validation samples: one number for each that is averaged."""
        fields = question.fields
        open_round = self._open_round(state, fields)
        (digest,) = fields["models"]
        work = self._local.work(fields, digest)
        member = self._local.task_member(fields, state)
        data = work.load_all(member, fields["round"])
        memory, task_memory = self._local.memories(work, open_round.memory, digest)
        gradient = work.gradient(
            member,
            fields["round"],
            work.layout.pack(self._store.get(digest)),
            data.validation,
            memory=memory,
            task_memory=task_memory,
        )
        count = len(data.validation[0])
        self._store.log(f"round {fields['round']}: sent the gradient of its mean score of {count} validation samples")
        return Message(groups={"gradient": {"gradient": gradient.numpy()}})

    def _report(self, question: Message, state: MemberState) -> Message:
        """The profit is logged with its parts, sent without them, and signed.

        A hostile member of a rehearsal reports another profit.
        """
        fields = question.fields
        open_round = self._open_round(state, fields)
        member, number = self._member, fields["round"]
        metric = self._local.metric(fields)
        now, baseline = open_round.accuracies[fields["adopted"]], baseline_of(state, open_round)
        assert baseline is not None, "opening a round sets the baseline"
        alone = self._local.alone(fields, state, open_round) if fields["utility"] == "advantage" else None
        told = read_told(fields, member.name, own_gain(self._store, open_round, fields["adopted"], metric))
        opening = open_round.accuracies.get(open_round.opening or "", math.nan)
        own = account(
            member,
            metric,
            now=_without_draws(now),
            before=_without_draws(baseline),
            sample_count=open_round.cost_count,
            step_count=sum(open_round.steps.values()),
            alone=None if alone is None else replace(alone, measured=_without_draws(alone.measured.value)),
            opening=_without_draws(opening),
            told=None if told is None else told.gain,
        )
        said = as_reported(own, member.reported_profit)
        reports = ReportBook(self._store, number)
        measured_from = alone.measured.value if alone is not None else baseline if told is None else opening
        report = ClientReport(
            ledger=fields["book"],
            round_number=number,
            client=member.name,
            profit=said.profit,
            sample_count=open_round.declared_count,
            gain=None if told is None else told.table.gain_of(member.name, said.expected_profit),
            basis=ReportBasis(
                number=reports.next_number,
                attempt=report_attempt(open_round.attempt, _valuation(fields)),
                model=fields["adopted"],
                opening_model=open_round.opening or "",
                baseline=None if math.isnan(measured_from) else measured_from,
                measured=None if alone is not None or math.isnan(now) else now,
                terms=_signed_terms(open_round),
                settings=settings_hash(state.pinned, state.agreed),
                entry=_entry(fields),
            ),
        )
        signed, is_new = reports.signed(report, self._key)
        groups = {}
        if alone is not None:
            groups["alone"] = {"values": np.array([alone.measured.value]), "draws": alone.measured.draws[None]}
        answer = replace(reports.answer(signed), groups=groups)
        KeptReceipts(self._store, member).expect(number, signed.signature)
        if not is_new:
            self._store.log(f"round {number}: sends report {signed.document['number']} again, as it was signed")
            return answer
        reference = (
            f"{_shown(baseline, metric.is_share)} before"
            if alone is None
            else f"{_shown(alone.measured.value, metric.is_share)} alone"
        )
        instead = "" if member.reported_profit is None else f" instead of {own.profit:+.6g}"
        spared = "" if own.alone_cost is None else f" + cost alone {own.alone_cost:.6g}"
        by_gain = "" if report.gain is None else gains_in_words(report.gain, metric)
        count = signed.document["number"]
        late = "" if (entry := _entry(fields)) is None else f", late, since entry {entry[:16]}… calls it silent,"
        again = "" if count == 1 else f" (report {count} of this round, which takes the place of those before it)"
        self._store.log(
            f"round {number}: will report{late} a profit of {report.profit:+.6g}{instead} and {report.sample_count} "
            f"new samples, signed{again}. Kept private: profit = utility {own.utility:+.6g} (unit value "
            f"{member.unit_value:g}, {metric.label} {reference} and {_shown(now, metric.is_share)} now) − cost "
            f"{own.cost:.6g} ({open_round.cost_count} samples, {sum(open_round.steps.values())} steps){spared}{by_gain}"
        )
        return answer

    def _close(self, question: Message, state: MemberState) -> Message:
        fields = question.fields
        kept = self._keep_statement(fields)
        if kept.is_kept:
            commit_as_stated(self._store, state, fields["statement"])
        commit(self._store, state, fields)
        self._store.save(state)
        told = printable(f"round {fields['round']}: {fields['outcome']}", limit=LONGEST_OUTCOME)
        self._store.log(f"{kept.line}; told with it: {told}" if kept.doubt else f"{told}; {kept.line}")
        return Message(fields={**kept.answer, "head": self._signed_head(fields, is_kept=kept.is_kept)})

    def _receipt(self, question: Message, state: MemberState) -> Message:
        fields = question.fields
        if type(fields["round"]) is not int or not 0 < fields["round"] <= ROUND_LIMIT:
            raise QuestionError(f"A receipt must be for a round, got {fields['round']!r}.")
        line = KeptReceipts(self._store, self._member).keep(
            fields["receipt"], ledger=fields["book"], round_number=fields["round"]
        )
        self._store.log(f"round {fields['round']}: {line}")
        return Message(fields={"kept": True})

    def _look_around(self, fields: Mapping[str, Any]) -> None:
        """Before a round: did receipts come for the reports of earlier ones, and do the others see the same ledger?"""
        for line in KeptReceipts(self._store, self._member).give_up(before=fields["round"]):
            self._store.log(line)
        for line in PeerHeads(self._store, self._member).compare(fields):
            self._store.log(line)

    def _signed_head(self, fields: Mapping[str, Any], *, is_kept: bool) -> str:
        """The last entry that the operator showed this member, signed for the others; empty if there is none."""
        seen = SeenEntries(self._store, self._member, fields["book"])
        for line in seen.learn(fields, is_kept=is_kept):
            self._store.log(line)
        for line in PeerHeads(self._store, self._member).compare_waiting(seen):
            self._store.log(line)
        head = seen.head()
        return "" if head is None else json.dumps(head.signed(self._key).to_document())

    def _keep_statement(self, fields: Mapping[str, Any]) -> Kept:
        return keep_statement(
            self._store, self._member, fields["statement"], ledger=fields["book"], round_number=fields["round"]
        )

    def _open_round(self, state: MemberState, fields: Mapping[str, Any]) -> OpenRound:
        open_round = state.under_way
        if open_round is None or (open_round.round_number, open_round.attempt) != (fields["round"], fields["attempt"]):
            raise QuestionError(
                f"Round {fields['round']} is not open here: it was interrupted or never opened. Open it first."
            )
        return open_round

    def _notice(self, fields: Mapping[str, Any]) -> str:
        """The signed notice that the member withdraws after this round; empty if it does not."""
        if not self._store.wants_to_withdraw:
            return ""
        notice = WithdrawalNotice(ledger=fields["book"], client=self._member.name, round_number=fields["round"])
        self._store.log(f"round {fields['round']}: sent notice of withdrawal after this round")
        return notice.signed(self._key)


def _terms(fields: Mapping[str, Any]) -> str:
    """The hash of the terms that a round is opened under; the member signs it with its report."""
    terms = fields.get("terms")
    if not isinstance(terms, str):
        raise QuestionError("The question must name the hash of the ledger's terms. Use the same version everywhere.")
    return terms


def _valuation(fields: Mapping[str, Any]) -> int:
    valuation = fields.get("valuation")
    if type(valuation) is not int or valuation < 1:
        raise QuestionError(f"The question must say how often the round was valued, got {valuation!r}.")
    return valuation


def _entry(fields: Mapping[str, Any]) -> str | None:
    """The hash of the entry that calls this member silent, where a late report is asked for."""
    entry = fields.get("entry")
    if entry is not None and not isinstance(entry, str):
        raise QuestionError(f"The question must name the entry that calls this member silent, got {entry!r}.")
    return entry


def _signed_terms(open_round: OpenRound) -> str:
    if open_round.terms is None:
        raise QuestionError(f"Round {open_round.round_number} was opened by another version here. Open it again.")
    return open_round.terms


def _without_draws(value: float) -> Measured:
    return Measured(value=value, draws=np.empty(0))


def _shown(value: float, is_share: bool) -> str:
    if not math.isfinite(value):
        return "not measurable"
    return f"{value:.1%}" if is_share else f"{value:.4g}"


def answer_question(member_file: Path, task: Task, kind: str, question: Message) -> Message:
    """The signed answer of the member in this file. A transport calls this for each question that arrives."""
    member = read_member(member_file)
    return MemberAgent(member, task, NodeKey.read(member.key_file)).answer(kind, question)


@contextmanager
def errors_kept_private(member_file: Path) -> Iterator[None]:
    """Keep the text of errors from the coordinator, since it may contain what the member keeps private.

    Frameworks would send it along. Here it goes to the member's log, and the coordinator learns only the kind of error.
    """
    try:
        yield
    except QuestionError:
        raise  # about the question, so nothing private
    except Exception as error:
        with suppress(Exception):
            MemberStore(read_member(member_file).home).log(f"{ERROR} {error}")
        traceback.print_exc()
        kind = type(error.__cause__ or error).__name__  # of the task's own error where it is one
        raise RuntimeError(f"{kind}; the member's own log has the details") from None
