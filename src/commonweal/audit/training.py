"""The audit of a scenario: it is trained with everybody honest, and again for each lie that changes training or scores.

Lies in reports are audited on the honest run, by `audit`. A lie that changes the models, the scores or the set of
clients has a run of its own, with the same data and the same seed. A liar's true payoff is what it measures itself:
utility − cost of all its identities, over all rounds, and their transfers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from commonweal.audit.audit import RoundsAudit
from commonweal.audit.bounds import observed_bounds
from commonweal.audit.cases import Case, Cases
from commonweal.audit.game import ROUNDING, AuditedRound, Bounds, RatedFigures
from commonweal.audit.rigged_scores import ONLY_BY_RATES, Rig, RiggedScores, ScoreLie
from commonweal.audit.rigged_scores import TITLES as RIG_TITLES
from commonweal.decision.mechanisms import make_mechanism
from commonweal.errors import CommonwealError, InputError
from commonweal.federation.round_result import ClientMeasurement, RoundResult
from commonweal.federation.session import run_rounds
from commonweal.records import RoundRecord
from commonweal.records.audit import AuditReport, LieResult, NotTried
from commonweal.records.rounds import GAIN
from commonweal.scenario.spec import ClientSpec, Duplicates, Noised, Scenario, Untrained
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.simulated_task import SimulatedTask, task_of
from commonweal.task.records import NewData, Rows, TaskMember

OnRun = Callable[[str, int, int], None]
"""Called with what is run, the runs that are done and the number of all runs."""

_LIGHT_NOISE = 0.01  # of the weights' own deviation
_COPIED_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A lie as a federation to run."""

    name: str
    title: str
    scenario: Scenario
    simulated: SimulatedTask
    identities: tuple[str, ...]  # of the liar
    scores: ScoreLie | None = None

    def run(self, worker_count: int | None) -> list[RoundResult]:
        """All rounds."""
        if self.scores is None:
            clients = InProcessClients(self.scenario, self.simulated, worker_count=worker_count)
        else:
            clients = RiggedScores(self.scenario, self.simulated, self.scores, worker_count=worker_count)
        with clients:
            return list(run_rounds(clients, self.scenario))


