"""Where a round departs from the terms of its ledger: the ledger refuses to settle it, and verification finds it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from commonweal.decision.ending import find_ending
from commonweal.errors import InputError, LedgerError
from commonweal.ledger.agreed_rules import AgreedRules
from commonweal.ledger.canonical import Document, first_difference
from commonweal.ledger.fates import harmful_in
from commonweal.ledger.reports import ReportBasis
from commonweal.ledger.state import LedgerState
from commonweal.ledger.terms import Terms
from commonweal.records import Rates
from commonweal.records.rounds import GAIN
from commonweal.task.metrics import METRICS, Metric
from commonweal.valuation.exact import QUANTITY, quantity
from commonweal.valuation.harm import VERSION as HARM_VERSION
from commonweal.valuation.harm import is_minority
from commonweal.valuation.profit import utility
from commonweal.valuation.rates import rated_cost, rated_profit

_MISSING = object()


@dataclass(frozen=True, slots=True)
class Departure:
    """Something that a round states otherwise than the terms."""

    what: str
    agreed: str
    found: str

    def __str__(self) -> str:
        return f"{self.what} is {self.agreed} in the terms and {self.found} in the round"


def check_departures(body: Mapping[str, Any], state: LedgerState) -> None:
    """Refuse a round that departs from the terms in force for it."""
    found = list(departures(body, state))
    if found:
        raise LedgerError(
            f"Round {body['round']} departs from the terms of this ledger: {'; '.join(map(str, found[:5]))}. Settle it "
            "by the terms, or amend them first."
        )


def departures(body: Mapping[str, Any], state: LedgerState) -> Iterator[Departure]:
    """Of a round's entry, from the terms in force for the round. Python's own errors if the entry is damaged."""
    in_force = state.terms_of(body["round"])
    agreed = in_force.terms.agreed
    if agreed is None:
        return
    yield from _compared("terms", in_force.hash, body.get("terms"))
    yield from _rules(agreed, body)
    yield from _course(agreed, body)
    yield from _measuring(agreed, body)
    if agreed.metric is not None and agreed.metric in METRICS:
        yield from _metrics(METRICS[agreed.metric], body)
    if agreed.measure == QUANTITY.name:
        yield from _counted(body["inputs"])
    yield from _limits(agreed, body)
    if agreed.rates is not None:
        for row in body["inputs"]:
            yield from _by_rates(agreed, agreed.rates.of(row["client"]), row, body.get("gains"))
    if agreed.settlement_version >= 2:
        named = {"inputs": [row["client"] for row in body["inputs"]], "absent": body["absent"]}
        for what, clients in {**named, "resting": body.get("resting", ())}.items():
            yield from _order(what, clients, state)


def departures_of_late(document: Mapping[str, Any], state: LedgerState) -> Iterator[Departure]:
    """Of a late report, from the terms in force for its round: it has figures as if it had come in time.

    Python's own errors if it is damaged.
    """
    agreed, client = state.terms_of(document["round"]).terms.agreed, document["client"]
    if agreed is None:
        return
    row: dict[str, Any] = {name: document.get(name) for name in ("client", "profit", "sample_count", "cost")}
    row["further"] = document.get("further", {})
    if "baseline" in document:  # what it rests on, which reports of the first formats do not say
        row["report"] = {name: document.get(name) for name in ("baseline", "measured")}
    body = {"inputs": [row], "round": document["round"]}
    if agreed.metric is not None and agreed.metric in METRICS:
        yield from _metrics(METRICS[agreed.metric], body)
    yield from _limits(agreed, body)
    if agreed.rates is not None:  # its gain is its own: nobody pools it any more
        yield from _by_rates(agreed, agreed.rates.of(client), row, None)
    gain = row["further"].get(GAIN)
    if gain is not None and "report" in row:
        basis = ReportBasis.from_document({**document, "earlier": []}, document["terms"])
        if basis.change is not None and not basis.is_gain(abs(gain), abs(basis.change)):
            yield Departure(f"the gain of {client}", f"{basis.change!r} by the metrics that it signed", _text(gain))


def stated_terms(terms: Terms, measured_by: Mapping[str, Any] | None) -> Document:
    """What the entry of a round states so that departures can be found; nothing if no rules were agreed on."""
    if terms.agreed is None:
        return {}
    return {"terms": terms.digest(), "measured_by": None if measured_by is None else dict(measured_by)}


def _compared(what: str, agreed: object, found: object) -> Iterator[Departure]:
    difference = first_difference(agreed, found)
    if difference is not None:
        yield Departure(what, _text(agreed), _text(found))


def _rules(agreed: AgreedRules, body: Mapping[str, Any]) -> Iterator[Departure]:
    yield from _compared("rules_version", agreed.rules_version, body["rules_version"])
    expected, found = agreed.rules.to_document(), body["rules"]
    for name in dict.fromkeys((*expected, *found)):
        yield from _compared(name, expected.get(name, _MISSING), found.get(name, _MISSING))


def _course(agreed: AgreedRules, body: Mapping[str, Any]) -> Iterator[Departure]:
    number = body["round"]
    yield from _compared("grace", number <= agreed.grace_rounds, body["grace"])
    if agreed.round_count is not None and number > agreed.round_count:
        yield Departure("the last round", str(agreed.round_count), str(number))
    if "ending" in body and agreed.ending == "none":
        yield Departure("ending", "none", "an ending")
    elif "ending" in body and body["grace"]:
        yield Departure("ending", "none in a grace round", "an ending")
    elif "ending" in body:
        yield from _compared("ending", agreed.ending == "stop", body["ending"]["ends"])
    elif agreed.ending != "none" and not body["grace"] and _has_ended(body):
        yield Departure("ending", agreed.ending, "none, though no further round is expected to pay")
    harmful = body["harm"]["found"] if "harm" in body else ()
    if harmful and agreed.harm == "none":
        yield Departure("harm", "none", "evidence of harm")
    if harmful:
        yield from _compared("the version of the test for harm", HARM_VERSION, body["harm"]["version"])
    eliminated = harmful_in(body)
    if eliminated and agreed.harm == "advise":
        yield Departure("harm", "advise", f"the elimination of {eliminated[0]}")
    spared = [row["client"] for row in harmful if row["client"] not in eliminated]
    if spared and agreed.harm == "eliminate" and (eliminated or is_minority(len(harmful), len(body["inputs"]))):
        yield Departure("harm", "eliminate", f"no elimination of {spared[0]}")


def _has_ended(body: Mapping[str, Any]) -> bool:
    harmful = harmful_in(body)
    expected = {row["client"]: row.get("expected_profit") for row in body["inputs"] if row["client"] not in harmful}
    return bool(expected) and None not in expected.values() and find_ending(expected) is not None


def _measuring(agreed: AgreedRules, body: Mapping[str, Any]) -> Iterator[Departure]:
    stated = body.get("measured_by")
    if not isinstance(stated, dict):
        yield Departure("measured_by", "stated in each round", _text(stated))
    else:
        for name in dict.fromkeys((*agreed.measured_by, *stated)):
            yield from _compared(name, agreed.measured_by.get(name, _MISSING), stated.get(name, _MISSING))
    used = body["gains"]["table"]["version"].partition("/")[0] if "gains" in body else "measured"
    yield from _compared("figures", agreed.figures, used)


def _metrics(metric: Metric, body: Mapping[str, Any]) -> Iterator[Departure]:
    """What is known of a metric that is built in: the bounds of its values."""
    for row in body["inputs"]:
        for name in ("baseline", "measured"):
            value = row["report"].get(name) if "report" in row else None
            if value is not None and not metric.can_be(value):
                what = f"the {name} of {row['client']}"
                yield Departure(what, f"{metric.name}, from {metric.lowest:g} to {metric.highest:g}", _text(value))
        gain = row.get("further", {}).get(GAIN)
        follows = "report" in row and not _has_unsigned_metric(row)  # from metrics that are within the bounds
        if gain is not None and not follows and not metric.can_differ_by(gain):
            most = metric.highest - metric.lowest
            yield Departure(f"the gain of {row['client']}", f"in {metric.name}, at most {most:g} in size", _text(gain))
    if "gains" in body and body["gains"]["table"]["rows"]:
        yield from _compared("bounded in the table of gains", metric.is_bounded, body["gains"]["table"]["bounded"])


def _counted(inputs: Sequence[Mapping[str, Any]]) -> Iterator[Departure]:
    """Contributions by quantity are the new samples that clients signed; those by other measures are the operator's."""
    for row in inputs:
        client, count = row["client"], row["sample_count"]
        if count is None or row["contribution"] != quantity([client], {client: count}).values[client]:
            samples = "missing" if count is None else f"{count}, the number of its new samples"
            yield Departure(f"the contribution of {client}", samples, _text(row["contribution"]))


