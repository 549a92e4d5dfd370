"""Check that a round was settled among active members, from figures that they signed, and decided by its rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from commonweal.errors import CommonwealError
from commonweal.ledger.entries import Posting
from commonweal.ledger.expected_profits import SIGNED_OR_NONE, fault_of_expected_profits
from commonweal.ledger.fates import harmful_in, is_finished
from commonweal.ledger.late_reports import Play
from commonweal.ledger.member_documents import SignedTable
from commonweal.ledger.plans import staying
from commonweal.ledger.reports import bases_in, faults_of_reports, faults_of_unused, unused_in
from commonweal.ledger.rounds import (
    check_shares,
    decision_document,
    evidence_of,
    figures_of,
    planned_with,
    report_of,
    resting_in,
    round_postings,
    sample_counts_of,
    table_in,
)
from commonweal.ledger.silence import silent_in
from commonweal.ledger.taking_part import AFTER_ADMISSION, STILL_ACTIVE, wrongly_absent
from commonweal.ledger.verification.baselines import check_goes_on
from commonweal.ledger.verification.fates import check_fates
from commonweal.ledger.verification.plans import check_plan, check_resting
from commonweal.ledger.verification.replay import Findings, LedgerReplay, RecordedInputs
from commonweal.ledger.verification.reversals import check_settled_again
from commonweal.ledger.verification.round_order import check_nobody_is_missing, check_round_number
from commonweal.ledger.verification.silence import check_silent
from commonweal.ledger.verification.terms import check_back_since, check_by_terms
from commonweal.records import RoundGains
from commonweal.valuation.used_gains import used_gains

_GAIN_ROUNDING = 1e-9  # of the largest gain of a round


def expected_of_round(number: int, body: Mapping[str, Any], replay: LedgerReplay) -> tuple[Posting, ...] | None:
    """The postings that follow from a round's inputs; None if they cannot be known."""
    round_number = body["round"]
    if type(round_number) is not int:
        replay.findings.add(number, "round numbers are whole numbers", "a whole number", repr(round_number))
        return None
    check_round_number(number, round_number, replay)
    _check_clients(number, round_number, body, replay)
    check_nobody_is_missing(number, round_number, body, replay)
    check_resting(number, round_number, body, replay)
    check_settled_again(number, body, replay)
    table = table_in(body)
    if table is not None:
        _check_gains(number, round_number, body, table.gains, replay)
    if (fault := fault_of_expected_profits(body, replay.state)) is not None:
        replay.findings.add(number, SIGNED_OR_NONE, *fault)
    for row in body["inputs"]:
        _check_report(number, body, row, table, replay)
    _check_attempt(number, body, replay)
    _check_unused(number, body, replay)
    check_goes_on(number, body, table, replay)
    _check_evidence(number, body, replay)
    check_fates(number, body, replay)
    check_by_terms(number, body, replay)
    check_back_since(number, round_number, replay)
    return _check_decision(number, round_number, body, replay)


def _check_clients(number: int, round_number: int, body: Mapping[str, Any], replay: LedgerReplay) -> None:
    state, findings = replay.state, replay.findings
    if round_number in state.rounds:
        findings.add(
            number,
            "a round is settled only once",
            f"round {round_number} only in entry {state.rounds[round_number]}",
            "settled again",
        )
    clients = [row["client"] for row in body["inputs"]]
    for client, count in Counter([*clients, *body["absent"], *resting_in(body)]).items():
        if client not in state.members:
            findings.add(number, "only members take part in rounds", "an admitted client", str(client))
        if count > 1:
            findings.add(number, "a client takes part at most once", f"{client} once", f"{count} times")
    check_silent(number, body, replay)
    for client, reason in wrongly_absent(body["absent"], round_number, state).items():
        findings.add(number, STILL_ACTIVE, "such members", f"{client}, who {reason}")
    rule = "eliminated clients do not take part in later rounds"
    for client in clients:
        if state.joins_after(client, round_number):
            kept = findings if state.has_rules else replay.notes
            kept.add(number, AFTER_ADMISSION, f"{client} from round {state.first_rounds[client]} on", "it takes part")
        eliminated = state.eliminated.get(client)
        if eliminated is not None and eliminated < round_number:
            findings.add(number, rule, f"{client} eliminated in round {eliminated}", "it takes part")
        left = state.withdrawn.get(client)
        if left is not None and left < round_number:
            findings.add(
                number,
                "withdrawn clients do not take part in later rounds",
                f"{client} withdrawn after round {left}",
                "it takes part",
            )
    for client in body["decision"]["eliminated"]:
        later = state.took_part_after(client, round_number)
        if later is not None:
            findings.add(number, rule, f"{client} not in round {later}", "it takes part")


