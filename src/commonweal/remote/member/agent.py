"""How a member answers the coordinator's questions, independent of the transport.

A round is open until the coordinator says that it was settled. What it changed (the accuracy that the next utility is
measured from, the memory of training) counts only then, so a round that was interrupted leaves no trace and can be run
again.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from commonweal.errors import FederationError
from commonweal.ledger.member_documents import ClientReport, WithdrawalNotice
from commonweal.ledger.node_keys import NodeKey
from commonweal.remote.member.member_file import Member, read_member
from commonweal.remote.member.store import MemberState, MemberStore, OpenRound, keep_statement
from commonweal.remote.member.task import LoadedData, Task, TaskContext, load_all
from commonweal.remote.messages.message import (
    CLOSE,
    EVALUATE,
    LACKS,
    MODEL,
    NUMBER,
    OPEN,
    REPORT,
    TRAIN,
    Message,
    signed_answer,
)
from commonweal.remote.messages.models import Model, average
from commonweal.seeds import stream
from commonweal.valuation import cost, profit, utility


class QuestionError(FederationError):
    """A question that this member cannot answer now."""


class MemberAgent:
    """Answers questions for one member, from its private figures and its own data."""

    def __init__(self, member: Member, task: Task, key: NodeKey) -> None:
        self._member = member
        self._task = task
        self._key = key
        self._store = MemberStore(member.home)

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
                    f"question is about ledger {fields['book'][:16]}…. Name another `home` in the member's file."
                )
            for name, group in question.groups.items():
                if name.startswith(MODEL):
                    self._store.put(group)
            lacking = self._store.lacks(fields.get("models", []))
            if lacking:
                return Message(fields={LACKS: lacking})
            return self._answers()[kind](question, state)

    def _answers(self) -> Mapping[str, Callable[[Message, MemberState], Message]]:
        return {
            OPEN: self._open,
            TRAIN: self._train,
            EVALUATE: self._evaluate,
            REPORT: self._report,
            CLOSE: self._close,
        }

    def _open(self, question: Message, state: MemberState) -> Message:
        """Load the round's new data, and score the model that the round starts from."""
        fields = question.fields
        self._commit(state, fields)
        number = fields["round"]
        data = load_all(self._task, self._member, number)
        (digest,) = fields["models"]
        state.book = fields["book"]
        state.under_way = open_round = OpenRound(
            round_number=number,
            attempt=fields["attempt"],
            declared_count=data.newest.declared_count,
            cost_count=data.newest.cost_count,
            memory=state.memory,
        )
        notice = self._notice(fields)
        open_round.has_notice = bool(notice)
        scores = self._scores(self._store.get(digest), data, fields, open_round)
        open_round.accuracies[digest] = float(scores.mean()) if len(scores) else 0.0
        if state.baseline is None or not fields["has_baseline"]:
            state.baseline = open_round.accuracies[digest]  # ε(n,0): no earlier opening was recorded
        self._store.save(state)
        self._store.forget_all_but([digest, state.memory])
        self._store.log(
            f"round {number}: opened with {data.newest.declared_count} new samples, {len(data.training[0])} for "
            f"training and {len(data.validation[0])} for validation; the model's accuracy is {_percent(scores)}"
        )
        return Message(
            fields={
                "sample_count": data.newest.declared_count,
                "training_count": len(data.training[0]),
                "validation_count": len(data.validation[0]),
                "withdrawal": notice,
            },
            groups={"scores": {"scores": packed(scores[None])}},
        )

    def _train(self, question: Message, state: MemberState) -> Message:
        fields = question.fields
        open_round = self._open_round(state, fields)
        number, iteration = fields["round"], fields["iteration"]
        data = load_all(self._task, self._member, number)
        context = self._context(fields, open_round, iteration)
        (digest,) = fields["models"]
        trained = self._task.train(self._store.get(digest), data.training, context)
        open_round.memory = self._store.put(context.memory) if context.memory else None
        open_round.steps[str(iteration)] = trained.step_count
        model = {name: np.asarray(array) for name, array in trained.model.items()}  # NumPy makes scalars of sums
        self._store.put(model)
        self._store.save(state)
        self._store.log(
            f"round {number}, iteration {iteration}: trained in {trained.step_count} steps, loss {trained.loss:.4g}"
        )
        return Message(groups={"local": model})

    def _evaluate(self, question: Message, state: MemberState) -> Message:
        """Score the `whole` models as sent, and those that `rows` describe as weighted averages of local models."""
        fields = question.fields
        open_round = self._open_round(state, fields)
        data = load_all(self._task, self._member, fields["round"])
        rows = []
        for digest in fields["whole"]:
            scores = self._scores(self._store.get(digest), data, fields, open_round)
            open_round.accuracies[digest] = float(scores.mean())
            rows.append(scores)
        if fields["parts"]:
            parts = [self._store.get(digest) for digest in fields["parts"]]
            for weights in question.groups["rows"]["rows"]:
                rows.append(self._scores(_combined(parts, weights), data, fields, open_round))
        self._store.save(state)
        return Message(groups={"scores": {"scores": packed(np.array(rows))}})

    def _report(self, question: Message, state: MemberState) -> Message:
        """profit = u (ε(n,t) − ε(n,t−1)) − cost: logged with its parts, sent without them, and signed."""
        fields = question.fields
        open_round = self._open_round(state, fields)
        member, number = self._member, fields["round"]
        accuracy, baseline = open_round.accuracies[fields["adopted"]], state.baseline
        assert baseline is not None, "opening a round sets the baseline"
        step_count = sum(open_round.steps.values())
        gained = utility(member.unit_value, accuracy, baseline)
        spent = cost(
            cost_per_sample=member.cost_per_sample,
            cost_per_step=member.cost_per_step,
            cost_per_round=member.cost_per_round,
            sample_count=open_round.cost_count,
            step_count=step_count,
        )
        report = ClientReport(
            ledger=fields["book"],
            round_number=number,
            client=member.name,
            profit=profit(gained, spent),
            sample_count=open_round.declared_count,
        )
        self._store.log(
            f"round {number}: will report a profit of {report.profit:+.6g} and {report.sample_count} new samples, "
            f"signed. Kept private: profit = utility {gained:+.6g} (unit value {member.unit_value:g}, accuracy "
            f"{baseline:.4f} before and {accuracy:.4f} now) − cost {spent:.6g} ({open_round.cost_count} samples, "
            f"{step_count} steps)"
        )
        return Message(fields={"profit": report.profit, "signature": report.signed(self._key)})

    def _close(self, question: Message, state: MemberState) -> Message:
        fields = question.fields
        self._commit(state, fields)
        self._store.save(state)
        line = keep_statement(
            self._store, self._member, fields["statement"], ledger=fields["book"], round_number=fields["round"]
        )
        self._store.log(f"round {fields['round']}: {fields['outcome']}; {line}")
        return Message(fields={"kept": True})

    def _commit(self, state: MemberState, fields: Mapping[str, Any]) -> None:
        """Adopt what the last settled round changed, if this member was in it; any other open round is void."""
        open_round = state.under_way
        settled = (fields["settled_round"], fields["settled_attempt"])
        if open_round is None or settled != (open_round.round_number, open_round.attempt):
            return
        state.baseline = open_round.accuracies[fields["settled_model"]]
        state.memory = open_round.memory
        state.withdrew |= open_round.has_notice
        state.under_way = None
        self._store.save(state)
        self._store.forget_all_but([fields["settled_model"], state.memory])

    def _open_round(self, state: MemberState, fields: Mapping[str, Any]) -> OpenRound:
        open_round = state.under_way
        if open_round is None or (open_round.round_number, open_round.attempt) != (fields["round"], fields["attempt"]):
            raise QuestionError(
                f"Round {fields['round']} is not open here: it was interrupted or never opened. Open it first."
            )
        return open_round

    def _scores(
        self, model: Model, data: LoadedData, fields: Mapping[str, Any], open_round: OpenRound
    ) -> NDArray[np.float64]:
        if not len(data.validation[0]):
            return np.empty(0)
        given = self._task.evaluate(model, data.validation, self._context(fields, open_round, 0))
        scores = np.asarray(given, dtype=np.float64)
        if scores.shape != (len(data.validation[0]),) or not ((scores >= 0) & (scores <= 1)).all():
            raise FederationError(
                f"evaluate must return one score from 0 to 1 for each of {len(data.validation[0])} validation samples, "
                f"got {_described(scores)}. Return, for example, 1.0 where the model is right and 0.0 where it is not."
            )
        return scores

    def _context(self, fields: Mapping[str, Any], open_round: OpenRound, iteration: int) -> TaskContext:
        number, seed = fields["round"], fields["seed"]
        return TaskContext(
            member=self._member,
            round_number=number,
            iteration=iteration,
            seed=seed,
            rng=stream(seed, "work", self._member.name, number, iteration),
            memory=self._store.get(open_round.memory),
        )

    def _notice(self, fields: Mapping[str, Any]) -> str:
        """The signed notice that the member withdraws after this round; empty if it does not."""
        if not self._store.wants_to_withdraw:
            return ""
        notice = WithdrawalNotice(ledger=fields["book"], client=self._member.name, round_number=fields["round"])
        self._store.log(f"round {fields['round']}: sent notice of withdrawal after this round")
        return notice.signed(self._key)


def packed(scores: NDArray[np.float64]) -> NDArray[Any]:
    """Scores of 0 and 1 as one byte each instead of eight."""
    hits = scores.astype(np.uint8)
    return hits if (hits == scores).all() else scores


def _combined(parts: list[Model], weights: NDArray[np.float64]) -> Model:
    chosen = [place for place, weight in enumerate(weights) if weight > 0]
    return average([parts[place] for place in chosen], [float(weights[place]) for place in chosen])


def _percent(scores: NDArray[np.float64]) -> str:
    return f"{scores.mean():.1%}" if len(scores) and math.isfinite(scores.mean()) else "unknown"


def _described(scores: NDArray[np.float64]) -> str:
    wrong = scores[~((scores >= 0) & (scores <= 1))]
    return f"{float(wrong.flat[0])!r}" if wrong.size else f"shape {scores.shape}"


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
            MemberStore(read_member(member_file).home).log(f"ERROR {type(error).__name__}: {error}")
        traceback.print_exc()
        raise RuntimeError(f"{type(error).__name__}; the member's own log has the details") from None