@dataclass(frozen=True, kw_only=True)
class ScenarioAudit:
    """What is audited: a scenario, a liar, and how often it is run."""

    scenario: Scenario
    liar: str | None = None  # of the lies that need training; None: the first client without a defect
    identity_count: int = 2
    replication_count: int = 1
    reports_only: bool = False
    bounds: Bounds | None = None
    data_directory: Path | None = None
    worker_count: int | None = None
    on_run: OnRun | None = None
    on_step: Callable[[int, int], None] | None = None
    _done: list[int] = field(default_factory=lambda: [0])

    def report(self, source: str) -> AuditReport:
        """Run and audit everything."""
        liar = self._chosen_liar()
        scenario = _honest(self.scenario)
        cases: dict[str, Cases] = {}
        not_tried: dict[str, NotTried] = {}
        audited: list[AuditedRound] = []
        for replication in range(1, self.replication_count + 1):
            seeded = replace(scenario, seed=scenario.seed + replication - 1)
            simulated = task_of(seeded, self.data_directory)
            honest = Variant(name="", title="the truth", scenario=seeded, simulated=simulated, identities=(liar,))
            results = self._run(honest)
            audited += [audited_round(result.record, result.measured, seeded, replication) for result in results]
            if self.reports_only:
                continue
            variants, left_out = self._variants(seeded, simulated, liar)
            not_tried |= {one.name: one for one in left_out}
            for variant in variants:
                try:
                    lied = self._run(variant)
                except CommonwealError as error:
                    not_tried[variant.name] = NotTried(name=variant.name, title=variant.title, reason=str(error))
                    continue
                found = cases.setdefault(variant.name, Cases(name=variant.name, title=variant.title, kind="training"))
                found.cases.append(_case(replication, liar, results, lied, variant.identities))
        bounds = observed_bounds(audited) if self.bounds is None else self.bounds
        report = RoundsAudit(
            mechanism=make_mechanism(scenario.mechanism.rules),
            rounds=audited,
            bounds=bounds,
            on_step=self.on_step,
            rates=None if scenario.mechanism.rates is None else scenario.mechanism.rates.in_words,
        ).report(source, replication_count=self.replication_count)
        trained = tuple(one.result() for name, one in cases.items() if name not in not_tried)
        return replace(
            report,
            lies=(*report.lies, *trained),
            not_tried=(*self._untold(report), *not_tried.values()),
            notes=(*report.notes, *self._notes(liar, trained)),
        )

    def _untold(self, report: AuditReport) -> list[NotTried]:
        """The lies in reports that were not tried; on false counts, the reason of the lie "counts" is enough."""
        return [one for one in report.not_tried if self.reports_only or one.name != "count"]

    def _run(self, variant: Variant) -> list[RoundResult]:
        if self.on_run is not None:
            self.on_run(variant.title, self._done[0], self._run_count)
        results = variant.run(self.worker_count)
        self._done[0] += 1
        if not results:
            raise InputError("The scenario has no rounds to audit.")
        return results

    @property
    def _run_count(self) -> int:
        rig_count = len(RIG_TITLES) - (len(ONLY_BY_RATES) if self.scenario.mechanism.rates is None else 0)
        return self.replication_count * (1 if self.reports_only else 2 + rig_count + 5)

    def _chosen_liar(self) -> str:
        names = self.scenario.client_names
        if self.liar is not None:
            if self.liar not in names:
                raise InputError(f"There is no client {self.liar!r}: the clients are {', '.join(map(repr, names))}.")
            return self.liar
        return next((client.name for client in self.scenario.clients if client.defect is None), names[0])

    def _notes(self, liar: str, trained: Sequence[LieResult]) -> list[str]:
        notes = []
        if any(client.reported_profit is not None for client in self.scenario.clients):
            notes.append("Clients that report a fixed profit in the scenario tell the truth in this audit.")
        if trained:
            notes.append(f"Lies that need training are told by {liar}, in all rounds of a run.")
        if trained and self.replication_count == 1:
            notes.append("With a single replication, gains of lies that need training have no interval.")
        return notes

    def _variants(
        self, scenario: Scenario, simulated: SimulatedTask, liar: str
    ) -> tuple[list[Variant], list[NotTried]]:
        """The lies that can be told in this scenario, and why the others cannot."""
        measure = scenario.mechanism.measure
        variants: list[Variant] = []
        left_out: list[NotTried] = []

        def add(name: str, title: str, why_not: str | None, make: Callable[[], Variant]) -> None:
            if why_not is None:
                variants.append(make())
            else:
                left_out.append(NotTried(name=name, title=title, reason=why_not))

        def variant(name: str, title: str, **changes: object) -> Variant:
            base = Variant(name=name, title=title, scenario=scenario, simulated=simulated, identities=(liar,))
            return replace(base, **changes)  # type: ignore[arg-type]

        def with_defect(name: str, title: str, why_not: str | None, defect: object) -> None:
            changed = _with_client(scenario, liar, lambda spec: (replace(spec, defect=defect),))  # type: ignore[arg-type]
            data = (
                task_of(changed, self.data_directory) if isinstance(defect, Duplicates) and not why_not else simulated
            )
            add(name, title, why_not, lambda: variant(name, title, scenario=changed, simulated=data))

        spec = next(client for client in scenario.clients if client.name == liar)
        has_defect = None if spec.defect is None else f"{liar} has a defect of its own in the scenario."
        unscored = (
            "Contributions are measured by quantity, so nobody scores anything." if measure == "quantity" else None
        )
        is_rated = scenario.mechanism.rates is not None
        uncounted = None
        if measure != "quantity" and not is_rated:
            uncounted = f"Contributions are measured by {measure}, not by quantity."
        no_copies = None if scenario.task.kind == "images" else "Only images can be declared twice in a scenario."
        rigs: tuple[Rig, ...] = tuple(rig for rig in RIG_TITLES if is_rated or rig not in ONLY_BY_RATES)
        for rig in rigs:
            lie = ScoreLie(liar=liar, rig=rig)
            add(
                rig,
                RIG_TITLES[rig],
                None if rig in ONLY_BY_RATES else unscored,
                lambda rig=rig, lie=lie: variant(rig, RIG_TITLES[rig], scores=lie),  # type: ignore[misc]
            )
        with_defect("untrained", "returns the model as it received it", has_defect, Untrained())
        with_defect(
            "noised", "returns the model it received with light noise", has_defect, Noised(deviation=_LIGHT_NOISE)
        )
        with_defect(
            "duplicates",
            "declares copies as half of its samples",
            has_defect or no_copies,
            Duplicates(fraction=_COPIED_SHARE),
        )
        title = "declares twice its samples"
        add("counts", title, uncounted, lambda: variant("counts", title, simulated=_counted_twice(simulated, liar)))
        parts = self.identity_count
        title = f"takes part as {parts} clients, each with a part of its data"
        add("split", title, None, lambda: _split(variant("split", title), liar, parts))
        title = f"takes part as {parts} clients with the same model"
        add("twins", title, None, lambda: _twins(variant("twins", title), liar, parts))
        return variants, left_out


