"""How a member answers. It knows nothing of Flower: questions and answers are parcels.

A round is under way until the coordinator says that it was settled; what it left behind (the accuracy that the next
utility is measured from, the memory of training) counts only then. So a round that was broken off leaves no trace, and
may be held again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from commonweal.errors import FederationError
from commonweal.ledger.member_documents import ClientReport, WithdrawalNotice
from commonweal.ledger.node_keys import NodeKey
from commonweal.remote.member.member_file import Member
from commonweal.remote.member.statement_check import keep_statement
from commonweal.remote.member.store import MemberState, MemberStore, OpenRound
from commonweal.remote.member.work import Held, Work, WorkContext, gather
from commonweal.remote.messages.kinds import CLOSE, EVALUATE, LACKS, MODEL, OPEN, REPORT, TRAIN
from commonweal.remote.messages.message import Parcel
from commonweal.remote.messages.models import Model, average
from commonweal.seeds import stream
from commonweal.valuation import cost, profit, utility


class QuestionError(FederationError):
    """A question that cannot be meant for this member now."""


class MemberAgent:
    """Answers questions for one member, with its private figures at hand."""

    def __init__(self, member: Member, work: Work, key: NodeKey) -> None:
        self._member = member
        self._work = work
        self._key = key
        self._home = MemberStore(member.home)

    def answer(self, kind: str, question: Parcel) -> Parcel:
        """The answer; a `QuestionError` if there cannot be one."""
        fields = question.fields
        if fields["client"] != self._member.name:
            raise QuestionError(
                f"this SuperNode answers for {self._member.name!r}, got a question for {fields['client']!r}; let the "
                "operator's file name each client as its own file does"
            )
        with self._home.alone():
            standing = self._home.load()
            if standing.book not in (None, fields["book"]):
                raise QuestionError(
                    f"a home belongs to one federation, got the book {fields['book'][:16]}… where it has "
                    f"{standing.book[:16] if standing.book else ''}…; give another home in the member's file"
                )
            for name, group in question.groups.items():
                if name.startswith(MODEL):
                    self._home.put(group)
            lacking = self._home.lacks(fields.get("models", []))
            if lacking:
                return Parcel(fields={LACKS: lacking})
            return self._answers()[kind](question, standing)

    def _answers(self) -> Mapping[str, Callable[[Parcel, MemberState], Parcel]]:
        return {
            OPEN: self._open,
            TRAIN: self._train,
            EVALUATE: self._evaluate,
            REPORT: self._report,
            CLOSE: self._close,
        }

    def _open(self, question: Parcel, standing: MemberState) -> Parcel:
        """Data arrive; the model that starts the round is scored."""
        fields = question.fields
        self._commit(standing, fields)
        number = fields["round"]
        held = gather(self._work, self._member, number)
        (digest,) = fields["models"]
        standing.book = fields["book"]
        standing.under_way = under_way = OpenRound(
            round_number=number,
            attempt=fields["attempt"],
            declared_count=held.newest.declared_count,
            cost_count=held.newest.cost_count,
            memory=standing.memory,
        )
        notice = self._notice(fields)
        under_way.has_notice = bool(notice)
        scores = self._scores(self._home.get(digest), held, fields, under_way)
        under_way.accuracies[digest] = float(scores.mean()) if len(scores) else 0.0
        if standing.baseline is None or not fields["has_baseline"]:
            standing.baseline = under_way.accuracies[digest]  # ε(n,0): no opening of this member was recorded before
        self._home.save(standing)
        self._home.forget_all_but([digest, standing.memory])
        self._home.log(
            f"round {number}: opened with {held.newest.declared_count} new samples, {len(held.training[0])} to train "
            f"on and {len(held.validation[0])} to validate with; the model is right on {_percent(scores)} of these"
        )
        return Parcel(
            fields={
                "sample_count": held.newest.declared_count,
                "training_count": len(held.training[0]),
                "validation_count": len(held.validation[0]),
                "withdrawal": notice,
            },
            groups={"scores": {"scores": packed(scores[None])}},
        )

    def _train(self, question: Parcel, standing: MemberState) -> Parcel:
        fields = question.fields
        under_way = self._under_way(standing, fields)
        number, iteration = fields["round"], fields["iteration"]
        held = gather(self._work, self._member, number)
        context = self._context(fields, under_way, iteration)
        (digest,) = fields["models"]
        trained = self._work.train(self._home.get(digest), held.training, context)
        under_way.memory = self._home.put(context.memory) if context.memory else None
        under_way.steps[str(iteration)] = trained.step_count
        model = {name: np.asarray(array) for name, array in trained.model.items()}  # NumPy makes scalars of sums
        self._home.put(model)
        self._home.save(standing)
        self._home.log(
            f"round {number}, iteration {iteration}: trained in {trained.step_count} steps, loss {trained.loss:.4g}"
        )
        return Parcel(groups={"local": model})

    def _evaluate(self, question: Parcel, standing: MemberState) -> Parcel:
        """Score models: `whole` as they are, `rows` made here of local models and their weights."""
        fields = question.fields
        under_way = self._under_way(standing, fields)
        held = gather(self._work, self._member, fields["round"])
        rows = []
        for digest in fields["whole"]:
            scores = self._scores(self._home.get(digest), held, fields, under_way)
            under_way.accuracies[digest] = float(scores.mean())
            rows.append(scores)
        if fields["parts"]:
            parts = [self._home.get(digest) for digest in fields["parts"]]
            for weights in question.groups["rows"]["rows"]:
                rows.append(self._scores(_combined(parts, weights), held, fields, under_way))
        self._home.save(standing)
        return Parcel(groups={"scores": {"scores": packed(np.array(rows))}})

    def _report(self, question: Parcel, standing: MemberState) -> Parcel:
        """profit = u (ε(n,t) − ε(n,t−1)) − cost: written to the member's log, signed, and alone sent."""
        fields = question.fields
        under_way = self._under_way(standing, fields)
        member, number = self._member, fields["round"]
        accuracy, baseline = under_way.accuracies[fields["adopted"]], standing.baseline
        assert baseline is not None, "a round is opened before it is reported"
        step_count = sum(under_way.steps.values())
        gained = utility(member.unit_value, accuracy, baseline)
        spent = cost(
            cost_per_sample=member.cost_per_sample,
            cost_per_step=member.cost_per_step,
            cost_per_round=member.cost_per_round,
            sample_count=under_way.cost_count,
            step_count=step_count,
        )
        report = ClientReport(
            ledger=fields["book"],
            round_number=number,
            client=member.name,
            profit=profit(gained, spent),
            sample_count=under_way.declared_count,
        )
        self._home.log(
            f"round {number}: will report a profit of {report.profit:+.6g} and {report.sample_count} new samples, "
            f"signed. It stays here that the profit is the utility {gained:+.6g} (unit value {member.unit_value:g}, "
            f"accuracy {baseline:.4f} before and {accuracy:.4f} now) less the cost {spent:.6g} "
            f"({under_way.cost_count} samples, {step_count} steps)"
        )
        return Parcel(fields={"profit": report.profit, "signature": report.signed(self._key)})

    def _close(self, question: Parcel, standing: MemberState) -> Parcel:
        fields = question.fields
        self._commit(standing, fields)
        self._home.save(standing)
        line = keep_statement(
            self._home.path, self._member, fields["statement"], book=fields["book"], round_number=fields["round"]
        )
        self._home.log(f"round {fields['round']}: {fields['outcome']}; {line}")
        return Parcel(fields={"kept": True})

    def _commit(self, standing: MemberState, fields: Mapping[str, Any]) -> None:
        """Take over what the last settled round left, if this member was in it; any other round never was."""
        under_way = standing.under_way
        settled = (fields["settled_round"], fields["settled_attempt"])
        if under_way is None or settled != (under_way.round_number, under_way.attempt):
            return
        standing.baseline = under_way.accuracies[fields["settled_model"]]
        standing.memory = under_way.memory
        standing.withdrew |= under_way.has_notice
        standing.under_way = None
        self._home.save(standing)
        self._home.forget_all_but([fields["settled_model"], standing.memory])

    def _under_way(self, standing: MemberState, fields: Mapping[str, Any]) -> OpenRound:
        under_way = standing.under_way
        if under_way is None or (under_way.round_number, under_way.attempt) != (fields["round"], fields["attempt"]):
            raise QuestionError(
                f"a question belongs to the round under way, got one of round {fields['round']} that was broken off or "
                "never opened here; open the round first"
            )
        return under_way

    def _scores(self, model: Model, held: Held, fields: Mapping[str, Any], under_way: OpenRound) -> NDArray[np.float64]:
        if not len(held.validation[0]):
            return np.empty(0)
        given = self._work.evaluate(model, held.validation, self._context(fields, under_way, 0))
        scores = np.asarray(given, dtype=np.float64)
        if scores.shape != (len(held.validation[0]),) or not ((scores >= 0) & (scores <= 1)).all():
            raise FederationError(
                f"evaluate must give one score from 0 to 1 for each of {len(held.validation[0])} validation samples, "
                f"got shape {scores.shape}; return e.g. 1.0 where the model is right and 0.0 where it is not"
            )
        return scores

    def _context(self, fields: Mapping[str, Any], under_way: OpenRound, iteration: int) -> WorkContext:
        number, seed = fields["round"], fields["seed"]
        return WorkContext(
            member=self._member,
            round_number=number,
            iteration=iteration,
            seed=seed,
            rng=stream(seed, "work", self._member.name, number, iteration),
            memory=self._home.get(under_way.memory),
        )

    def _notice(self, fields: Mapping[str, Any]) -> str:
        """The signed notice that the member leaves after this round; empty if it stays."""
        if not self._home.wants_to_withdraw:
            return ""
        notice = WithdrawalNotice(ledger=fields["book"], client=self._member.name, round_number=fields["round"])
        self._home.log(f"round {fields['round']}: gives notice to withdraw after this round")
        return notice.signed(self._key)


def packed(scores: NDArray[np.float64]) -> NDArray[Any]:
    """Hits in a byte each rather than eight."""
    hits = scores.astype(np.uint8)
    return hits if (hits == scores).all() else scores


def _combined(parts: list[Model], weights: NDArray[np.float64]) -> Model:
    chosen = [place for place, weight in enumerate(weights) if weight > 0]
    return average([parts[place] for place in chosen], [float(weights[place]) for place in chosen])


def _percent(scores: NDArray[np.float64]) -> str:
    return f"{scores.mean():.1%}" if len(scores) and math.isfinite(scores.mean()) else "none"