def _check_report(
    number: int, body: Mapping[str, Any], row: Mapping[str, Any], table: SignedTable | None, replay: LedgerReplay
) -> None:
    client, signature = row["client"], row["signature"]
    key = replay.state.members.get(client)
    if key is None:
        replay.unsigned_reports += 1
        replay.findings.compare(number, "a client without a key signs nothing", None, signature)
    elif signature is None or not report_of(body, row, replay.state.identity, table).is_signed(signature, key):
        replay.findings.add(
            number,
            "a report is signed by its client",
            f"a signature by {client}",
            "another signature" if signature else "no signature",
        )
    else:
        replay.signed_reports += 1


def _check_attempt(number: int, body: Mapping[str, Any], replay: LedgerReplay) -> None:
    """All reports are of one attempt, under the terms in force, and no report that a client signed is missing."""
    state = replay.state
    faults = faults_of_reports(
        bases_in(body),
        {row["client"]: state.members.get(row["client"]) for row in body["inputs"]},
        ledger=state.identity,
        round_number=body["round"],
        terms=state.terms_of(body["round"]).hash if state.terms_since else "",
        stated_terms=state.stated_terms,
        has_gains="gains" in body,
    )
    for fault in faults:
        replay.findings.add(number, fault.rule, fault.expected, fault.found)


def _check_unused(number: int, body: Mapping[str, Any], replay: LedgerReplay) -> None:
    """Reports of clients that were asked again, after somebody else was lost, and did not answer any more."""
    if "unused_reports" not in body:
        return
    state, attempt = replay.state, Play.of(body, "").attempt
    unused, silent = unused_in(body), silent_in(body)
    expected = [client for client in body["absent"] if client in unused and client not in silent]
    if not unused or list(unused) != expected:
        rule = "who reported and was asked again in vain is absent, not silent, and listed in the same order"
        replay.findings.add(number, rule, ", ".join(expected) or "nobody", ", ".join(map(str, unused)) or "nobody")
    for client, reports in unused.items():
        faults = faults_of_unused(
            client,
            reports,
            state.members.get(client),
            attempt=attempt,
            ledger=state.identity,
            round_number=body["round"],
            stated_terms=state.stated_terms,
        )
        for fault in faults:
            replay.findings.add(number, fault.rule, fault.expected, fault.found)
        if not faults:
            found = f"{client} absent: it did not answer when it was asked again"
            replay.notes.add(number, "who reported a round is in it", f"{client}, who reported it", found)


def _check_gains(
    number: int, round_number: int, body: Mapping[str, Any], gains: RoundGains, replay: LedgerReplay
) -> None:
    """Compute the pooled and expected gains again, from the tables of all rounds up to this one."""
    findings = replay.findings
    table = gains.table_document(round_number)
    findings.compare(number, "the table of gains is as clients signed it", table, body["gains"]["table"])
    used = gains.to_document(round_number) | {"table": body["gains"]["table"]}
    findings.compare(number, "gains are written in one way only", used, body["gains"])
    clients = {row["client"] for row in body["inputs"]}
    for client in gains.table:
        if client not in clients:
            findings.add(number, "gains are those of the round's clients", "one of its clients", client)
    for client, row in gains.table.items():
        if row.fault is not None:
            findings.add(number, "a gain is one that can be measured", f"such a row of {client}", row.fault)
    before = sorted(each for each in replay.state.rounds if each < round_number and each in replay.gain_tables)
    try:
        again = used_gains(gains.version, [*(replay.gain_tables[each] for each in before), gains.table])
    except (CommonwealError, ArithmeticError, ValueError) as error:
        findings.add(number, "the gains used follow from those measured", "gains that can be computed", str(error))
        return
    findings.compare(number, "newcomers are in no earlier table", list(again.newcomers), list(gains.newcomers))
    for name, computed, stated in (
        ("pooled", again.pooled, gains.pooled),
        ("expected", again.expected, gains.expected),
    ):
        _compare_gains(number, name, computed, stated, findings)
    is_forecast = any("expected_profit" in row for row in body["inputs"])
    findings.compare(number, "profits are expected where gains are forecast", again.expected is not None, is_forecast)


