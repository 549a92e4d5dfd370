"""A decided round as an entry, and an entry back as the inputs of its decision."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from commonweal.errors import LedgerError
from commonweal.ledger.canonical import Document, number
from commonweal.ledger.departures import stated_terms
from commonweal.ledger.entries import EXTERNAL, POTENTIAL, Draft, Posting, accrued_account, client_account
from commonweal.ledger.fates import fates_document, harmful_in, is_finished
from commonweal.ledger.member_documents import ClientReport, SignedGain, SignedTable
from commonweal.ledger.money import check_amount, settle_payoffs, settle_transfers
from commonweal.ledger.reports import ReportBasis, SignedReport
from commonweal.ledger.terms import Terms
from commonweal.records import Decision, Evidence, Figures, RoundGains, RoundRecord, Rules, Stability
from commonweal.records.rounds import SIMILARITY

_ROUNDING = 1e-12  # of the amounts that are added up


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundToSettle:
    """A decided round with what its clients reported."""

    record: RoundRecord
    rules_version: str  # of the rules that decided it
    sample_counts: Mapping[str, int] = field(default_factory=dict)  # reported as new
    signatures: Mapping[str, str] = field(default_factory=dict)  # of the clients' reports
    bases: Mapping[str, ReportBasis] = field(default_factory=dict)  # what the reports rest on, if clients sign that
    unused_reports: Mapping[str, tuple[SignedReport, ...]] = field(default_factory=dict)
    """Of clients that are absent in the end, and reported in an earlier valuation: all that they signed, in order."""
    with_costs: bool = False  # the mechanism decides by costs, so they are stated and signed
    active: tuple[str, ...] | None = None  # whom the mechanism planned the next round with; None: it plans nothing
    measured_by: Mapping[str, Any] | None = None  # how, in a ledger whose terms say it; see `AgreedRules`
    table: SignedTable | None = field(init=False)  # of gains; None: the figures are used as measured

    def __post_init__(self) -> None:
        gains = self.record.gains
        table = None if gains is None else SignedTable.of(gains, self.record.round_number)
        object.__setattr__(self, "table", table)

    def report(self, ledger: str, client: str) -> ClientReport:
        """What the client must have signed."""
        figures, rules = self.record.decision.figures, self.record.decision.rules
        by_cost = figures.costs is not None and (self.with_costs or rules.loss_rule == "cost")
        return ClientReport(
            ledger=ledger,
            round_number=self.record.round_number,
            client=client,
            profit=float(figures.profits[client]),
            sample_count=self.sample_counts.get(client),
            cost=float(figures.costs[client]) if by_cost and figures.costs is not None else None,
            gain=_signed_gain(self.table, client, None if figures.expected is None else figures.expected[client]),
            further=_own_further(_further_of(figures, client)),
            basis=self.bases.get(client),
        )


def _signed_gain(table: SignedTable | None, client: str, expected_profit: float | None) -> SignedGain | None:
    if table is None:
        return None
    return table.gain_of(client, None if expected_profit is None else float(expected_profit))


def _further_of(figures: Figures, client: str) -> dict[str, float]:
    """A client's row of the further figures."""
    return {name: float(column[client]) for name, column in figures.further.items() if client in column}


def _own_further(row: Mapping[str, Any]) -> dict[str, float]:
    """What the client itself reports of it: similarities are measured by the operator, as contributions are."""
    return {name: float(value) for name, value in row.items() if not name.startswith(SIMILARITY)}


def draft_round(settled: RoundToSettle, ledger: str, terms: Terms) -> Draft:
    """The entry of a round, by the terms in force for it."""
    record = settled.record
    decision = record.decision
    check_shares(decision, record.round_number, terms)
    inputs: list[dict[str, Any]] = []
    for client in decision.figures.clients:
        report = settled.report(ledger, client)
        inputs.append(
            {
                "client": client,
                "profit": report.profit,
                "contribution": float(decision.figures.contributions[client]),
                "sample_count": report.sample_count,
                "cost": report.cost,
                "signature": settled.signatures.get(client),
            }
        )
        if decision.figures.expected is not None:
            inputs[-1]["expected_profit"] = float(decision.figures.expected[client])
        if further := _further_of(decision.figures, client):
            inputs[-1]["further"] = further
        if report.basis is not None:
            inputs[-1]["report"] = report.basis.to_document()
    body = {
        "round": record.round_number,
        "rules_version": settled.rules_version,
        "rules": decision.rules.to_document(),
        "grace": decision.grace,
        "absent": list(record.absent),
        "inputs": inputs,
        "decision": decision_document(decision),
    }
    if settled.bases:
        body["terms"] = next(iter(settled.bases.values())).terms
    if record.gains is not None:
        body["gains"] = record.gains.to_document(record.round_number)
    if record.evidence:
        body["evidence"] = [_evidence_row(client, evidence) for client, evidence in record.evidence.items()]
    if record.silent:
        body["silent"] = list(record.silent)
    if settled.unused_reports:
        body["unused_reports"] = [
            {"client": client, **report.to_document()}
            for client in record.absent
            for report in settled.unused_reports.get(client, ())
        ]
    if record.resting:
        body["resting"] = list(record.resting)
    if settled.active is not None:
        body["plan"] = {"active": list(settled.active), "instructions": record.instructions.to_document()}
    body |= fates_document(record)
    body |= stated_terms(terms, settled.measured_by)
    return Draft(kind="round", body=body, postings=round_postings(decision, terms, record.round_number))


