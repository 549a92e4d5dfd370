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
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from commonweal.client.reporting import Alone, ClientAccount, account, as_reported, rated_account
from commonweal.errors import FederationError
from commonweal.ledger.member_documents import ClientReport, WithdrawalNotice
from commonweal.ledger.node_keys import NodeKey
from commonweal.ledger.reports import ReportBasis, SignedReport, report_attempt
from commonweal.records import Rates
from commonweal.records.rounds import GAIN
from commonweal.records.statement import StatementLine
from commonweal.remote.member.contradictions import Contradictions
from commonweal.remote.member.evidence import Evidence, keep_failed
from commonweal.remote.member.going_back import refusal_to_go_back
from commonweal.remote.member.kept_statements import kept_lines
from commonweal.remote.member.late_opening import may_open_late, open_late
from commonweal.remote.member.local_work import ALGORITHM, LocalWork, combined, sent_measures, value_of
from commonweal.remote.member.member_file import Member, read_member
from commonweal.remote.member.peer_heads import PeerHeads
from commonweal.remote.member.pinned_settings import (
    check_addressed,
    check_iteration,
    check_question,
    check_summary,
    is_first_measure,
    measured_by,
    pin,
    pin_terms,
)
from commonweal.remote.member.receipts import KeptReceipts
from commonweal.remote.member.report_book import ReportBook, settled_report
from commonweal.remote.member.sent_models import keep_sent_models
from commonweal.remote.member.settled_rounds import (
    baseline_of,
    commit,
    keep_reported,
    recover,
    refuse_after_withdrawal,
    refuse_to_open_again,
    refuse_unadopted,
)
from commonweal.remote.member.store import ERROR, MemberState, MemberStore, OpenRound
from commonweal.remote.member.told_gains import check_figures, gains_in_words, own_gain, read_told
from commonweal.remote.member.told_rates import read_rates
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
    signed_answer,
)
from commonweal.remote.messages.settings_hash import settings_hash
from commonweal.task.measured import Measured, gain_over
from commonweal.task.metrics import Metric
from commonweal.task.records import Task

if TYPE_CHECKING:  # it imports torch
    from commonweal.client.work import ClientWork

