"""Check that a round's evidence of harm holds, and that a federation was finished where an entry says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from commonweal.decision.ending import find_ending
from commonweal.errors import CommonwealError
from commonweal.ledger.fates import harm_of, harmful_in
from commonweal.ledger.rounds import figures_of
from commonweal.ledger.state import LedgerState
from commonweal.ledger.verification.replay import LedgerReplay
from commonweal.records import HarmEvidence
from commonweal.valuation.harm import FEWEST_SCORERS, VERSION, is_minority, margin_at_least

_ROUNDING = 1e-9  # processors round differently


def check_fates(number: int, body: Mapping[str, Any], replay: LedgerReplay) -> None:
    """The effects on each scorer are the operator's word, like contributions; the test on them is made again."""
    _check_harm(number, body, replay)
    _check_ending(number, body, replay)


def _check_harm(number: int, body: Mapping[str, Any], replay: LedgerReplay) -> None:
    findings, state, round_number = replay.findings, replay.state, body["round"]
    clients = [row["client"] for row in body["inputs"]]
    try:
        evidence, harmful = harm_of(body), harmful_in(body)
    except CommonwealError as error:
        findings.add(number, "the test for harm can be made again", "a version that is known", str(error))
        return
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        findings.add(number, "evidence of harm is complete", "effects on at least three other clients", repr(error))
        return
    if "harm" in body and not evidence:
        findings.add(number, "evidence of harm is complete", "no word of it if nobody is harmful", "nobody")
    largest = margin_at_least(list(evidence.values()), len(clients))
    for client, one in evidence.items():
        if body["harm"]["version"] == VERSION and one.margin > largest * (1 - _ROUNDING):
            expected, found_margin = f"at most {largest:+.6g}", f"{one.margin:+.6g} for {client}"
            findings.add(number, "the margin of harm follows from the effects", expected, found_margin)
        if not one.is_beyond_doubt:
            expected = f"a mean effect below {one.margin:+.6g} beyond doubt"
            found = f"{client} {one.mean:+.6g} ± {one.standard_error:.6g}, below {one.bound:+.6g}"
            findings.add(number, "a client is harmful only if the test says so", expected, found)
        strangers = [name for name in (client, *one.by_scorer) if name not in clients]
        if strangers:
            findings.add(number, "harm is between clients of the round", "its clients", strangers[0])
        others = [name for name in clients if name != client]
        if len(one.by_scorer) < len(others):  # some may have been unable to measure it, which is the operator's word
            rule, found = "harm is measured by all other clients of the round", f"{len(one.by_scorer)} for {client}"
            replay.notes.add(number, rule, f"{len(others)} scorers", found)
        known = {each for each, there in state.took_part.items() if client in there} | {round_number}
        if list(one.round_numbers) != sorted(known & set(one.round_numbers)):
            findings.add(
                number,
                "harm is summed over settled rounds that the client took part in",
                f"some of {sorted(each for each in known if each <= round_number)}",
                f"{list(one.round_numbers)}",
            )
        _check_rounds_of_harm(number, one, body, replay)
        fewest = _fewest_tests(body, state) or len(one.round_numbers) * len(clients)
        if one.test_count < fewest:
            findings.add(
                number,
                "the chance of an error is divided among all tests",
                f"at least {fewest} tests, one per round and client",
                f"{one.test_count}",
            )
    if harmful and body["grace"]:
        findings.add(number, "nobody is eliminated in a grace round", "nobody", ", ".join(harmful))
    if harmful and not is_minority(len(harmful), len(clients)):
        findings.add(number, "only a minority is harmful", f"fewer than half of {len(clients)}", f"{len(harmful)}")


def _check_rounds_of_harm(number: int, one: HarmEvidence, body: Mapping[str, Any], replay: LedgerReplay) -> None:
    """Where rules are agreed, all rounds after grace count, this one included.

    Rounds in which fewer than three of the scorers could measure anything do not, which is the operator's word.
    """
    state, round_number = replay.state, body["round"]
    agreed = state.terms_of(round_number).terms.agreed if state.terms_since else None
    if agreed is None:
        return
    expected = sorted(
        each
        for each, there in {**state.took_part, round_number: {row["client"] for row in body["inputs"]}}.items()
        if agreed.grace_rounds < each <= round_number
        and one.client in there
        and len(there & one.by_scorer.keys()) >= FEWEST_SCORERS
    )
    found = list(one.round_numbers)
    if found != expected:
        is_wrong = round_number not in found or not set(found) <= set(expected)
        rule = "harm is summed over all rounds after grace"
        (replay.findings if is_wrong else replay.notes).add(number, rule, str(expected), f"{found} for {one.client}")


def _fewest_tests(body: Mapping[str, Any], state: LedgerState) -> int | None:
    """One per planned round after grace, by the terms of the round, and client that ever took part.

    None if the terms do not say how many rounds are planned.
    """
    agreed = state.terms_of(body["round"]).terms.agreed if state.terms_since else None
    if agreed is None or agreed.round_count is None:
        return None
    ever_there = {row["client"] for row in body["inputs"]}.union(*state.took_part.values())
    return (agreed.round_count - agreed.grace_rounds) * len(ever_there)


def _check_ending(number: int, body: Mapping[str, Any], replay: LedgerReplay) -> None:
    findings, round_number = replay.findings, body["round"]
    earlier = [each for each in replay.state.finished if each < round_number]
    if earlier:
        findings.add(
            number,
            "no round follows the one that finished the federation",
            f"round {min(earlier)} as the last",
            f"round {round_number}",
        )
    if "ending" not in body:
        return
    findings.compare(number, "an ending is true or false", {"ends": bool(body["ending"]["ends"])}, body["ending"])
    expected = figures_of(body)[0].without(harmful_in(body)).expected
    if expected is None or find_ending(expected) is None:
        found = "no expected profits" if expected is None else "two clients that expect a profit together"
        findings.add(number, "a federation is finished if no further round is expected to pay", "no such round", found)