def gains_of(body: Mapping[str, Any]) -> RoundGains | None:
    """The gains that a settled round's profits follow from; None if it was decided on profits as measured.

    Python's own errors if they are damaged.
    """
    return RoundGains.from_document(body["gains"]) if "gains" in body else None


def _evidence_row(client: str, evidence: Evidence) -> Document:
    stability = evidence.stability
    return {
        "client": client,
        "profit_error": evidence.profit_error,
        "contribution_error": evidence.contribution_error,
        "same_count": None if stability is None else stability.same_count,
        "draw_count": None if stability is None else stability.draw_count,
    }


def evidence_of(body: Mapping[str, Any]) -> dict[str, Evidence]:
    """How sure the operator says that a settled round's figures and fates are; nobody can compute this again.

    Raises KeyError, TypeError or ValueError if the rows are not as `draft_round` writes them.
    """
    found = {}
    for row in body.get("evidence", ()):
        same, drawn = row["same_count"], row["draw_count"]
        if drawn is not None and not (type(same) is type(drawn) is int and 0 <= same <= drawn and drawn):
            raise ValueError(f"{same!r} of {drawn!r} draws")
        errors = {name: row[name] for name in ("profit_error", "contribution_error")}
        if any(not _is_size(error) for error in errors.values() if error is not None):
            raise ValueError(f"errors {errors!r}")
        stability = None if drawn is None else Stability(same_count=same, draw_count=drawn)
        found[row["client"]] = Evidence(**errors, stability=stability)
    return found


