"""What a member does with models on its own data: the task, with the algorithm and the metric that a question names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from commonweal.client.reporting import Alone
from commonweal.remote.member.member_file import Member
from commonweal.remote.member.store import ERROR, MemberState, MemberStore, OpenRound
from commonweal.remote.messages.message import QuestionError
from commonweal.task.choice import chosen_metric
from commonweal.task.measured import Measured
from commonweal.task.metrics import Metric
from commonweal.task.records import LoadedData, Model, Predictions, Task, TaskMember

if TYPE_CHECKING:  # it imports torch, which reports and statements need not wait for
    from commonweal.client.work import ClientWork, Evaluation

ALGORITHM = "(algorithm)"  # among the arrays that a member remembers: those of the algorithm


class LocalWork:
    """The task on a member's own data and the arrays in its store."""

    def __init__(self, member: Member, task: Task, store: MemberStore) -> None:
        self._member = member
        self._task = task
        self._store = store

    def work(self, fields: Mapping[str, Any], digest: str) -> ClientWork:
        """The task with the federation's algorithm and metric, for models like the one with this hash."""
        from commonweal.client.work import ClientWork
        from commonweal.learning.algorithms import make_algorithm
        from commonweal.learning.vectors import ArrayLayout

        make_layout = self._task.layout or ArrayLayout
        layout = make_layout(self._store.get(digest))
        learning = json.loads(fields["learning"])
        return ClientWork(
            task=self._task,
            layout=layout,
            algorithm=make_algorithm(
                learning["algorithm"],
                layout,
                learning_rate=learning["learning_rate"],
                parameters=learning["parameters"],
            ),
            metric=self.metric(fields),
            seed=fields["seed"],
            learning_rate=learning["learning_rate"],
            is_smooth=fields.get("smooth", False),
        )

    def metric(self, fields: Mapping[str, Any]) -> Metric:
        return chosen_metric(fields["metric"], self._task.metrics, lower_is_better=fields["lower_is_better"])

    def memories(self, work: ClientWork, digest: str | None, model: str) -> tuple[Any, Model]:
        """What the algorithm and the task remember, from the arrays with this hash."""
        kept = self._store.get(digest)
        own = kept.pop(ALGORITHM, None)
        if own is None:
            return work.algorithm.first_memory(work.layout.pack(self._store.get(model))), kept
        return work.vector(own), kept

    def evaluated(
        self, work: ClientWork, member: TaskMember, data: LoadedData, model: Model, open_round: OpenRound
    ) -> Evaluation:
        vector = work.layout.pack(model)
        kept = self._store.get(open_round.memory)
        own = kept.pop(ALGORITHM, None)
        memory = work.algorithm.first_memory(vector) if own is None else work.vector(own)
        return work.evaluate(member, open_round.round_number, vector, data.validation, memory=memory, task_memory=kept)

    def task_member(self, fields: Mapping[str, Any], state: MemberState) -> TaskMember:
        return TaskMember(
            name=self._member.name,
            settings={**json.loads(fields["settings"]), **self._member.settings},
            folder=self._member.folder,
            seed=fields["seed"],
            round_count=fields["rounds"],
            agreed=state.agreed,
        )

    def keep_measure(
        self,
        fields: Mapping[str, Any],
        open_round: OpenRound,
        digest: str,
        work: ClientWork,
        member: TaskMember,
        evaluation: Evaluation,
    ) -> None:
        """Remember the scores of a model, or the draws of its metric, if gains over the opening model are pooled."""
        if fields.get("figures", "measured") != "measured":
            kept = sent_measures(work, member, [evaluation])
            open_round.measures[digest] = self._store.put(next(iter(kept.values())))

    def alone(self, fields: Mapping[str, Any], state: MemberState, open_round: OpenRound) -> Alone:
        """What the member would have without the federation after this round. The model stays here."""
        start = state.alone or open_round.first_alone
        assert start is not None, "opening a round sets the model that is trained alone"
        work = self.work(fields, start)
        member = self.task_member(fields, state)
        lone = work.train_alone(
            member,
            fields["round"],
            work.load_all(member, fields["round"]),
            model=work.layout.pack(self._store.get(start)),
            task_memory=self._store.get(state.alone_memory),
            iteration_count=json.loads(fields["learning"])["iteration_limit"],
        )
        open_round.alone = self._store.put(work.layout.unpack(lone.model))
        open_round.alone_memory = self._store.put(dict(lone.task_memory)) if lone.task_memory else None
        self._store.save(state)
        return lone.alone

    def train_alone_since(self, last: int, fields: Mapping[str, Any], state: MemberState) -> None:
        """Train the member's own model on over the rounds after `last` that this folder does not know.

        It is trained in the rounds that were settled with the member, by the coordinator's word, and in no round that
        statements call missed. Nothing is done where gains count and not the advantage over training alone.

        Raises `QuestionError` if that model is lost: one that starts again from the federation's model would be too
        good, and the member would seem to lose by taking part.
        """
        if fields["utility"] != "advantage":
            return
        if state.alone is None:
            refusal = (
                f"Round {fields['settled_round']} was settled with this member, but the model that it trains alone is "
                "not in its folder, so its advantage cannot be measured."
            )
            self._store.log(
                f"{ERROR} refused to open round {fields['round']}: {refusal} Put back a backup of the folder"
            )
            raise QuestionError(refusal)
        work, member = self.work(fields, state.alone), self.task_member(fields, state)
        model, memory = work.layout.pack(self._store.get(state.alone)), self._store.get(state.alone_memory)
        settled = settled_since(last, fields, state)
        for number in settled:
            lone = work.train_alone(
                member,
                number,
                work.load_all(member, number),
                model=model,
                task_memory=memory,
                iteration_count=json.loads(fields["learning"])["iteration_limit"],
            )
            model, memory = lone.model, dict(lone.task_memory)
        state.alone = self._store.put(work.layout.unpack(model))
        state.alone_memory = self._store.put(memory) if memory else None
        self._store.save(state)
        rounds = ", ".join(map(str, settled))
        self._store.log(f"trained on the model that it has alone, over the rounds settled with this member: {rounds}")


