"""Run reports with real decisions on made-up figures: accuracies rise and level off, costs stay the same."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

import commonweal as cw
from commonweal import metrics
from commonweal.decision.explain import explain
from commonweal.decision.mechanisms import make_mechanism
from commonweal.decision.reasons import reason
from commonweal.federation.advice import advise_on_run
from commonweal.federation.evidence import stated_evidence
from commonweal.records import (
    ClientRound,
    DecisionMap,
    Ending,
    Estimate,
    Event,
    Evidence,
    History,
    MechanismFacts,
    MetricName,
    PairedGain,
    RoundRecord,
    RoundReport,
    Rules,
    RunReport,
    UsedFigures,
)
from commonweal.valuation.harm import harm_evidence
from commonweal.valuation.used_gains import used_gains

ACCURACY = MetricName()
UNKNOWN = Estimate(value=math.nan, standard_error=None)
ROC_AUC = MetricName(name="roc-auc", label="ROC AUC", is_share=False)


def make_run_report(
    *,
    clients,
    round_count,
    mu,
    seed=1,
    costs=None,  # by client, of a round
    accuracies=None,  # by client: where its accuracy levels off
    contributions=None,  # by client: its weight
    absences=(),  # pairs of round and client
    events=None,  # by round
    name="digits",
    private=False,
    known_errors=True,
    with_maps=True,
    metric=ACCURACY,
    utility="gain",
    alone=None,  # by client: what its model alone falls short of the federation's; None: nobody trains alone
    unmeasurable=(),  # clients whose metric cannot be measured
    actual_profits=None,  # by client, of those that report another profit
):
    """Run rounds until at most one client is left."""
    random = np.random.default_rng(seed)
    costs = costs or dict.fromkeys(clients, 0.02)
    levels = accuracies or dict.fromkeys(clients, 0.9)
    weights = contributions or dict.fromkeys(clients, 1.0)
    accuracy = dict.fromkeys(clients, 0.1)
    active = list(clients)
    rules = Rules(mu=mu)
    results: list[RoundReport] = []
    for number in range(1, round_count + 1):
        if len(active) < min(2, len(clients)):
            break
        present = [client for client in active if (number, client) not in absences]
        previous = dict(accuracy)
        for client in present:
            gained = 0.45 * (levels[client] - accuracy[client]) + random.normal(0, 0.006)
            accuracy[client] = float(np.clip(accuracy[client] + gained, 0, 1))
        profits = {client: accuracy[client] - previous[client] - costs[client] for client in present}
        measured = {client: weights[client] * 0.05 / number + random.normal(0, 0.004) for client in present}
        known_costs = None if private else {client: costs[client] for client in present}
        decision = cw.decide(profits=profits, contributions=measured, costs=known_costs, mu=mu)
        path = cw.mu_path(profits=profits, contributions=measured)
        evidence = _evidence(decision, number) if known_errors else dict.fromkeys(present, Evidence())

        def estimate(value, error):
            return Estimate(value=float(value), standard_error=error if known_errors else None)

        def figures_of(
            client,
            decision=decision,
            path=path,
            previous=previous,
            measured=measured,
            number=number,
            evidence=evidence,
        ):
            stays = client in decision.shares
            measurable = client not in unmeasurable
            of_model = estimate(accuracy[client], 0.03 / math.sqrt(number)) if measurable else UNKNOWN
            by_itself = {}
            if alone is not None:
                short = alone[client]
                by_itself = {
                    "alone": estimate(accuracy[client] - short, 0.04 / math.sqrt(number)) if measurable else UNKNOWN,
                    "alone_cost": None if private else 0.5 * costs[client],
                    "advantage": estimate(short, 0.02 / math.sqrt(number)) if measurable else UNKNOWN,
                }
            return ClientRound(
                sample_count=100,
                training_count=70 * number,
                validation_count=30 * number,
                step_count=12,
                accuracy=of_model,
                previous_accuracy=previous[client] if measurable else math.nan,
                utility=None if private else estimate(accuracy[client] - previous[client], 0.012),
                cost=None if private else costs[client],
                profit=estimate(decision.figures.profits[client], 0.012),
                contribution=estimate(measured[client], 0.006),
                share=estimate(decision.shares[client], 0.05) if stays else None,
                payoff=estimate(decision.payoffs[client], 0.009) if stays else None,
                transfer=estimate(decision.transfers[client], 0.008) if stays else None,
                sentence=reason(
                    decision, client, evidence[client], explain(decision, client, path if with_maps else None).sentence
                ),
                stays_for_mu=path.stays(client) if with_maps else None,
                actual_profit=estimate(actual_profits[client], 0.012) if client in (actual_profits or {}) else None,
                **by_itself,
            )

        results.append(
            RoundReport(
                record=RoundRecord(
                    round_number=number,
                    decision=decision,
                    absent=tuple(c for c in active if c not in present),
                    evidence=evidence,
                ),
                clients={client: figures_of(client) for client in present},
                budget=estimate(decision.budget, 0.02),
                iteration_accuracies=tuple(
                    {client: math.nan if client in unmeasurable else values[client] for client in present}
                    for values in (previous, accuracy)
                ),
                coalition_values=(
                    ((), estimate(np.mean([previous[client] for client in present]), 0.01)),
                    (tuple(present), estimate(np.mean([accuracy[client] for client in present]), 0.01)),
                ),
                events=tuple((events or {}).get(number, ())),
                decision_map=DecisionMap(
                    title=f"Round {number}",
                    clients=path.clients,
                    pieces=path.pieces(),
                    breakpoints=path.breakpoints,
                    mu=mu,
                )
                if with_maps
                else None,
            )
        )
        active = [client for client in active if client not in decision.eliminated]
    summarised = _summarised(clients, results, round_count, rules, name, known_errors)
    return replace(summarised, metric=metric, utility=utility, advice=advise_on_run(summarised.rounds, metric=metric))


def _evidence(decision, number):
    """With the standard errors that the figures have."""
    given = replace(
        decision.figures,
        profit_errors=dict.fromkeys(decision.figures.clients, 0.012),
        contribution_errors=dict.fromkeys(decision.figures.clients, 0.006),
    )
    return stated_evidence(replace(decision, figures=given), make_mechanism(decision.rules), {}, number)


def _summarised(clients, results, round_count, rules, name, known_errors):
    history = History(clients=tuple(clients), rounds=tuple(each.record for each in results))
    error = 0.02 if known_errors else None
    left = {client: each.number for each in results for client in each.record.decision.eliminated}
    failures = metrics.irrational_rounds(history)
    transfers = dict.fromkeys(clients, 0.0)
    for each in results:
        for client, amount in each.record.decision.transfers.items():
            transfers[client] += amount
    stayed = [client for client in clients if client not in left]
    return RunReport(
        name=name,
        description="Five hospitals learn to read digits; two data sets are hard.",
        sentence=(
            f"After {len(results)} rounds {len(stayed)} of {len(clients)} clients are in the federation "
            f"({', '.join(stayed) or 'nobody'}); together they gained {metrics.tsw(history)[-1]:.4g}."
        ),
        settings={"seed": "1", "model": "compact", "algorithm": "FedBN", "contribution": "marginal"},
        scenario={
            "name": name,
            "mechanism": {"mu": rules.mu},
            "clients": [{"name": c, "rate": 100.0} for c in clients],
        },
        rules=rules,
        mechanism=MechanismFacts(
            description=f"Travadi et al. 2023 (full), mu {rules.mu:g}",
            fidelity="full",
            reads=("profit", "contribution"),
            decides=(),
            not_carried_out=(),
            takes_mu=True,
            honours=("contribution_rule", "loss_rule", "liability_cap"),
        ),
        clients=tuple(clients),
        client_facts={
            client: {"source": "built-in digits", "samples a round": "100", "cost of a sample": "0.0002"}
            for client in clients
        },
        declared=("sample_count",),
        round_count=round_count,
        rounds=tuple(results),
        tsw=tuple(Estimate(value=v, standard_error=error) for v in metrics.tsw(history)),
        tsfi=tuple(Estimate(value=v, standard_error=error) for v in metrics.tsfi(history)),
        tsfi_final_set=tuple(Estimate(value=v, standard_error=error) for v in metrics.tsfi_final_set(history)),
        durations=metrics.durations(history),
        eliminated_after={client: left.get(client) for client in clients},
        withdrawn_after={client: each.number for each in results for client in each.record.withdrawn},
        total_payoffs={c: Estimate(value=v, standard_error=error) for c, v in metrics.total_payoffs(history).items()},
        total_transfers={c: Estimate(value=v, standard_error=error) for c, v in transfers.items()},
        warnings=tuple(
            f"Individual rationality failed in round {number}: {', '.join(by_client)} had a negative payoff."
            for number, by_client in failures.items()
        ),
    )


def hospitals():
    """Eight rounds, five clients, two eliminations, one absence, one pool that runs dry."""
    return make_run_report(
        clients=("MNIST", "SVHN", "USPS", "SynthDigits", "MNIST-M"),
        round_count=8,
        mu=0.03,
        costs={"MNIST": 0.004, "SVHN": 0.05, "USPS": 0.004, "SynthDigits": 0.03, "MNIST-M": 0.008},
        accuracies={"MNIST": 0.96, "SVHN": 0.5, "USPS": 0.94, "SynthDigits": 0.72, "MNIST-M": 0.83},
        contributions={"MNIST": 1.6, "SVHN": 0.5, "USPS": 1.0, "SynthDigits": 0.8, "MNIST-M": 1.2},
        absences={(3, "USPS")},
        events={6: (Event(kind="pool-dry", client="MNIST", text="MNIST's pool ran dry: 41 of 97 samples came."),)},
    )


def pair():
    """One round, two clients, nobody eliminated."""
    return make_run_report(clients=("north", "south"), round_count=1, mu=0.1)


def dissolved():
    """Everybody makes a loss in round 1 and mu is 0, so all are eliminated and no money moves."""
    return make_run_report(clients=("a", "b", "c"), round_count=5, mu=0.0, costs=dict.fromkeys("abc", 2.0))


def lenient():
    """Nobody is ever eliminated, figures are private, errors and μ paths unknown."""
    return make_run_report(
        clients=("a", "b", "c"), round_count=4, mu=math.inf, private=True, known_errors=False, with_maps=False
    )


def clinics():
    """Measured by ROC AUC against models trained alone; one gains, one loses, one cannot tell, one is unmeasurable.

    The one that gains understates its profit.
    """
    return make_run_report(
        clients=("gains", "loses", "equal", "single-class"),
        round_count=3,
        mu=0.05,
        metric=ROC_AUC,
        utility="advantage",
        alone={"gains": 0.08, "loses": -0.06, "equal": 0.01, "single-class": 0.0},
        unmeasurable={"single-class"},
        actual_profits={"gains": 0.9},
        events={
            1: (
                Event(
                    kind="unmeasurable",
                    client="single-class",
                    text="ROC AUC cannot be measured at 'single-class': all of its 4 samples are of one class.",
                ),
            )
        },
    )


def with_forecasts(run_report):
    """As if its profits had followed from pooled gains, and selection from forecasts."""
    tables, rounds = [], []
    for each in run_report.rounds:
        tables.append(
            {
                client: PairedGain(
                    gain=row.accuracy.value - row.previous_accuracy,
                    sample_count=row.validation_count,
                    squared_change=row.validation_count / 10,
                )
                for client, row in each.clients.items()
            }
        )
        gains = used_gains("forecast/1", tables)
        expected = {client: gain - each.clients[client].cost for client, gain in gains.expected.items()}
        figures = replace(each.record.decision.figures, expected=expected)
        clients = {
            client: replace(
                row,
                used=UsedFigures(
                    measured_gain=Estimate(value=gains.table[client].gain, standard_error=0.02),
                    used_gain=gains.pooled[client],
                    measured_profit=Estimate(value=row.profit.value, standard_error=0.03),
                    expected_gain=gains.expected[client],
                    expected_profit=Estimate(value=expected[client], standard_error=0.01),
                ),
            )
            for client, row in each.clients.items()
        }
        record = replace(each.record, gains=gains, decision=replace(each.record.decision, figures=figures))
        rounds.append(replace(each, record=record, clients=clients))
    return replace(run_report, rounds=tuple(rounds), figures="forecast")


def advised():
    """The operator is told that a client is harmful, and then that the federation is finished."""
    report = make_run_report(clients=("ann", "bob", "cyd", "dan"), round_count=3, mu=math.inf)
    evidence = harm_evidence("dan", (1, 2), {"ann": -0.031, "bob": -0.03, "cyd": -0.0305}, 12, -0.01)
    ending = Ending(expected={"ann": -0.01, "bob": 0.0, "cyd": -0.02, "dan": -0.3}, best_budget=-0.01)
    told = {2: {"harm": (evidence,)}, 3: {"harm": (evidence,), "ending": ending}}
    rounds = tuple(replace(each, record=replace(each.record, **told.get(each.number, {}))) for each in report.rounds)
    return replace(report, rounds=rounds)


def crowd(client_count=30, round_count=12):
    """Thirty clients with various levels and costs."""
    clients = tuple(f"clinic {place:02d}" for place in range(1, client_count + 1))
    spread = np.linspace(0, 1, client_count)
    return make_run_report(
        clients=clients,
        round_count=round_count,
        mu=0.05,
        costs={client: float(0.002 + 0.04 * part) for client, part in zip(clients, spread, strict=True)},
        accuracies={client: float(0.95 - 0.4 * part) for client, part in zip(clients, spread, strict=True)},
        contributions={client: float(1.5 - part) for client, part in zip(clients, spread, strict=True)},
    )


RUDE_NAMES = (
    "<script>document.title = 'owned'</script>",
    "$\\frac{1}{0}$ & \"quotes\" 'too'",
    "病院 Ünïcödé مستشفى",
    "Saint " + "Very-Long-" * 30 + "Hospital",
    "</details><img src=x onerror=alert(1)>${name}",
    "{{ 7 * 7 }} {% raw %} {# no comment #}",
    "url(#a) id=\"x\" \x1b[31m",
)  # fmt: skip


def rude():
    """Names that try to break out of wherever they are put."""
    levels = dict(zip(RUDE_NAMES, (0.9, 0.5, 0.9, 0.8, 0.7, 0.9, 0.9), strict=True))
    costs = {name: 0.3 if "onerror" in name else 0.02 for name in RUDE_NAMES}
    return make_run_report(
        clients=RUDE_NAMES,
        round_count=4,
        mu=0.01,
        accuracies=levels,
        costs=costs,
        name="<b>$name</b> \"quoted\" & 'more'",
    )