def _is_size(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < math.inf


def round_postings(decision: Decision, terms: Terms, round_number: int = 1) -> tuple[Posting, ...]:
    """Who is paid what: the transfers, or the payoffs that accrue against the potential of the model."""
    turn = round_number - 1 if terms.settlement_version >= 2 else 0
    outside = {EXTERNAL: decision.external} if decision.external else {}
    if terms.settlement == "transfers":
        largest = max(map(abs, decision.shares.values()), default=0.0)  # raw contributions: any number
        rounding = decision.rounding * max(largest, 1.0)
        if decision.takes_external_money:  # which need not be of the size of profits
            rounding += _ROUNDING * math.fsum(map(abs, (*decision.all_transfers.values(), decision.external)))
        transfers = {client_account(client): amount for client, amount in decision.all_transfers.items()}
        amounts = settle_transfers({**transfers, **outside}, terms.worth, rounding=rounding, turn=turn)
        return tuple(Posting(account, amount) for account, amount in amounts.items())
    payoffs = {accrued_account(client): amount for client, amount in {**decision.payoffs, **decision.charges}.items()}
    amounts = settle_payoffs({**payoffs, **outside}, terms.worth, turn=turn)
    total = check_amount(sum(amounts.values()), "the budget")
    accrued = tuple(Posting(account, amount) for account, amount in amounts.items())
    return (*accrued, Posting(POTENTIAL, -total)) if accrued else ()


def decision_document(decision: Decision) -> Document:
    """The decision; shares, payoffs and transfers are in the order of the retained clients, charges of the eliminated.

    Where no money goes to the outside or comes from there, and nobody is charged, there is no word of it.
    """
    outside: Document = {}
    if decision.takes_external_money:
        charges = [decision.charges.get(client, 0.0) for client in decision.eliminated]
        outside = {"external": decision.external, "charges": charges}
    return {
        "retained": list(decision.retained),
        "eliminated": list(decision.eliminated),
        "objective": number(decision.objective),
        "budget": decision.budget,
        "shares": [decision.shares[client] for client in decision.retained],
        "payoffs": [decision.payoffs[client] for client in decision.retained],
        "transfers": [decision.transfers[client] for client in decision.retained],
        **outside,
    }


def sample_counts_of(body: Mapping[str, Any]) -> dict[str, int]:
    """The numbers of new samples that clients of a settled round declared; clients that declared none are left out."""
    return {row["client"]: row["sample_count"] for row in body["inputs"] if row["sample_count"] is not None}


def resting_in(body: Mapping[str, Any]) -> tuple[str, ...]:
    """The active clients that were not asked to take part in a settled round."""
    return tuple(body.get("resting", ()))


def planned_with(body: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The active clients with which the round after a settled one was planned; None if it was not."""
    return tuple(body["plan"]["active"]) if "plan" in body else None


def figures_of(body: Mapping[str, Any]) -> tuple[Figures, Rules, bool]:
    """The inputs of a settled round's decision: figures, rules, and whether it was a grace round.

    The version of the rules is the entry's `rules_version`, which only mechanisms can interpret.
    """
    inputs = body["inputs"]
    by_cost = bool(inputs) and all(row["cost"] is not None for row in inputs)
    is_forecast = bool(inputs) and all("expected_profit" in row for row in inputs)
    names = dict.fromkeys(name for row in inputs for name in row.get("further", {}))
    return (
        Figures(
            profits={row["client"]: float(row["profit"]) for row in inputs},
            contributions={row["client"]: float(row["contribution"]) for row in inputs},
            costs={row["client"]: float(row["cost"]) for row in inputs} if by_cost else None,
            expected={row["client"]: float(row["expected_profit"]) for row in inputs} if is_forecast else None,
            further={
                name: {row["client"]: float(row["further"][name]) for row in inputs if name in row.get("further", {})}
                for name in names
            },
        ),
        Rules.from_document(body["rules"]),
        bool(body["grace"]),
    )


def table_in(body: Mapping[str, Any]) -> SignedTable | None:
    """The table of gains whose hash the clients of a settled round signed; None if there is none."""
    gains = gains_of(body)
    return None if gains is None else SignedTable.of(gains, body["round"])


def decision_of(body: Mapping[str, Any]) -> Decision:
    """The decision as the entry states it."""
    figures, rules, grace = figures_of(body)
    stated = body["decision"]

    def by_client(name: str) -> dict[str, float]:
        return dict(zip(stated["retained"], map(float, stated[name]), strict=True))

    def used(contribution: float) -> float:
        return max(contribution, 0.0) if rules.contribution_rule == "clip" else contribution

    return Decision(
        figures=figures,
        rules=rules,
        used_contributions={client: used(each) for client, each in figures.contributions.items()},
        retained=tuple(stated["retained"]),
        eliminated=tuple(stated["eliminated"]),
        objective=float(stated["objective"]),
        budget=float(stated["budget"]),
        shares=by_client("shares"),
        payoffs=by_client("payoffs"),
        transfers=by_client("transfers"),
        grace=grace,
        harmful=harmful_in(body),
        finished=is_finished(body),
        external=float(stated.get("external", 0.0)),
        charges={
            client: float(charge)
            for client, charge in zip(stated["eliminated"], stated.get("charges", ()), strict=False)
            if charge
        },
    )


def report_of(body: Mapping[str, Any], row: Mapping[str, Any], ledger: str, table: SignedTable | None) -> ClientReport:
    """What a client of a settled round must have signed."""
    return ClientReport(
        ledger=ledger,
        round_number=body["round"],
        client=row["client"],
        profit=float(row["profit"]),
        sample_count=row["sample_count"],
        cost=None if row["cost"] is None else float(row["cost"]),
        gain=_signed_gain(table, row["client"], row.get("expected_profit")),
        further=_own_further(row.get("further", {})),
        basis=ReportBasis.from_document(row["report"], body["terms"]) if "report" in row else None,
    )


def check_shares(decision: Decision, round_number: int, terms: Terms) -> None:
    """Refuse shares that the terms do not accept: with raw contributions, noise can make shares of any size."""
    limit = terms.largest_share
    lowest, highest = (-1e-12, 1 + 1e-12) if limit is None else (-limit, limit)
    outside = {client: share for client, share in decision.shares.items() if not lowest <= share <= highest}
    if outside:
        client = max(outside, key=lambda name: abs(outside[name]))
        accepted = "from 0 to 1" if limit is None else f"up to {limit:g} in size"
        raise LedgerError(
            f"This ledger accepts shares {accepted}, got {outside[client]:.6g} for client {client!r} in round "
            f"{round_number}. Use the contribution rule clip, or a ledger that was opened to accept larger shares."
        )
