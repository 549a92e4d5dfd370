"""Check what entries say of members that had a round's model and did not report, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from commonweal.errors import CommonwealError
from commonweal.ledger.departures import departures_of_late
from commonweal.ledger.entries import Posting
from commonweal.ledger.order import check_is_last
from commonweal.ledger.reports import LATE_REPORT_FORMAT
from commonweal.ledger.settled_again import ONE_REPORT, is_named_alike
from commonweal.ledger.silence import (
    charge_draft,
    check_consequence_can_go,
    check_nothing_rests_on,
    ends_by_silence,
    late_report_draft,
    open_charges,
    owed_reports,
    silent_in,
    withdrawn_at_the_limit,
)
from commonweal.ledger.taking_part import NOT_SILENT_BEFORE, ONLY_WITH_THE_MODEL, fault_of_silence, was_not_silent
from commonweal.ledger.verification.replay import LedgerReplay

ENDS_AT_THE_LIMIT = "membership ends after as many silences as the terms allow"


def check_silent(number: int, body: Mapping[str, Any], replay: LedgerReplay) -> None:
    """Who was silent in a round is absent from it, and the terms on silence were kept before it."""
    state, findings, round_number = replay.state, replay.findings, body["round"]
    silent = silent_in(body)
    expected = [client for client in body["absent"] if client in silent]
    if "silent" in body and (not silent or list(silent) != expected):
        found = ", ".join(map(str, silent)) or "nobody"
        findings.add(number, "who was silent is absent, and listed in the same order", ", ".join(expected), found)
    for client in silent:
        if (fault := fault_of_silence(client, round_number, state)) is not None:
            findings.add(number, ONLY_WITH_THE_MODEL, "such members", f"{client}, who {fault}")
        elif was_not_silent(client, round_number, state):
            findings.add(number, NOT_SILENT_BEFORE, f"{client} not silent, as before", "silent")
    if not state.terms_since:
        return  # already a finding of the first entry
    for row in body["inputs"]:
        client = row["client"]
        for owed in owed_reports(state, client, round_number):
            findings.add(
                number,
                "who was silent takes part again only after a late report or a charge",
                f"{client}'s report of round {owed}, or a charge for it",
                "it takes part",
            )
        left = state.excluded.get(client)
        if left is not None and left < round_number:
            findings.add(
                number, "ended memberships stay ended", f"{client} excluded after round {left}", "it takes part"
            )
    for client, rounds in ends_by_silence(state, round_number):
        findings.add(
            number,
            ENDS_AT_THE_LIMIT,
            f"an exclusion of {client}, silent in rounds {', '.join(map(str, rounds))}",
            "none before this round",
        )


def expected_of_charge(number: int, body: Mapping[str, Any], replay: LedgerReplay) -> tuple[Posting, ...] | None:
    """The postings that follow from the terms; None if there is nothing to charge."""
    client, round_number = body["client"], body["round"]
    if type(client) is not str or type(round_number) is not int:
        raise TypeError(f"client {client!r} and round {round_number!r}")
    if not replay.state.terms_since:
        return None  # already a finding of the first entry
    try:
        draft = charge_draft(replay.state, client, round_number)
    except CommonwealError as error:
        replay.findings.add(number, "a charge is for a silence, by the terms", "something to charge", str(error))
        return None
    replay.findings.compare(number, "a charge follows from the terms", dict(draft.body), dict(body))
    return draft.postings


def check_late_report(number: int, body: Mapping[str, Any], replay: LedgerReplay) -> None:
    """A late report is signed by a client that was silent in its round.

    Clients that signed their settings can sign the hash of an entry, too: a report without it may have come in time.
    """
    try:
        draft = late_report_draft(replay.state, body["client"], body["round"], body["report"], body["signature"])
        departed = list(departures_of_late(body["report"], replay.state))
    except (CommonwealError, AttributeError, TypeError, ValueError) as error:
        rule = "a late report is signed by a client that was silent in its round"
        replay.findings.add(number, rule, "such a report", str(error))
        return
    for each in departed:
        replay.findings.add(number, f"late reports keep to the terms: {each.what}", each.agreed, each.found)
    play, settings = replay.state.plays[body["round"]], body["report"].get("settings")
    if play.settings is not None and settings not in (None, play.settings):
        rule = "clients measure by the same settings in all rounds"  # another version may have more of them
        replay.notes.add(
            number, rule, f"{play.settings[:16]}… as in the round", f"{settings[:16]}… of {body['client']}"
        )
    replay.findings.compare(number, "a late report has these fields", sorted(draft.body), sorted(body))
    for entry, before in replay.late_reports.get((body["client"], body["round"]), {}).items():
        if is_named_alike(before, body["report"]) and before != body["report"]:
            both = (before, body["report"])
            was, now = (f"report {each.get('number')} (attempt {each.get('attempt')})" for each in both)
            replay.findings.add(number, ONE_REPORT, f"{body['client']}'s {was} as in entry {entry}", f"another {now}")
    if body["report"]["format"] != LATE_REPORT_FORMAT:
        rule, found = "a late report names the entry that calls its client silent", f"only {body['client']}'s attempt"
        kept = replay.findings if body["client"] in replay.named_settings else replay.notes
        kept.add(number, rule, "its hash: without it, the report may have come in time", found)
    of_round = body["report"].get("number")
    if type(of_round) is int and of_round > 1:
        rule = "the ledger has all reports that a client signed for a round"
        replay.notes.add(number, rule, f"reports 1 to {of_round} of {body['client']}", f"only report {of_round}")


def check_may_be_reversed(number: int, entry: int, replay: LedgerReplay) -> None:
    """A round that a charge or an exclusion rests on is reversed only after these; so is a charge and later rounds."""
    try:
        check_consequence_can_go(entry, replay.state)
    except CommonwealError as error:
        replay.findings.add(number, "nothing rests on what is reversed", "no later round", str(error))
    reversed_round = next((each for each, at in replay.state.rounds.items() if at == entry), None)
    if reversed_round is None:
        return
    for check, expected in ((check_is_last, "no later round"), (check_nothing_rests_on, "no charge or exclusion")):
        try:
            check(reversed_round, replay.state)
        except CommonwealError as error:
            replay.findings.add(number, "nothing rests on what is reversed", expected, str(error))


def check_exclusion(number: int, body: Mapping[str, Any], replay: LedgerReplay) -> None:
    """A membership ends only by as many silences as the terms allow, and the entry names them."""
    state, findings = replay.state, replay.findings
    client, rounds = body["client"], body["rounds"]
    if type(client) is not str or not rounds or not all(type(each) is int for each in rounds):
        raise TypeError(f"client {client!r} and rounds {rounds!r}")
    findings.compare(number, "an exclusion has these fields", ["client", "rounds"], sorted(body))
    due = dict(ends_by_silence(state, state.next_round)) if state.terms_since else {}
    if due.get(client) != rounds:
        expected = f"silent in rounds {', '.join(map(str, due[client]))}" if client in due else "no exclusion"
        findings.add(
            number,
            ENDS_AT_THE_LIMIT,
            expected,
            f"{client}, rounds {', '.join(map(str, rounds))}",
        )


def note_withdrawn_at_the_limit(replay: LedgerReplay) -> None:
    """Note members that withdrew although their membership has ended by the terms: only an exclusion says why.

    By the entries that stand: an exclusion may be entered before the notice, and reversed after it.
    """
    state = replay.state
    for client, rounds in withdrawn_at_the_limit(state):
        entry, last = state.withdrawals[client], rounds[-1]
        is_in_advance = replay.settlements[last][0].entry > entry
        found = f"a withdrawal, entered before round {last} was settled" if is_in_advance else "a withdrawal"
        expected = f"an exclusion of {client}, silent in rounds {', '.join(map(str, rounds))}"
        replay.notes.add(entry, ENDS_AT_THE_LIMIT, expected, found)


def note_open_silences(replay: LedgerReplay) -> None:
    """Note what follows from silences by the terms, and was not entered or was taken back by the operator alone.

    Also charges before a late report: when that came is the operator's word, unless its client has a receipt.
    """
    state = replay.state
    for client, round_number in open_charges(state):
        rule = "by the terms, a silence is reported late or charged"
        is_gone = client not in state.active(state.next_round)
        expected = f"a report or a charge of {client}{', who left,' * is_gone} for round {round_number}"
        taken_back = state.uncharged.get((client, round_number))
        found = "neither" if taken_back is None else "a charge that was reversed"
        replay.notes.add(taken_back or state.rounds[round_number], rule, expected, found)
    for (client, round_number), entry in state.uncharged.items():
        is_silent = round_number in state.silences.get(client, ())
        if (
            is_silent
            and round_number in state.late_reports.get(client, ())
            and not state.is_charged(client, round_number)
        ):
            rule, found = "a charge for a silence stands", "a charge that was reversed, and a report after it"
            replay.notes.add(entry, rule, f"a charge of {client} for round {round_number}", found)
    for entry, (client, round_number) in state.charges.items():
        late = state.late_reports.get(client, {}).get(round_number)
        if late is not None:  # of one that is entered before, the charge is a finding
            found = "its report after that, which may have come before the charge"
            expected = f"a charge of {client} for round {round_number} in entry {entry}, and no report"
            replay.notes.add(late, "who reports late is not charged", expected, found)
    for client, rounds in ends_by_silence(state, state.next_round):
        expected = f"an exclusion of {client}, silent in rounds {', '.join(map(str, rounds))}"
        replay.notes.add(state.rounds[rounds[-1]], ENDS_AT_THE_LIMIT, expected, "none so far")