def settled_since(last: int, fields: Mapping[str, Any], state: MemberState) -> list[int]:
    """The rounds after `last`, up to the last settled one, that are said to be settled with this member.

    Coordinators of earlier versions do not say which.
    """
    told = json.loads(fields.get("settled_rounds", f"[[{last + 1}, {state.settled_round}]]"))
    rounds = {
        number for first, end in told for number in range(max(first, last + 1), min(end, state.settled_round) + 1)
    }
    return sorted(number for number in {*rounds, state.settled_round} if number not in state.missed_rounds)


def value_of(work: ClientWork, member: TaskMember, evaluation: Evaluation) -> float:
    """The metric of a model that was evaluated; not a number if it cannot be measured."""
    if not isinstance(evaluation, Predictions):
        return float(evaluation.mean()) if len(evaluation) else 0.0
    return work.measured(member, evaluation).value


def packed(scores: NDArray[np.float64]) -> NDArray[Any]:
    """Scores of 0 and 1 as one byte each instead of eight."""
    hits = scores.astype(np.uint8)
    return hits if (hits == scores).all() else scores


def sent_measures(work: ClientWork, member: TaskMember, evaluations: list[Evaluation]) -> dict[str, Model]:
    """What is sent of evaluations: scores of samples as they are; of predictions only the metric and its draws."""
    if any(isinstance(evaluation, Predictions) for evaluation in evaluations):
        measured = [work.measured(member, evaluation) for evaluation in evaluations]
        smooth = {"smooth": _arrays([one.smooth_score for one in measured])} if work.is_smooth else {}
        return {"measured": _arrays(measured), **smooth}
    return {"scores": {"scores": packed(np.array(evaluations))}}


def _arrays(measured: list[Measured]) -> Model:
    return {
        "values": np.array([one.value for one in measured]),
        "draws": np.array([one.draws for one in measured]),
    }


def combined(parts: list[Model], weights: NDArray[np.float64]) -> Model:
    from commonweal.learning.vectors import average_models

    chosen = [place for place, weight in enumerate(weights) if weight > 0]
    return average_models([parts[place] for place in chosen], [float(weights[place]) for place in chosen])
