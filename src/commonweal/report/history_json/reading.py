"""Read history.json back into a run report; what breaks a rule of its schema is named with its place."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar, get_args

from commonweal.bounded_read import LARGEST_DOCUMENT, read_bounded
from commonweal.errors import InputError, StorageError, os_reason
from commonweal.records import (
    Advice,
    ClientAdvice,
    ClientRound,
    ClientVerdict,
    ContributionRule,
    Decision,
    DecisionMap,
    Ending,
    Estimate,
    Event,
    Evidence,
    FederationVerdict,
    Figures,
    FiguresRule,
    HarmEvidence,
    Improvement,
    Instructions,
    LossRule,
    MechanismFacts,
    MetricName,
    MuRange,
    ProfitsRule,
    RoundGains,
    RoundRecord,
    RoundReport,
    Rules,
    RunReport,
    Stability,
    UsedFigures,
)
from commonweal.report.history_json.writing import SCHEMA
from commonweal.scenario.spec import UtilityRule

_T = TypeVar("_T")


def read_history(path: Path) -> RunReport:
    """The run report that a history.json was written from; written again, it gives the same fields.

    Some details are not in the file, so they are lost:

    - exact bounds of ranges of μ: only the nearest doubles remain, and whether the exact range includes them;
    - whether costs were among the figures of a decision: it is assumed so if no client kept its cost private;
    - infinities in the scenario, which stay the text "inf", and its tuples, which become lists;
    - the version of commonweal that wrote the file.

    Payments, candidates and failures of individual rationality are not read: they follow from the rest. Files that do
    not name a metric were written when models were measured by accuracy, and utility by its gain.
    """
    try:
        content = read_bounded(path, LARGEST_DOCUMENT)
    except OSError as error:
        raise StorageError(f"Cannot read {path}: {os_reason(error)}.") from None
    try:
        document = json.loads(content, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(f"Cannot read {path}: it is not valid JSON ({error}).") from None
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise InputError(f"Cannot read {path}: its schema must be {SCHEMA!r}, got {schema!r}.")
    try:
        return _read_run_report(_Value(document, ""))
    except _BrokenError as error:
        raise InputError(f"Cannot read {path}: {error}") from None


class _BrokenError(Exception):
    """A history that breaks a rule of its schema; its text is a sentence without the path."""


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


@dataclass(frozen=True, slots=True)
class _Value:
    """A value of the file and its place in it, such as rounds[2].budget."""

    value: Any
    place: str

    def __getitem__(self, key: str) -> _Value:
        place = f"{self.place}.{key}" if self.place else key
        if key not in self._checked(dict, "an object"):
            raise _BrokenError(f"{place} is missing.")
        return _Value(self.value[key], place)

    def __contains__(self, key: str) -> bool:
        return key in self._checked(dict, "an object")

    def optional(self, key: str, read: Callable[[_Value], _T]) -> _T | None:
        """None if the field is missing or null."""
        return self[key].unless_null(read) if key in self else None

    def each(self, read: Callable[[_Value], _T]) -> tuple[_T, ...]:
        values = self._checked(list, "a list")
        return tuple(read(_Value(value, f"{self.place}[{place}]")) for place, value in enumerate(values))

    def by_name(self, read: Callable[[_Value], _T]) -> dict[str, _T]:
        values = self._checked(dict, "an object")
        return {name: read(_Value(value, f"{self.place}[{name!r}]")) for name, value in values.items()}

    def unless_null(self, read: Callable[[_Value], _T]) -> _T | None:
        return None if self.value is None else read(self)

    def text(self) -> str:
        return str(self._checked(str, "text"))

    def flag(self) -> bool:
        return bool(self._checked(bool, "true or false"))

    def whole(self) -> int:
        if isinstance(self.value, bool):
            self._refuse("a whole number")
        return int(self._checked(int, "a whole number"))

    def number(self) -> float:
        if self.value in ("inf", "-inf"):
            return float(self.value)
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            self._refuse("a number")
        try:
            return float(self.value)
        except OverflowError:
            self._refuse("a number in the range of a double")

    def measurable(self) -> float:
        """A metric: null is not a number, because it could not be measured."""
        return math.nan if self.value is None else self.number()

    def one_of(self, known: Sequence[str]) -> Any:
        if self.value not in known:
            self._refuse(f"one of {', '.join(known)}")
        return self.value

    def _checked(self, kind: type, what: str) -> Any:
        if not isinstance(self.value, kind):
            self._refuse(what)
        return self.value

    def _refuse(self, what: str) -> NoReturn:
        shown = json.dumps(self.value)
        raise _BrokenError(
            f"{self.place or 'the document'} must be {what}, got {shown if len(shown) <= 60 else f'{shown[:57]}...'}."
        )


def _read_run_report(document: _Value) -> RunReport:
    totals = document["totals"]
    return RunReport(
        name=document["name"].text(),
        description=document["description"].text(),
        sentence=document["sentence"].text(),
        settings=document["settings"].by_name(_Value.text),
        scenario=document["scenario"].by_name(lambda value: value.value),
        rules=_read_rules(document["rules"]),
        clients=document["clients"].each(_Value.text),
        client_facts=document["client_facts"].by_name(lambda facts: facts.by_name(_Value.text)),
        declared=document["declared"].each(_Value.text),
        round_count=document["round_count"].whole(),
        rounds=document["rounds"].each(_read_round),
        tsw=totals["tsw"].each(_read_estimate),
        tsfi=totals["tsfi"].each(_read_estimate),
        tsfi_final_set=totals["tsfi_final_set"].each(_read_estimate),
        durations=totals["durations"].by_name(_Value.whole),
        eliminated_after=totals["eliminated_after"].by_name(lambda after: after.unless_null(_Value.whole)),
        withdrawn_after=totals["withdrawn_after"].by_name(_Value.whole),
        total_payoffs=totals["payoffs"].by_name(_read_estimate),
        total_transfers=totals["transfers"].by_name(_read_estimate),
        warnings=document["warnings"].each(_Value.text),
        metric=document.optional("metric", _read_metric) or MetricName(),
        figures=document.optional("figures", lambda rule: str(rule.one_of(get_args(FiguresRule)))) or "measured",
        profits=document.optional("profits", lambda rule: rule.one_of(get_args(ProfitsRule))) or "private",
        utility=document.optional("utility", lambda rule: str(rule.one_of(get_args(UtilityRule)))) or "gain",
        mechanism=document.optional("mechanism", _read_mechanism_facts),
        advice=document.optional("advice", _read_advice),
    )


def _read_mechanism_facts(facts: _Value) -> MechanismFacts:
    lists = ("reads", "decides", "not_carried_out", "honours")
    named: dict[str, Any] = {name: facts[name].each(_Value.text) for name in lists}
    return MechanismFacts(
        description=facts["description"].text(),
        fidelity=facts["fidelity"].unless_null(_Value.text),
        takes_mu=facts["takes_mu"].flag(),
        **named,
    )


def _read_metric(metric: _Value) -> MetricName:
    return MetricName(
        name=metric["name"].text(),
        label=metric["label"].text(),
        higher_is_better=metric["higher_is_better"].flag(),
        is_share=metric["is_share"].flag(),
    )


def _read_advice(advice: _Value) -> Advice:
    return Advice(
        verdict=advice["verdict"].one_of(get_args(FederationVerdict)),
        sentence=advice["sentence"].text(),
        improvement=advice["improvement"].unless_null(_read_improvement),
        clients=dict(advice["clients"].each(_read_client_advice)),
    )


def _read_client_advice(told: _Value) -> tuple[str, ClientAdvice]:
    return told["client"].text(), ClientAdvice(
        verdict=told["verdict"].one_of(get_args(ClientVerdict)),
        sentence=told["sentence"].text(),
        improvement=told["improvement"].unless_null(_read_improvement),
    )


def _read_improvement(improvement: _Value) -> Improvement:
    return Improvement(
        mean=improvement["mean"].number(), low=improvement["low"].number(), high=improvement["high"].number()
    )


def _read_rules(rules: _Value) -> Rules:
    return Rules(
        mu=rules["mu"].number(),
        contribution_rule=rules["contribution_rule"].one_of(get_args(ContributionRule)),
        loss_rule=rules["loss_rule"].one_of(get_args(LossRule)),
        liability_cap=rules["liability_cap"].unless_null(_Value.number),
        version=rules["version"].whole() if "version" in rules else 1,
        **_read_mechanism(rules),
    )


def _read_mechanism(rules: _Value) -> dict[str, Any]:
    """Which mechanism it was, and its own parameters; the default one is not named."""
    if "mechanism" not in rules:
        return {}
    parameters = rules["parameters"].by_name(_Value.number)
    seed = rules.optional("seed", _Value.whole)
    return {"mechanism": rules["mechanism"].text(), "parameters": tuple(parameters.items()), "seed": seed}


def _read_round(written: _Value) -> RoundReport:
    named = dict(written["clients"].each(lambda client: (client["client"].text(), client)))
    clients = {name: _read_client(client) for name, client in named.items()}
    budget = _read_estimate(written["budget"])
    decision = _read_decision(written, named, clients, budget)
    number = written["round"].whole()
    draw_count = written.optional("draw_count", _Value.whole)
    return RoundReport(
        record=RoundRecord(
            round_number=number,
            decision=decision,
            absent=written["absent"].each(_Value.text),
            silent=written.optional("silent", lambda found: found.each(_Value.text)) or (),
            excluded=written.optional("excluded", lambda found: found.each(_Value.text)) or (),
            withdrawn=written["withdrawn"].each(_Value.text),
            gains=written.optional("gains", _read_gains),
            evidence={name: _read_evidence(one, clients[name], draw_count) for name, one in named.items()},
            harm=written.optional("harm", lambda found: found.each(_read_harm)) or (),
            ending=written.optional("ending", _read_ending),
            ending_stability=written.optional("ending", lambda ending: _read_stability(ending, draw_count)),
            resting=written.optional("resting", lambda found: found.each(_Value.text)) or (),
            instructions=written.optional("instructions", _read_instructions) or Instructions(),
        ),
        clients=clients,
        budget=budget,
        iteration_accuracies=written["iteration_accuracies"].each(lambda row: row.by_name(_Value.measurable)),
        coalition_values=written["coalition_values"].each(
            lambda coalition: (coalition["coalition"].each(_Value.text), _read_estimate(coalition))
        ),
        events=written["events"].each(
            lambda event: Event(
                kind=event["kind"].text(), client=event["client"].unless_null(_Value.text), text=event["text"].text()
            )
        ),
        decision_map=written["mu_path"].unless_null(
            lambda pieces: DecisionMap(
                title=f"Round {number}",
                clients=tuple(client for client in clients if client not in decision.harmful),
                pieces=pieces.each(lambda piece: (_read_range(piece), piece["retained"].each(_Value.text))),
                breakpoints=written["breakpoints"].each(_Value.number),
                mu=decision.mu,
            )
        ),
    )


def _read_instructions(written: _Value) -> Instructions:
    return Instructions(
        participants=written.optional("participants", lambda found: found.each(_Value.text)),
        data_shares=written.optional("data_shares", lambda found: found.by_name(_Value.number)) or {},
        iteration_limit=written.optional("iteration_limit", _Value.whole),
        model_shares=written.optional("model_shares", lambda found: found.by_name(_Value.number)) or {},
    )


def _read_gains(written: _Value) -> RoundGains:
    try:
        return RoundGains.from_document(written.value)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _BrokenError(f"{written.place} must be the gains of a round, got one without {error}.") from None


def _read_evidence(written: _Value, figures: ClientRound, draw_count: int | None) -> Evidence:
    contribution_error = figures.contribution.standard_error
    return Evidence(
        profit_error=figures.profit.standard_error,
        contribution_error=None if contribution_error == math.inf else contribution_error,
        stability=_read_stability(written, draw_count),
        expected_error=None
        if figures.used is None or figures.used.expected_profit is None
        else figures.used.expected_profit.standard_error,
    )


def _read_stability(written: _Value, draw_count: int | None) -> Stability | None:
    share = written.optional("stability", _Value.number)
    if share is None or draw_count is None:
        return None
    return Stability(same_count=round(share * draw_count), draw_count=draw_count)


def _read_harm(written: _Value) -> HarmEvidence:
    return HarmEvidence(
        client=written["client"].text(),
        round_numbers=written["rounds"].each(_Value.whole),
        by_scorer=written["by_scorer"].by_name(_Value.number),
        test_count=written["test_count"].whole(),
        mean=written["mean"].number(),
        standard_error=written["standard_error"].number(),
        bound=written["bound"].number(),
        margin=written["margin"].number(),
    )


def _read_ending(written: _Value) -> Ending:
    return Ending(expected=written["expected"].by_name(_Value.number), best_budget=written["best_budget"].number())


def _read_decision(
    written: _Value, named: Mapping[str, _Value], clients: Mapping[str, ClientRound], budget: Estimate
) -> Decision:
    rules, retained = _read_rules(written["rules"]), written["retained"].each(_Value.text)

    if missing := [client for client in retained if client not in named]:
        raise _BrokenError(f"{written.place}.clients must include every retained client; {missing[0]!r} is missing.")
    costs = {client: figures.cost for client, figures in clients.items() if figures.cost is not None}
    used = {client: figures.used for client, figures in clients.items() if figures.used is not None}
    expected = {client: one.expected_profit.value for client, one in used.items() if one.expected_profit is not None}

    def of_retained(kind: str) -> dict[str, float]:
        return {client: _read_estimate(named[client][kind]).value for client in retained}

    return Decision(
        figures=Figures(
            profits={client: figures.profit.value for client, figures in clients.items()},
            contributions={client: figures.contribution.value for client, figures in clients.items()},
            costs=costs if len(costs) == len(clients) else None,
            expected=expected or None,
            further=written.optional("further", lambda found: found.by_name(lambda each: each.by_name(_Value.number)))
            or {},
        ),
        rules=rules,
        used_contributions={client: written["used_contribution"].number() for client, written in named.items()},
        retained=retained,
        eliminated=written["eliminated"].each(_Value.text),
        objective=written["objective"].number(),
        budget=budget.value,
        shares=of_retained("share"),
        payoffs=of_retained("payoff"),
        transfers=of_retained("transfer"),
        proven_gap=written["proven_gap"].number(),
        node_count=written["node_count"].whole(),
        limit_reached=written["node_limit_reached"].flag(),
        grace=written["grace"].flag(),
        harmful=written.optional("harmful", lambda names: names.each(_Value.text)) or (),
        finished=written.optional("finished", _Value.flag) or False,
        external=written.optional("external", _Value.number) or 0.0,
        charges=written.optional("charges", lambda found: found.by_name(_Value.number)) or {},
    )


def _read_client(written: _Value) -> ClientRound:
    return ClientRound(
        sample_count=written["sample_count"].whole(),
        training_count=written["training_count"].whole(),
        validation_count=written["validation_count"].whole(),
        step_count=written["step_count"].unless_null(_Value.whole),
        accuracy=_read_metric_estimate(written["accuracy"]),
        previous_accuracy=written["previous_accuracy"].measurable(),
        utility=written["utility"].unless_null(_read_estimate),
        cost=written["cost"].unless_null(_Value.number),
        profit=_read_estimate(written["profit"]),
        contribution=_read_estimate(written["contribution"]),
        share=written["share"].unless_null(_read_estimate),
        payoff=written["payoff"].unless_null(_read_estimate),
        transfer=written["transfer"].unless_null(_read_estimate),
        sentence=written["sentence"].text(),
        stays_for_mu=written["stays_for_mu"].unless_null(lambda ranges: ranges.each(_read_range)),
        alone=written.optional("alone", _read_metric_estimate),
        alone_cost=written.optional("alone_cost", _Value.number),
        advantage=written.optional("advantage", _read_metric_estimate),
        used=written.optional("used", _read_used),
        actual_profit=written.optional("actual_profit", _read_estimate),
    )


def _read_used(written: _Value) -> UsedFigures:
    return UsedFigures(
        measured_gain=written["measured_gain"].unless_null(_read_estimate),
        used_gain=written["used_gain"].number(),
        measured_profit=written["measured_profit"].unless_null(_read_estimate),
        expected_gain=written["expected_gain"].unless_null(_Value.number),
        expected_profit=written["expected_profit"].unless_null(_read_estimate),
    )


def _read_estimate(written: _Value) -> Estimate:
    return Estimate(
        value=written["value"].number(), standard_error=written["standard_error"].unless_null(_Value.number)
    )


def _read_metric_estimate(written: _Value) -> Estimate:
    return Estimate(
        value=written["value"].measurable(), standard_error=written["standard_error"].unless_null(_Value.number)
    )


def _read_range(written: _Value) -> MuRange:
    return MuRange(
        exact_lower=written["lower"].number(),
        exact_upper=written["upper"].number(),
        closed_below=written["includes_lower"].flag(),
        closed_above=written["includes_upper"].flag(),
    )
