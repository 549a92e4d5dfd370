"""Check that each round goes on from the one before: with its model, and from what each client measured on it.

Where gains are pooled or forecast, clients measure both models on the samples of the round, so nothing that was
measured before counts: the round opens with the model of the round before, and what a client signed of both models must
give its gain. Where profits follow from agreed rates, the same holds for the gain since its last settled round. The
model that a client trains alone never leaves it, so of an advantage only the models of the federation can be checked.

All of this is checked where clients sign it. So what is signed in one round is signed in all later ones: nobody escapes
a check by a report of an earlier form. Reports of version 0.1, and those in simulations, say nothing of it throughout.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from commonweal.ledger.directions import by_direction, gains_in, is_gain_if_it_rises, metric_of
from commonweal.ledger.member_documents import SignedTable
from commonweal.ledger.reports import ReportBasis, bases_in, went_on_to
from commonweal.ledger.verification.replay import LedgerReplay
from commonweal.task.metrics import METRICS

TRACED = "gains that profits follow from are the change of metrics that clients signed"


def check_goes_on(number: int, body: Mapping[str, Any], table: SignedTable | None, replay: LedgerReplay) -> None:
    """Measurements that were reversed count too: a reversal does not change what members have trained and measured."""
    round_number, bases = body["round"], bases_in(body)
    before = sorted((each for each in replay.measured if each < round_number), reverse=True)
    _check_nothing_is_left_out(number, body, bases, replay)
    if before and bases:
        _check_opening(number, bases, before[0], replay)
        _note_other_settings(number, bases, before[0], replay)
    if table is not None:
        for client, row in table.gains.table.items():
            if client in bases:
                rule = "a gain is measured from the model that opened the round"
                _check_gain(number, client, bases[client], row.gain, rule, replay)
    else:
        gains = gains_in(body)
        gains_count = replay.state.gains_count(round_number)
        for client, basis in bases.items():
            last = next((each for each in before if client in replay.measured[each]), None)
            if last is not None:
                _check_baseline(number, client, basis, last, gains_count, replay)
            if client in gains:
                rule = "a gain is measured from what the client signed"
                _check_gain(number, client, basis, gains[client], rule, replay)
    _check_directions(number, body, bases, replay)


def _check_nothing_is_left_out(
    number: int, body: Mapping[str, Any], bases: Mapping[str, ReportBasis], replay: LedgerReplay
) -> None:
    """Check that clients with a key sign what was signed before: what a report rests on, and the settings.

    What a report rests on, all of them sign once anybody does, since the coordinator asks for it; the settings, those
    who did before, since members of earlier versions cannot.
    """
    round_number, clients = body["round"], [row["client"] for row in body["inputs"]]
    signers = [client for client in clients if replay.state.members.get(client) is not None]
    since = min((*replay.measured, *([round_number] if bases else [])), default=round_number + 1)
    naming = {client: round_number for client, basis in bases.items() if basis.settings is not None}
    naming |= {client: first for client, first in replay.named_settings.items() if first <= round_number}
    for client in signers:
        if client not in bases and since <= round_number:
            expected = f"attempt and model of {client}, as signed since round {since}"
            replay.findings.add(number, "once reports say what they rest on, all do", expected, "neither")
        if client in bases and bases[client].settings is None and naming:
            kept, known = (replay.findings, client) if client in naming else (replay.notes, next(iter(naming)))
            expected = f"the hash of those of {client}, as of {known} since round {naming[known]}"
            kept.add(number, "once reports name the settings of their clients, all do", expected, "none")
    if bases:
        _check_traced(number, replay)


def _check_traced(number: int, replay: LedgerReplay) -> None:
    """Check, in a round whose reports say what they rest on, that no profit before it follows from a gain without."""
    for round_number, client in replay.untraced.items():
        if round_number in replay.state.rounds:
            expected, found = f"what that of {client} in round {round_number} is the change of", "nothing"
            replay.findings.add(number, TRACED, expected, found)


def note_untraced(replay: LedgerReplay) -> None:
    """Note gains that profits follow from, and that nobody can trace, as in ledgers of simulations."""
    rounds = [each for each in replay.untraced if each in replay.state.rounds]
    if rounds and not replay.measured:
        found = f"none in round {rounds[0]}" + (f" and {len(rounds) - 1} more" if len(rounds) > 1 else "")
        replay.notes.add(replay.state.rounds[rounds[0]], TRACED, "reports that say what they rest on", found)


def _check_opening(number: int, bases: Mapping[str, ReportBasis], last: int, replay: LedgerReplay) -> None:
    """A model that was reversed does not count: if another one took its place, later rounds are played again, too."""
    client, first = next(iter(bases.items()))
    if first.opening_model != replay.models[last]:
        rule = "a round opens with the model of the round before"
        expected = f"the model of round {last}, {replay.models[last][:16]}…"
        replay.findings.add(number, rule, expected, f"{first.opening_model[:16]}… in the report of {client}")


def _note_other_settings(number: int, bases: Mapping[str, ReportBasis], last: int, replay: LedgerReplay) -> None:
    """Within a round other settings are a finding; from one to the next, another version may have more of them."""
    known = {settings for report in replay.measured[last].values() if (settings := report["settings"]) is not None}
    client, found = next(((client, basis.settings) for client, basis in bases.items() if basis.settings), ("", None))
    if known and found is not None and found not in known:
        rule = "clients measure by the same settings in all rounds"
        expected = f"{' or '.join(sorted(each[:16] for each in known))}… as in round {last}"
        replay.notes.add(number, rule, expected, f"{found[:16]}… in the report of {client}")


def _check_gain(number: int, client: str, basis: ReportBasis, gain: float, rule: str, replay: LedgerReplay) -> None:
    """The metric of the model minus that of the opening model, or the other way round where less is better."""
    if basis.change is not None and not basis.is_gain(abs(gain), abs(basis.change)):
        expected = f"{client} {abs(basis.change):.12g}, from {basis.baseline!r} to {basis.measured!r}"
        replay.findings.add(number, rule, expected, f"{abs(gain):.12g}")


def _check_directions(
    number: int, body: Mapping[str, Any], bases: Mapping[str, ReportBasis], replay: LedgerReplay
) -> None:
    """More is better for all clients, or less is: as in earlier rounds by this metric, or else as most of them signed.

    A client alone among others whose metric did not change could call every change a loss.
    """
    gains, metric = gains_in(body), metric_of(body) or ""
    found = by_direction(gains, bases)
    known = METRICS[metric].higher_is_better if metric in METRICS else replay.rising_is_gain.get(metric)
    is_gain = is_gain_if_it_rises(found) if known is None else known
    if is_gain is None:
        return
    for client in found[not is_gain]:
        rule = "a metric that rises is a gain for all clients of a round, or for none"
        as_whom = "by the metric, or in earlier rounds" if known is not None else f"that of {found[is_gain][0]}"
        expected, basis = f"the sign of {client}'s gain as {as_whom}", bases[client]
        replay.findings.add(number, rule, expected, f"{gains[client]:+g} from {basis.baseline!r} to {basis.measured!r}")


def _check_baseline(
    number: int, client: str, basis: ReportBasis, last: int, gains_count: bool, replay: LedgerReplay
) -> None:
    report = replay.measured[last][client]
    if not basis.goes_on_from(report, gains_count=gains_count):
        rule = "utility is measured from what the client measured in its last settled round"
        expected = f"{went_on_to(report)} as {client} signed in round {last}"
        replay.findings.add(number, rule, expected, str(basis.baseline))