def _honest(scenario: Scenario) -> Scenario:
    """The scenario in which everybody reports the profit that it made."""
    return replace(scenario, clients=tuple(replace(client, reported_profit=None) for client in scenario.clients))


def audited_round(
    record: RoundRecord, measured: Mapping[str, ClientMeasurement], scenario: Scenario, replication: int
) -> AuditedRound:
    """A round of a run as an audit takes it, in which everybody tells the truth."""
    decision = record.decision.without_harmful
    figures, rated = decision.figures, _rated(record, measured, scenario)
    if rated is None:
        made = {client: one.value for client in figures.clients if (one := measured[client].actual_profit) is not None}
        figures = replace(figures, profits={**figures.profits, **made})
    return AuditedRound(
        number=record.round_number,
        figures=figures,
        spares_losses=decision.spares_losses,
        sample_counts={client: one.sample_count for client, one in measured.items()},
        replication=replication,
        rated=rated,
    )


def _rated(record: RoundRecord, measured: Mapping[str, ClientMeasurement], scenario: Scenario) -> RatedFigures | None:
    rates, gains = scenario.mechanism.rates, record.gains
    if rates is None:
        return None
    figures = record.decision.without_harmful.figures
    made = {client: measured[client].actual_profit for client in figures.clients}
    return RatedFigures(
        rates={client: own for client in figures.clients if (own := rates.of(client)) is not None},
        gains=figures.further[GAIN] if gains is None else {c: gains.used(c)[0] for c in figures.clients},
        expected_gains=None
        if gains is None or gains.expected is None
        else {client: gains.expected.get(client, 0.0) for client in figures.clients},
        made={client: one.value for client, one in made.items() if one is not None},
        is_advantage=scenario.mechanism.utility == "advantage",
    )


def _case(
    replication: int, liar: str, honest: Sequence[RoundResult], lied: Sequence[RoundResult], identities: Sequence[str]
) -> Case:
    """What the liar has more after all rounds, per round of the honest run."""
    truth, told = _payoff(honest, [liar]), _payoff(lied, identities)
    gain = (told - truth) / len(honest)
    sizes = [abs(one) for result in honest for one in result.record.decision.figures.profits.values()]
    stays, stayed = not _has_left(honest, [liar]), not _has_left(lied, identities)
    return Case(
        replication=replication,
        round_place=replication,
        liars=(liar,),
        gain=gain,
        payoff_size=abs(truth) / len(honest),
        pays=gain > ROUNDING * math.fsum(sizes),
        loses_place=stays and not stayed,
        wins_place=stayed and not stays,
    )