def _limits(agreed: AgreedRules, body: Mapping[str, Any]) -> Iterator[Departure]:
    for row in body["inputs"]:
        client, count = row["client"], row["sample_count"]
        low, high = agreed.profit_bounds.get(client, (-math.inf, math.inf))
        for name in ("profit", "expected_profit"):  # anything but a number is a finding of its own
            if type(row.get(name)) in (int, float) and not low <= row[name] <= high:
                what = f"the {name.replace('_', ' ')} of {client}"
                yield Departure(what, f"from {low:g} to {high:g}", f"{row[name]:g}")
        most = agreed.most_samples.get(client)
        if most is not None and (count is None or count > most):
            yield Departure(f"the number of new samples of {client}", f"at most {most}", _text(count))
    for row in body["gains"]["table"]["rows"] if "gains" in body else ():
        most = agreed.most_samples.get(row["client"])
        if most is not None and row["sample_count"] > most * body["round"]:
            what = f"the number of validation samples of {row['client']}"
            yield Departure(what, f"at most {most} for each round so far", _text(row["sample_count"]))


def _by_rates(
    agreed: AgreedRules, rates: Rates | None, row: Mapping[str, Any], gains: Mapping[str, Any] | None
) -> Iterator[Departure]:
    """Compute what follows from agreed rates again, to the last bit, from the client's gain and new samples."""
    client, count, further = row["client"], row["sample_count"], row.get("further", {})
    gain = further.get(GAIN) if gains is None else gains["pooled"].get(client, 0.0)
    if rates is None:
        yield Departure(f"the rate of {client}", "missing", "needed for its profit")
        return
    for what, value in (("the gain", gain), ("the number of new samples", count)):
        if value is None:
            yield Departure(f"{what} of {client}", "needed for its profit", "missing")
            return
    own = gain if gains is None else _own_gain(gains, client)
    if agreed.utility == "gain" and own and _has_unsigned_metric(row):
        yield Departure(f"the gain of {client}", "0 without both metrics that it is the change of", _text(own))

    def profit_of(gain: Any) -> float:
        return rated_profit(rates, float(gain), count, is_advantage=agreed.utility == "advantage")

    try:
        stated = {"profit": (profit_of(gain), row["profit"])}
        if row["cost"] is not None:
            stated["cost"] = rated_cost(rates, count), row["cost"]
        if "utility" in further:
            stated["utility"] = utility(rates.gain, float(gain), 0.0), further["utility"]
        if gains is not None and gains["expected"] is not None:
            stated["expected profit"] = profit_of(gains["expected"].get(client, 0.0)), row.get("expected_profit")
    except InputError as error:
        yield Departure(f"the profit of {client}", "computed from agreed rates", f"impossible to compute: {error}")
        return
    for what, (expected, found) in stated.items():
        if found != expected:
            yield Departure(f"the {what} of {client}", f"{expected!r} by the agreed rates", _text(found))


def _own_gain(gains: Mapping[str, Any], client: str) -> Any:
    """What a client measured of the round, before anything is pooled."""
    return next((row["gain"] for row in gains["table"]["rows"] if row["client"] == client), 0.0)


def _has_unsigned_metric(row: Mapping[str, Any]) -> bool:
    """Whether a client that signs what its report rests on did not sign the metric of both models."""
    return "report" in row and None in (row["report"]["baseline"], row["report"].get("measured"))


def _order(what: str, clients: Sequence[str], state: LedgerState) -> Iterator[Departure]:
    place = {client: number for number, client in enumerate(state.members)}
    known = [client for client in clients if client in place]
    ordered = sorted(known, key=place.__getitem__)
    if known != ordered:
        yield Departure(f"the order of {what}", f"that of admission, {', '.join(ordered)}", ", ".join(known))


def _text(value: object) -> str:
    if value is _MISSING:
        return "missing"
    return "none" if value is None else str(value)