_IN_A_ROUND = (TRAIN, EVALUATE, GRADIENT, REPORT)  # questions about a round that is open


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
        """Evidence is taken in first, whatever else a question says; then come its own wishes.

        Until a round was opened, no ledger is this member's: evidence of another one would stand in the way for good.
        """
        fields = question.fields
        with self._store.locked():
            state = self._store.load()
            is_first = state.book is None
            if is_first:
                check_addressed(self._store, state, self._member.name, kind, fields)
            evidence = Evidence(self._store, self._member, state, {**fields, "book": state.book or fields["book"]})
            evidence.catch_up()
            kept = None if is_first else evidence.take(kind)
            check_addressed(self._store, state, self._member.name, kind, fields)
            own = self._settled_report(fields)
            if (refusal := refusal_to_go_back(self._store, state, kind, fields, evidence.incoming, own)) is not None:
                return replace(refusal, fields={**({} if kept is None else kept.answer), **refusal.fields})
            check_question(self._store, state, kind, question, own)
            if kind in _IN_A_ROUND:
                self._check_open(state, kind, fields)
            keep_sent_models(kind, question, state, self._store)
            if kind == CLOSE and kept is not None:
                if kept.is_kept:  # else the lines before it may come first, and say which attempt was settled
                    self._commit(state, fields)
                    self._store.save(state)
                told = {**kept.answer, "head": evidence.signed_head(self._key)}
                if contradiction := Contradictions(self._store).in_words():
                    told["contradiction"] = contradiction
                return Message(fields=told)
            lacking = self._store.lacks(fields.get("models", []))
            if lacking:
                return Message(fields={LACKS: lacking})
            if is_first and kind == OPEN:
                evidence.remember(kind)
            answer = self._answers()[kind](question, state)
            if kind == OPEN:
                if is_first:
                    evidence.take(kind)
                answer = replace(answer, fields={**answer.fields, "head": evidence.latest_head(self._key)})
            return answer

    def _answers(self) -> Mapping[str, Callable[[Message, MemberState], Message]]:
        return {
            SUMMARISE: self._summarise,
            OPEN: self._open,
            TRAIN: self._train,
            EVALUATE: self._evaluate,
            GRADIENT: self._gradient,
            REPORT: self._report,
            RECEIPT: lambda question, state: Message(fields={"kept": True}),  # it was taken in with the evidence
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
        self._commit(state, fields)
        number = fields["round"]
        refuse_after_withdrawal(self._store, state, number)
        refuse_to_open_again(self._store, state, fields)
        (digest,) = fields["models"]
        last = state.settled_round
        older = self._recover(state, fields)
        refuse_unadopted(self._store, state, number)
        self._agree(state, fields)
        if fields["settled_round"] > last and (older or state.alone is None):
            self._local.train_alone_since(last, fields, state)
        work = self._local.work(fields, digest)
        member = self._local.task_member(fields, state)
        data = work.load_all(member, number)
        pin(self._store, state, fields)
        pin_terms(self._store, state, fields)
        state.book = fields["book"]
        first_alone = digest if state.alone is None and fields["utility"] == "advantage" else None
        keep_reported(self._store, state)
        state.under_way = open_round = OpenRound(
            round_number=number,
            attempt=fields["attempt"],
            declared_count=data.newest.declared_count,
            cost_count=data.newest.cost_count,
            validation_count=len(data.validation[0]),
            opening=digest,
            terms=fields["terms"],
            memory=state.memory,
            alone=state.alone or first_alone,
            alone_memory=state.alone_memory,
            first_alone=first_alone,
        )
        notice = self._notice(fields)
        open_round.has_notice = bool(notice)
        if notice and number not in state.notices:
            state.notices.append(number)
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
        self._look_around(fields, state.told_round)
        if contradiction := Contradictions(self._store).in_words():
            notes["contradiction"] = contradiction
        if older:
            notes["older-folder"] = older
        self._store.save(state)
        self._store.forget_all_but(state.arrays())
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

    def _commit(self, state: MemberState, fields: Mapping[str, Any]) -> None:
        commit(self._store, state, fields, self._settled_report(fields), lambda: self._kept_lines(fields))

    def _recover(self, state: MemberState, fields: Mapping[str, Any]) -> str:
        """Go on from what this member signed, if its folder was restored; returns what happened, or nothing."""
        older = recover(self._store, state, fields, self._settled_report(fields), lambda: self._kept_lines(fields))
        if older:
            self._store.log(f"{ERROR} {older}")
        return older

    def _agree(self, state: MemberState, fields: Mapping[str, Any]) -> None:
        """Go by what the members' data are said to have in common now."""
        agreed = json.loads(fields["agreed"])
        if state.under_way is not None and agreed != state.agreed:  # possible until a round is settled
            self._store.log(
                f"round {fields['round']}: what the members' data have in common is told otherwise than before. Unless "
                "other members were there then, ask the operator"
            )
        state.agreed = agreed

    def _settled_report(self, fields: Mapping[str, Any]) -> SignedReport | None:
        return settled_report(fields, client=self._member.name, key=self._key.public)

    def _kept_lines(self, fields: Mapping[str, Any]) -> list[StatementLine]:
        return kept_lines(self._store, self._member, fields["book"])

    def _train(self, question: Message, state: MemberState) -> Message:
        """Each iteration is trained once: what it costs is reported, and must not grow by being asked again."""
        fields, open_round = question.fields, _under_way(state)
        number, iteration = fields["round"], fields["iteration"]
        (digest,) = fields["models"]
        work = self._local.work(fields, digest)
        if iteration == len(open_round.steps) and open_round.last_trained[:1] == [digest]:
            return self._trained(work, open_round)
        if ReportBook(self._store, number).has_opening(open_round.attempt):
            raise QuestionError(f"Attempt {open_round.attempt} of round {number} was reported, and is trained no more.")
        check_iteration(open_round, iteration, fields)
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
        open_round.last_trained = [digest, self._store.put(work.layout.unpack(trained.result.model))]
        self._store.save(state)
        self._store.log(
            f"round {number}, iteration {iteration}: trained in {trained.step_count} steps, loss {trained.loss:.4g}"
        )
        return self._trained(work, open_round)

    def _trained(self, work: ClientWork, open_round: OpenRound) -> Message:
        """What was trained in the last iteration, as it was stored."""
        groups = {"local": self._store.get(open_round.last_trained[1])}
        if work.algorithm.server_reads_memories:
            groups["memory"] = {"memory": self._store.get(open_round.memory)[ALGORITHM]}
        return Message(groups=groups)

    def _evaluate(self, question: Message, state: MemberState) -> Message:
        """Measure the `whole` models as sent, and those that `rows` describe as weighted averages of local models."""
        fields, is_late = question.fields, not _is_open(state, question.fields)
        if is_late:
            self._catch_up_for_late(state, fields)
        work = self._local.work(fields, (*fields["whole"], *fields["parts"])[0])
        member = self._local.task_member(fields, state)
        data = work.load_all(member, fields["round"])
        if is_late:
            open_late(self._store, state, fields, data)
        open_round, evaluations = _under_way(state), []
        for digest in fields["whole"]:
            evaluation = self._local.evaluated(work, member, data, self._store.get(digest), open_round)
            if is_first_measure(open_round, digest):
                open_round.accuracies[digest] = value_of(work, member, evaluation)
                self._local.keep_measure(fields, open_round, digest, work, member, evaluation)
            evaluations.append(evaluation)
        if baseline_of(state, open_round) is None:  # the round was opened late
            open_round.first_baseline = open_round.accuracies.get(fields.get("opening_model", ""), math.nan)
        if fields["parts"]:
            parts = [self._store.get(digest) for digest in fields["parts"]]
            for weights in question.groups["rows"]["rows"]:
                evaluations.append(self._local.evaluated(work, member, data, combined(parts, weights), open_round))
        self._store.save(state)
        return Message(groups=sent_measures(work, member, evaluations))

    def _catch_up_for_late(self, state: MemberState, fields: Mapping[str, Any]) -> None:
        """Before a round is opened late: know what was settled before it, as if the round were opened in time."""
        if not fields.keys() >= {"settled_round", "settled_attempt", "settled_model", "agreed"}:
            return  # asked by an earlier version
        last = state.settled_round
        self._commit(state, fields)
        older = self._recover(state, fields)
        is_own = measured_by(self._store, state, fields, json.loads(fields["agreed"]), self._settled_report(fields))
        if not state.settled_round or not state.agreed or is_own:
            self._agree(state, fields)
        if state.settled_round > last and (older or state.alone is None):
            self._local.train_alone_since(last, fields, state)

    def _gradient(self, question: Message, state: MemberState) -> Message:
        """The gradient of the mean smooth score of the validation samples: one number for each that is averaged."""
        fields, open_round = question.fields, _under_way(state)
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

        A hostile member of a rehearsal reports another profit. By agreed rates the profit follows from what was
        measured, and what the round was really worth to the member is only logged.
        """
        fields, open_round = question.fields, _under_way(state)
        member, number = self._member, fields["round"]
        metric = self._local.metric(fields)
        if fields["adopted"] not in open_round.accuracies:
            raise QuestionError(f"Model {fields['adopted'][:16]}… was not measured here in round {number}.")
        if fields.get("entry") is not None and number not in state.missed_rounds:
            raise QuestionError(
                f"A late report of round {number} was asked for, but no statement that is kept here says that the "
                "round was settled without this member."
            )
        if fields.get("entry") is None and number in state.missed_rounds:
            raise QuestionError(
                f"Round {number} was settled without this member, so a late report must name the entry that says so."
            )
        KeptReceipts(self._store, member).check_all_kept(number)
        figures = state.pinned.get("figures", "measured")
        check_figures(fields, figures, is_late=number in state.missed_rounds)
        now, baseline = open_round.accuracies[fields["adopted"]], baseline_of(state, open_round)
        assert baseline is not None, "opening a round sets the baseline"
        alone = self._local.alone(fields, state, open_round) if fields["utility"] == "advantage" else None
        told = read_told(fields, member.name, own_gain(self._store, open_round, fields["adopted"], metric), figures)
        rates = read_rates(self._store, state, member, fields, _signed_terms(open_round))
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
            told=None if told is None or rates is not None else told.gain,
        )
        said, further = as_reported(own, member.reported_profit), {}
        if rates is not None:
            reference = baseline if alone is None else alone.measured.value
            gain, no_draws = gain_over(_without_draws(reference), _without_draws(now), metric)
            further = {GAIN: gain} if told is None else {}
            said = rated_account(
                rates,
                gain=gain,
                gain_draws=no_draws,
                sample_count=open_round.declared_count,
                is_advantage=alone is not None,
                told=None if told is None else told.gain,
            )
        reports = ReportBook(self._store, number)
        measured_from = alone.measured.value if alone is not None else baseline if told is None else opening
        report = ClientReport(
            ledger=fields["book"],
            round_number=number,
            client=member.name,
            profit=said.profit,
            sample_count=open_round.declared_count,
            gain=None if told is None else told.table.gain_of(member.name, said.expected_profit),
            further=further,
            basis=ReportBasis(
                number=reports.next_number,
                attempt=report_attempt(open_round.attempt, fields["valuation"]),
                model=fields["adopted"],
                opening_model=open_round.opening or "",
                baseline=None if math.isnan(measured_from) else measured_from,
                measured=None if alone is not None or math.isnan(now) else now,
                terms=_signed_terms(open_round),
                settings=settings_hash(state.pinned, state.agreed),
                entry=fields.get("entry"),
            ),
        )
        groups = {}
        if alone is not None:
            groups["alone"] = {"values": np.array([alone.measured.value]), "draws": alone.measured.draws[None]}
        signed = reports.of_attempt(report)
        if signed is not None:
            self._store.log(f"round {number}: sends report {signed.document['number']} again, as it was signed")
        else:
            self._log_report(report, own, metric, rates, baseline=baseline, now=now, alone=alone, open_round=open_round)
            self._store.save(state)
            signed = reports.sign(report, self._key)
        KeptReceipts(self._store, member).expect(number, signed.signature)
        return replace(reports.answer(signed), groups=groups)

    def _log_report(
        self,
        report: ClientReport,
        own: ClientAccount,
        metric: Metric,
        rates: Rates | None,
        *,
        baseline: float,
        now: float,
        alone: Alone | None,
        open_round: OpenRound,
    ) -> None:
        """Say what is about to be signed and how it was computed; after a crash it may be said twice."""
        member = self._member
        reference = (
            f"{_shown(baseline, metric.is_share)} before"
            if alone is None
            else f"{_shown(alone.measured.value, metric.is_share)} alone"
        )
        instead = "" if member.reported_profit is None else f" instead of {own.profit:+.6g}"
        private = "profit"
        if rates is not None:
            instead = f" by the agreed rates, {rates.in_words},"
            private = f"what it made by its own figures is {own.profit:+.6g}"
        spared = "" if own.alone_cost is None else f" + cost alone {own.alone_cost:.6g}"
        by_gain = "" if report.gain is None else gains_in_words(report.gain, metric)
        assert report.basis is not None, "a member signs what its report rests on"
        count, entry = report.basis.number, report.basis.entry
        late = "" if entry is None else f", late, since entry {entry[:16]}… calls it silent,"
        again = "" if count == 1 else f" (report {count} of this round, which takes the place of those before it)"
        self._store.log(
            f"round {report.round_number}: will report{late} a profit of {report.profit:+.6g}{instead} and "
            f"{report.sample_count} new samples, signed{again}. Kept private: {private} = utility {own.utility:+.6g} "
            f"(unit value {member.unit_value:g}, {metric.label} {reference} and {_shown(now, metric.is_share)} now) − "
            f"cost {own.cost:.6g} ({open_round.cost_count} samples, {sum(open_round.steps.values())} steps)"
            f"{spared}{by_gain}"
        )

    def _look_around(self, fields: Mapping[str, Any], told_round: int) -> None:
        """Before a round: did receipts and statements of earlier ones come, and do the others see the same ledger?"""
        for line in KeptReceipts(self._store, self._member).give_up(before=fields["round"]):
            self._store.log(line)
        if fields["settled_round"] > told_round:
            self._store.log(
                f"round {fields['round']}: NO STATEMENT has come of round {fields['settled_round']}, which is said to "
                "be settled with this member. Ask the operator for it"
            )
        for line in PeerHeads(self._store, self._member).compare(fields):
            self._store.log(line)
        Contradictions(self._store).mark_logged()

    def _check_open(self, state: MemberState, kind: str, fields: Mapping[str, Any]) -> None:
        """Refuse a question about another round than the one that is open here, or about one that is settled.

        A member that missed a round may still be asked to report on it, also if its folder was restored since.
        """
        if not _is_open(state, fields) and not (kind == EVALUATE and may_open_late(self._store, state, fields)):
            self._refuse(
                kind, f"Round {fields['round']} is not open here: it was interrupted or never opened. Open it first."
            )
        is_late = kind in (EVALUATE, REPORT) and fields["round"] in state.missed_rounds
        if fields["round"] <= state.told_round and not is_late:
            self._refuse(kind, f"Round {fields['round']} is settled by a statement that is kept here.")

    def _refuse(self, kind: str, why: str) -> NoReturn:
        self._store.log(f"refused {kind}: {why}")
        raise QuestionError(why)

    def _notice(self, fields: Mapping[str, Any]) -> str:
        """The signed notice that the member withdraws after this round; empty if it does not."""
        if not self._store.wants_to_withdraw:
            return ""
        notice = WithdrawalNotice(ledger=fields["book"], client=self._member.name, round_number=fields["round"])
        self._store.log(f"round {fields['round']}: sent notice of withdrawal after this round")
        return notice.signed(self._key)


def _is_open(state: MemberState, fields: Mapping[str, Any]) -> bool:
    """Whether the attempt of a round that a question is about is open."""
    opened = state.under_way
    return opened is not None and (opened.round_number, opened.attempt) == (fields["round"], fields["attempt"])


def _under_way(state: MemberState) -> OpenRound:
    assert state.under_way is not None, "a question in a round is answered only if the round is open"
    return state.under_way


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


def keep_unread(member_file: Path, text: str) -> None:
    """Keep a question that could not be read as it came: the operator may have signed what is in it.

    A transport calls this before it refuses the question.
    """
    store = MemberStore(read_member(member_file).home)
    with store.locked():
        store.log(f"{ERROR} a question cannot be read; it is {keep_failed(store, text.encode(errors='surrogatepass'))}")


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
