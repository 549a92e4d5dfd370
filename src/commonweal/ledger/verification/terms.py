"""Check that a ledger states its terms before its first round, keeps to them, and changes them only by amendments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from commonweal.errors import InputError
from commonweal.ledger.amendments import (
    Amendment,
    amendment_body,
    faults_of_amendment,
    is_by_amendment_only,
    needed_of,
    signing_members,
)
from commonweal.ledger.checks import KEYS_OF_THEIR_OWN, check_names
from commonweal.ledger.departures import departures
from commonweal.ledger.verification.replay import LedgerReplay
from commonweal.ledger.verification.written_terms import terms_as_written
from commonweal.names import all_look_alikes


def check_terms(number: int, body: Mapping[str, Any], replay: LedgerReplay) -> None:
    """Check an entry that states the rules of a ledger that was opened without any."""
    state, findings = replay.state, replay.findings
    terms, before = terms_as_written(number, body["terms"], replay), state.terms
    findings.compare(number, "an entry of terms has these fields", ["terms"], sorted(body))
    if state.ever_settled:
        found = f"terms after round {max(state.ever_settled)}"
        findings.add(number, "rules are agreed on before the first round", "terms before it", found)
    if before is None:
        return  # already a finding of the first entry
    if before.agreed is not None:
        findings.add(number, "agreed rules change only by an amendment", "an amendment", "other terms")
    expected = replace(before, agreed=terms.agreed).to_document()
    findings.compare(number, "the terms add only the agreed rules", expected, dict(terms.to_document()))


def check_amendment(number: int, body: Mapping[str, Any], replay: LedgerReplay) -> None:
    """Check that an amendment follows from the terms before it, and that its quorum signed."""
    state, findings = replay.state, replay.findings
    for name in ("amendment", "first_round"):
        if type(body[name]) is not int:
            raise TypeError(f"{name} {body[name]!r}")
    terms_as_written(number, body["terms"], replay)
    if state.terms is None:
        return  # already a finding of the first entry
    amendment = Amendment.from_document(body)
    signatures = {row["client"]: row["signature"] for row in body["signatures"]}
    findings.compare(
        number, "an amendment has these fields", sorted(amendment_body(amendment, signatures)), sorted(body)
    )
    for rule, rows in (("clients sign once", body["signatures"]), ("a client is admitted only once", body["members"])):
        names = [row["client"] for row in rows]
        findings.compare(number, f"in an amendment, {rule}", list(dict.fromkeys(names)), names)
    for fault in faults_of_amendment(amendment, signatures, state):
        findings.add(number, fault.rule, fault.expected, fault.found)
    note_names_and_keys(number, amendment.members, replay)
    keyless = [client for client in state.active(state.next_round) if state.members[client] is None]
    if keyless or not signing_members(state):
        who = f"{', '.join(keyless)} without one" if signing_members(state) else "none"
        found = f"{who}: the operator vouches for their agreement"
        replay.notes.add(number, "an amendment is signed by members", "members with keys", found)


BACK_SINCE = "an amendment is signed by the members that were active when it was entered"


def check_back_since(number: int, round_number: int, replay: LedgerReplay) -> None:
    """Check that who had left when an amendment was entered, and is back by a reversal, agreed to its terms.

    Terms act through rounds, so a round under the amendment with such a member is a finding. It is none if the quorum
    holds with these members counted as asked, and as having signed if they signed a later amendment.
    """
    listed = replay.state.listed_in(round_number)
    for vote in replay.votes:
        back = [client for client in vote.left if client in listed and client not in vote.asked]
        if round_number < vote.first_round or not back:
            continue
        signed = [client for client in (*vote.asked, *back) if client in vote.signed]
        needed = needed_of(len(vote.asked) + len(back), vote.quorum)
        if len(signed) < needed:
            who = ", ".join(client for client in back if client not in vote.signed)
            expected = f"signatures of {needed} of {len(vote.asked) + len(back)} members under entry {vote.entry}"
            found = f"{len(signed)}: {who} had left before it, and takes part again since a reversal"
            replay.findings.add(number, BACK_SINCE, expected, found)


def note_back_since(replay: LedgerReplay) -> None:
    """Note members that will be under an amendment which they were not asked to sign: they are back by a reversal."""
    left, withdrawn = {**replay.state.excluded, **replay.state.eliminated}, replay.state.withdrawn
    for vote in replay.votes:
        for client, left_in in vote.left.items():
            is_under_it = withdrawn.get(client, vote.first_round) >= vote.first_round
            if left.get(client) != left_in and client not in vote.signed and is_under_it:
                found = f"{client}, who had left in round {left_in}, is a member again by a reversal since"
                replay.notes.add(vote.entry, BACK_SINCE, "nobody else under it but newcomers", found)


def note_votes_of_the_gone(replay: LedgerReplay) -> None:
    """Note amendments that lack their quorum among the members by the entries that stand.

    A round can be settled so that a client stays in it and votes, and afterwards again so that it is eliminated. And a
    notice of withdrawal can be held back until its client has voted. The ledger takes it, since the client may as well
    have signed the amendment first, and then decided to leave before it is in force.
    """
    left = {**replay.state.withdrawn, **replay.state.excluded, **replay.state.eliminated}
    for vote in replay.votes:
        gone = [c for c in vote.asked if left.get(c, vote.first_round) < vote.first_round]
        back = [c for c in vote.left if left.get(c, vote.first_round) >= vote.first_round]
        asked = vote.asked.union(back).difference(gone)
        signed, needed = len(asked & vote.signed), needed_of(len(asked), vote.quorum)
        if gone and signed < needed:
            expected = f"signatures of {needed} of {len(asked)} members by the entries that stand"
            found = f"{signed}: {', '.join(sorted(gone))} had left before it by these entries"
            replay.notes.add(vote.entry, "a quorum signs an amendment", expected, found)


def check_newcomers(number: int, clients: Sequence[str], replay: LedgerReplay) -> None:
    """Check that nobody is admitted after the first round by the operator alone, or after the others before it.

    Until the first round is settled, the operator admits members alone. An admission after that of the others may come
    after their reports of the round, which sign the terms, and not who is a member.
    """
    state = replay.state
    if not state.ever_settled:
        named = _named_in_terms(replay)
        unnamed = [str(client) for client in clients if client not in named]
        if unnamed and any(state.members.values()):
            found = f"another one of {', '.join(unnamed)}, whom no terms name"
            replay.notes.add(number, "members of the first round are admitted at once", "one admission", found)
        return
    found = f"{', '.join(map(str, clients))} admitted by the operator alone after round {max(state.ever_settled)}"
    kept = replay.findings if is_by_amendment_only(state) else replay.notes
    kept.add(number, "newcomers are admitted by an amendment", "signatures of newcomers and members", found)


def note_names_and_keys(number: int, newcomers: Mapping[str, str | None], replay: LedgerReplay) -> None:
    """Note names and keys that are refused today, and that ledgers of earlier versions may have."""
    _note_look_alikes(number, list(newcomers), replay)
    for client in newcomers:
        if not isinstance(client, str):
            continue  # a finding of its own
        try:
            check_names([client])
        except InputError as error:
            replay.notes.add(number, "members have names that can be told apart", "such a name", str(error))
    known = {key: client for client, key in replay.state.members.items() if key is not None}
    known[replay.state.operator] = "the operator"
    for client, key in newcomers.items():
        if key is not None and known.setdefault(key, client) != client:
            replay.notes.add(number, KEYS_OF_THEIR_OWN, f"a key of {client} alone", f"that of {known[key]}")


def _note_look_alikes(number: int, newcomers: Sequence[object], replay: LedgerReplay) -> None:
    """Note names that people could take for one another."""
    names = [name for name in (*replay.state.members, *newcomers) if isinstance(name, str)]
    for one, other in all_look_alikes(names):
        if other in newcomers:
            rule = "no two members' names look the same"
            replay.notes.add(number, rule, f"a name that does not look like {one!a}", f"{other!a}")


def check_by_terms(number: int, body: Mapping[str, Any], replay: LedgerReplay) -> None:
    """Check a round against the terms in force for it."""
    if not replay.state.terms_since:
        return  # already a finding of the first entry
    for departure in departures(body, replay.state):
        replay.findings.add(number, f"rounds keep to the terms: {departure.what}", departure.agreed, departure.found)


def note_unknown_names(replay: LedgerReplay) -> None:
    """Note names in the terms that nobody has: a limit for a name that only looks like a member's limits nobody."""
    for client, what in _named_in_terms(replay).items():
        if client not in replay.state.members:
            replay.notes.add(1, "terms name members", f"a member in {what}", f"{client!a}, which is none")


def _named_in_terms(replay: LedgerReplay) -> dict[str, str]:
    """The names in all terms so far, and where they are."""
    named: dict[str, str] = {}
    for agreed in (each.terms.agreed for each in replay.state.terms_since):
        if agreed is not None:
            classes = {} if agreed.rates is None else agreed.rates.classes
            tables = {"profit_bounds": agreed.profit_bounds, "most_samples": agreed.most_samples, "rates": classes}
            named |= {client: what for what, table in tables.items() for client in table}
    return named


def note_missing_terms(replay: LedgerReplay) -> None:
    """Note that a ledger has rounds without agreed rules, as those that were made before there could be any."""
    state = replay.state
    first = min((each.first_round for each in state.terms_since if each.terms.agreed is not None), default=None)
    if not state.ever_settled or (first is not None and first <= min(state.ever_settled)):
        return
    until = "" if first is None else f" before round {first}"
    replay.notes.add(
        1,
        "rules are agreed on before the first round",
        "terms that state them",
        f"none{until}: mu, rules and measures of these rounds are as the operator chose them",
    )
