"""Write and read history.json: the whole run report in one file, for programs.

Every field is described in docs/reference/history-json.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn, TypeVar, get_args

from commonweal.atomic_write import write_atomically
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
from commonweal.scenario.spec import UtilityRule

SCHEMA = "commonweal.history/1"

_T = TypeVar("_T")


def write_history(run_report: RunReport, path: Path) -> None:
    """Write history.json; the same run report gives the same bytes."""
    text = json.dumps(to_document(run_report), indent=1, ensure_ascii=False, allow_nan=False)
    write_atomically(path, f"{text}\n".encode(), what="the history")


def to_document(run_report: RunReport) -> dict[str, Any]:
    """The run report in the types of JSON; infinity is the string "inf", and a metric that cannot be measured null."""
    return {
        "schema": SCHEMA,
        "version": version("commonweal"),
        "name": run_report.name,
        "description": run_report.description,
        "sentence": run_report.sentence,
        "outcome": run_report.outcome,
        "settings": dict(run_report.settings),
        "scenario": _plain(run_report.scenario),
        "rules": rules_document(run_report.rules),
        "mechanism": None if run_report.mechanism is None else _plain(asdict(run_report.mechanism)),
        "metric": asdict(run_report.metric),
        "utility": run_report.utility,
        "figures": run_report.figures,
        **({} if run_report.profits == "private" else {"profits": run_report.profits}),
        "clients": list(run_report.clients),
        "declared": list(run_report.declared),
        "client_facts": {client: dict(facts) for client, facts in run_report.client_facts.items()},
        "round_count": run_report.round_count,
        "rounds": [_round(result) for result in run_report.rounds],
        "payments": [
            {"round": number, "payer": payer, "receiver": receiver, "amount": _number(amount)}
            for number, payer, receiver, amount in run_report.payments
        ],
        "totals": {
            "tsw": [_estimate(total) for total in run_report.tsw],
            "tsfi": [_estimate(total) for total in run_report.tsfi],
            "tsfi_final_set": [_estimate(total) for total in run_report.tsfi_final_set],
            "durations": dict(run_report.durations),
            "eliminated_after": dict(run_report.eliminated_after),
            "harmful_after": run_report.harmful_after,
            "withdrawn_after": dict(run_report.withdrawn_after),
            "payoffs": {client: _estimate(total) for client, total in run_report.total_payoffs.items()},
            "transfers": {client: _estimate(total) for client, total in run_report.total_transfers.items()},
        },
        "warnings": list(run_report.warnings),
        "advice": None if run_report.advice is None else advice_document(run_report.advice),
    }


def rules_document(rules: Rules) -> dict[str, Any]:
    """The rules with their version."""
    return {**rules.to_document(), "version": rules.version}


def _round(result: RoundReport) -> dict[str, Any]:
    decision, drawn = result.record.decision, result.decision_map
    below = decision.irrational
    return {
        "round": result.number,
        "rules": rules_document(decision.rules),
        "grace": decision.grace,
        "retained": list(decision.retained),
        "eliminated": list(decision.eliminated),
        "harmful": list(decision.harmful),
        "finished": decision.finished,
        "absent": list(result.record.absent),
        "silent": list(result.record.silent),
        "excluded": list(result.record.excluded),
        "withdrawn": list(result.record.withdrawn),
        "objective": _number(decision.objective),
        "budget": _estimate(result.budget),
        "proven_gap": _number(decision.proven_gap),
        "node_count": decision.node_count,
        "node_limit_reached": decision.limit_reached,
        "individual_rationality": {
            "held": not below,
            "violations": {client: _number(amount) for client, amount in below.items()},
        },
        "breakpoints": None if drawn is None else [_number(mu) for mu in drawn.breakpoints],
        "mu_path": None if drawn is None else _pieces(drawn),
        "clients": [_client(result, client, figures) for client, figures in result.clients.items()],
        "iteration_accuracies": [
            {client: _measurable(accuracy) for client, accuracy in accuracies.items()}
            for accuracies in result.iteration_accuracies
        ],
        "coalition_values": [
            {"coalition": list(coalition), "value": _number(worth.value), "standard_error": _error(worth)}
            for coalition, worth in result.coalition_values
        ],
        "events": [{"kind": event.kind, "client": event.client, "text": event.text} for event in result.events],
        "draw_count": result.record.draw_count,
        "gains": None if result.record.gains is None else result.record.gains.to_document(result.number),
        "harm": [_harm(evidence) for evidence in result.record.harm],
        "ending": None if result.record.ending is None else _ending(result.record.ending, result.record),
        **other_mechanisms_document(result.record),
    }


def other_mechanisms_document(record: RoundRecord) -> dict[str, Any]:
    """What only some mechanisms read or decide; fields that do not apply are left out."""
    decision, instructions = record.decision, record.instructions.to_document()
    further = {name: {c: _number(v) for c, v in column.items()} for name, column in decision.figures.further.items()}
    charges = {client: _number(charge) for client, charge in decision.charges.items()}
    return {
        **({"further": further} if further else {}),
        **({"external": _number(decision.external), "charges": charges} if decision.takes_external_money else {}),
        **({"resting": list(record.resting)} if record.resting else {}),
        **({"instructions": _plain(instructions)} if instructions else {}),
    }


def _harm(evidence: HarmEvidence) -> dict[str, Any]:
    return {
        "client": evidence.client,
        "rounds": list(evidence.round_numbers),
        "by_scorer": {scorer: _number(effect) for scorer, effect in evidence.by_scorer.items()},
        "test_count": evidence.test_count,
        "mean": _number(evidence.mean),
        "standard_error": _number(evidence.standard_error),
        "bound": _number(evidence.bound),
        "margin": _number(evidence.margin),
    }


def _ending(ending: Ending, record: RoundRecord) -> dict[str, Any]:
    stability = record.ending_stability
    return {
        "expected": {client: _number(profit) for client, profit in ending.expected.items()},
        "best_budget": _number(ending.best_budget),
        "stability": None if stability is None else stability.share,
    }


def _client(result: RoundReport, client: str, figures: ClientRound) -> dict[str, Any]:
    decision = result.record.decision
    return {
        "client": client,
        "candidate": client in decision.candidates,
        "retained": client in decision.retained,
        "sample_count": figures.sample_count,
        "training_count": figures.training_count,
        "validation_count": figures.validation_count,
        "step_count": figures.step_count,
        "accuracy": _metric_estimate(figures.accuracy),
        "previous_accuracy": _measurable(figures.previous_accuracy),
        "utility": _estimate(figures.utility),
        "cost": None if figures.cost is None else _number(figures.cost),
        "profit": _estimate(figures.profit),
        "contribution": _estimate(figures.contribution),
        "used_contribution": _number(decision.used_contributions[client]),
        "share": _estimate(figures.share),
        "payoff": _estimate(figures.payoff),
        "transfer": _estimate(figures.transfer),
        "stability": stability_share(result.record, client),
        "sentence": figures.sentence,
        "stays_for_mu": None
        if figures.stays_for_mu is None
        else [range_document(range_) for range_ in figures.stays_for_mu],
        **_alone(figures),
        "used": None if figures.used is None else _used(figures.used),
        **({} if figures.actual_profit is None else {"actual_profit": _estimate(figures.actual_profit)}),
    }


def stability_share(record: RoundRecord, client: str) -> float | None:
    """From 0 to 1; null where it is not known."""
    stability = record.stability_of(client)
    return None if stability is None else stability.share


def _alone(figures: ClientRound) -> dict[str, Any]:
    """The fields of a client that also trains a model alone."""
    if figures.alone is None or figures.advantage is None:
        return {}
    return {
        "alone": _metric_estimate(figures.alone),
        "alone_cost": None if figures.alone_cost is None else _number(figures.alone_cost),
        "advantage": _metric_estimate(figures.advantage),
    }


def _used(used: UsedFigures) -> dict[str, Any]:
    return {
        "measured_gain": _estimate(used.measured_gain),
        "used_gain": _number(used.used_gain),
        "measured_profit": _estimate(used.measured_profit),
        "expected_gain": None if used.expected_gain is None else _number(used.expected_gain),
        "expected_profit": _estimate(used.expected_profit),
    }


def advice_document(advice: Advice) -> dict[str, Any]:
    """Advice in the types of JSON."""
    return {
        "verdict": advice.verdict,
        "sentence": advice.sentence,
        "improvement": _improvement(advice.improvement),
        "clients": [
            {
                "client": client,
                "verdict": told.verdict,
                "sentence": told.sentence,
                "improvement": _improvement(told.improvement),
            }
            for client, told in advice.clients.items()
        ],
    }


def _improvement(improvement: Improvement | None) -> dict[str, Any] | None:
    if improvement is None:
        return None
    return {
        "mean": _number(improvement.mean),
        "low": _number(improvement.low),
        "high": _number(improvement.high),
    }


def _pieces(drawn: DecisionMap) -> list[dict[str, Any]]:
    return [{**range_document(range_), "retained": list(retained)} for range_, retained in drawn.pieces]


def range_document(range_: MuRange) -> dict[str, Any]:
    """A range of μ: its bounds as doubles, and whether it includes these doubles."""
    return {
        "lower": _number(range_.lower),
        "upper": _number(range_.upper),
        "includes_lower": range_.includes_lower,
        "includes_upper": range_.includes_upper,
    }


def _estimate(estimate: Estimate | None) -> dict[str, Any] | None:
    if estimate is None:
        return None
    return {"value": _number(estimate.value), "standard_error": _error(estimate)}


def _metric_estimate(estimate: Estimate) -> dict[str, Any]:
    return {"value": _measurable(estimate.value), "standard_error": _error(estimate)}


def _error(estimate: Estimate) -> float | str | None:
    return None if estimate.standard_error is None else _number(estimate.standard_error)


def _measurable(value: float) -> float | str | None:
    """A metric; null where it cannot be measured."""
    return None if math.isnan(value) else _number(value)


def _number(value: float) -> float | str:
    """JSON has no infinity."""
    value = float(value)
    assert not math.isnan(value), "a figure of a run report is a number"
    return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def _plain(value: object) -> Any:
    """A scenario's nested mappings and sequences in the types of JSON."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        return _number(value)
    assert value is None or isinstance(value, str | int), f"a scenario has only TOML types, got {type(value)}"
    return value


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