def _compare_gains(
    number: int,
    name: str,
    computed: Mapping[str, float] | None,
    stated: Mapping[str, float] | None,
    findings: Findings,
) -> None:
    """Equal up to the rounding of other processors; decisions rest on the profits, which are signed to the last bit."""
    rule = f"the gains used follow from those measured: {name}"
    if computed is None or stated is None or set(computed) != set(stated):
        findings.compare(number, rule, computed, stated)
        return
    size = max((abs(gain) for gain in (*computed.values(), *stated.values())), default=0.0)
    for client, gain in computed.items():
        if not abs(gain - stated[client]) <= _GAIN_ROUNDING * size:
            findings.add(number, rule, f"{client} {gain:.12g}", f"{stated[client]:.12g}")


def _check_evidence(number: int, body: Mapping[str, Any], replay: LedgerReplay) -> None:
    """The draws are not in the ledger, so only the form of the evidence can be checked."""
    clients = [row["client"] for row in body["inputs"]]
    try:
        stated = evidence_of(body)
    except (KeyError, TypeError, ValueError) as error:
        replay.findings.add(number, "evidence has errors and counts of draws", "numbers of at least 0", repr(error))
        return
    if "evidence" in body and not stated:
        replay.findings.add(number, "evidence is about clients of the round", "no word of it if there is none", "none")
    told = [row["client"] for row in body.get("evidence", ())]
    replay.findings.compare(number, "evidence is about each client once", list(dict.fromkeys(told)), told)
    for client in stated:
        if client not in clients:
            replay.findings.add(number, "evidence is about clients of the round", "one of its clients", str(client))


def _check_decision(
    number: int, round_number: int, body: Mapping[str, Any], replay: LedgerReplay
) -> tuple[Posting, ...] | None:
    """Recompute the decision. All figures must be the same to the last bit, since a cent may depend on it."""
    findings, state = replay.findings, replay.state
    terms = state.terms_of(round_number).terms if state.terms_since else None
    findings.compare(number, "grace is true or false", bool(body["grace"]), body["grace"])
    version, (_, rules, _) = body["rules_version"], figures_of(body)
    findings.compare(number, "rules are written in one way only", rules.to_document(), body["rules"])
    inputs = recorded_inputs(body, replay)
    try:
        recomputed_round = replay.recompute(inputs)
    except CommonwealError as error:
        findings.add(number, "the decision can be recomputed from its inputs", "a decision", str(error))
        return None
    replay.round_count += 1
    decision = recomputed_round.decision
    replay.mechanism_states[round_number] = version, recomputed_round.state
    if recomputed_round.instructions is not None:
        replay.planned_from[round_number] = inputs
    check_plan(number, body, recomputed_round.instructions, replay)
    recomputed, recorded = decision_document(decision), body["decision"]
    for name in dict.fromkeys((*recomputed, *recorded)):
        rule = f"the decision follows from its inputs: {name}"
        same = findings.compare(number, rule, _by_client(recomputed, name), _by_client(recorded, name))
        if same and name not in recomputed:
            findings.add(number, rule, "no word of it", "null")
        if not same and name == "retained":
            return None
    if terms is None:  # already a finding of the first entry
        return None
    try:
        check_shares(decision, round_number, terms)
    except CommonwealError as error:
        findings.add(number, "shares are within the ledger's terms", "shares that the terms accept", str(error))
    return round_postings(decision, terms, round_number)


def recorded_inputs(body: Mapping[str, Any], replay: LedgerReplay) -> RecordedInputs:
    """What a round's entry says that it was decided from. Python's own errors if it is damaged."""
    figures, rules, grace = figures_of(body)
    round_number, version, states = body["round"], body["rules_version"], replay.mechanism_states
    before = [n for n in replay.state.rounds if n < round_number and n in states and states[n][0] == version]
    return RecordedInputs(
        round_number=round_number,
        version=version,
        figures=figures,
        rules=rules,
        grace=grace,
        sample_counts=sample_counts_of(body),
        active=_planned_with(body, replay),
        harmful=harmful_in(body),
        finished=is_finished(body),
        state=states[max(before)][1] if before else {},
    )


def _planned_with(body: Mapping[str, Any], replay: LedgerReplay) -> tuple[str, ...] | None:
    """Where rules are agreed, the next round is planned whether the entry says so or not."""
    stated = planned_with(body)
    return tuple(staying(body, replay.state)) if stated is None and replay.state.has_rules else stated


def _by_client(document: Mapping[str, Any], name: str) -> Any:
    """A list in the decision, keyed by client if it has one figure for each retained client."""
    row: Any = document.get(name)
    retained = document["retained"]
    by_client = name in ("shares", "payoffs", "transfers") and isinstance(row, list) and len(row) == len(retained)
    return dict(zip(retained, row, strict=True)) if by_client else row