def _payoff(results: Sequence[RoundResult], identities: Sequence[str]) -> float:
    """True profit and transfers of all identities, over all rounds in which they took part."""
    amounts = []
    for result in results:
        decision = result.record.decision
        for client in identities:
            if client in result.measured:
                own = result.measured[client]
                made = own.actual_profit or own.measured_profit
                profit = decision.figures.profits[client] if made is None else made.value
                amounts += [profit, decision.all_transfers.get(client, 0.0)]
    return math.fsum(amounts)


def _has_left(results: Sequence[RoundResult], identities: Sequence[str]) -> bool:
    return any(client in result.record.left for result in results for client in identities)


# ---- other identities ----


def _with_client(scenario: Scenario, name: str, change: Callable[[ClientSpec], tuple[ClientSpec, ...]]) -> Scenario:
    """The scenario with other clients in the place of one."""
    changed = [change(client) if client.name == name else (client,) for client in scenario.clients]
    clients = tuple(one for some in changed for one in some)
    mechanism = scenario.mechanism
    if mechanism.rates is not None and mechanism.rates.classes:  # others in its place are of its class
        classes = {one.name: mechanism.rates.classes.get(one.name, mechanism.rates.classes[name]) for one in clients}
        mechanism = replace(mechanism, rates=replace(mechanism.rates, classes=classes))
    return replace(scenario, clients=clients, mechanism=mechanism)


def _names(liar: str, count: int) -> tuple[str, ...]:
    return tuple(f"{liar} ({number})" for number in range(1, count + 1))


def _split(variant: Variant, liar: str, count: int) -> Variant:
    """The liar's data, arrivals and worth of the model in equal parts. Each identity has the costs of a round."""
    names = _names(liar, count)
    simulated = variant.simulated
    whole = simulated.members[liar]
    load = simulated.task.load

    def load_part(round_number: int, member: TaskMember) -> NewData:
        if member.name not in names:
            return load(round_number, member)
        return _part(load(round_number, whole), names.index(member.name), count)

    def identities(spec: ClientSpec) -> tuple[ClientSpec, ...]:
        smaller = replace(spec, samples_per_round=spec.samples_per_round / count, unit_value=spec.unit_value / count)
        return tuple(replace(smaller, name=name) for name in names)

    members = {**simulated.members, **{name: replace(whole, name=name) for name in names}}
    return replace(
        variant,
        scenario=_with_client(variant.scenario, liar, identities),
        simulated=replace(simulated, task=replace(simulated.task, load=load_part), members=members),
        identities=names,
    )


def _part(new: NewData, place: int, count: int) -> NewData:
    def rows(values: Rows) -> Rows:
        return tuple(array[place::count] for array in values)

    def part_of(whole: int | None) -> int | None:
        return None if whole is None else whole // count + (place < whole % count)

    return replace(
        new,
        training=rows(new.training),
        validation=rows(new.validation),
        sample_count=part_of(new.sample_count),
        paid_count=part_of(new.paid_count),
    )


def _twins(variant: Variant, liar: str, count: int) -> Variant:
    """The liar, and others under further names with its data and its model. Only the first has utility and work."""
    first, *others = _names(liar, count)

    def identities(spec: ClientSpec) -> tuple[ClientSpec, ...]:
        idle = replace(spec, unit_value=0.0, cost_per_sample=0.0, cost_per_step=0.0)
        return (replace(spec, name=first), *(replace(idle, name=name) for name in others))

    simulated = variant.simulated
    members = {**simulated.members, **dict.fromkeys((first, *others), simulated.members[liar])}
    return replace(
        variant,
        scenario=_with_client(variant.scenario, liar, identities),
        simulated=replace(simulated, members=members),
        identities=(first, *others),
    )


def _counted_twice(simulated: SimulatedTask, liar: str) -> SimulatedTask:
    load = simulated.task.load

    def load_twice(round_number: int, member: TaskMember) -> NewData:
        new = load(round_number, member)
        if member.name != liar:
            return new
        return replace(new, sample_count=2 * new.declared_count, paid_count=new.cost_count)

    return replace(simulated, task=replace(simulated.task, load=load_twice))
