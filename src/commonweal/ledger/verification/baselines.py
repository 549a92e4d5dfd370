"""Check that each round goes on from the one before: with its model, and from what each client measured on it.

Where gains are pooled or forecast, clients measure both models on the samples of the round, so nothing that was
measured before counts: the round opens with the model of the round before, and what a client signed of both models must
give its gain. Where profits follow from agreed rates, the same holds for the gain since its last settled round. The
model that a client trains alone never leaves it, so of an advantage only the models of the federation can be checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from commonweal.ledger.directions import by_direction, gains_in, is_gain_if_it_rises, metric_of
from commonweal.ledger.member_documents import SignedTable
from commonweal.ledger.reports import ReportBasis, bases_in, went_on_to
from commonweal.ledger.verification.replay import LedgerReplay
from commonweal.task.metrics import METRICS


def check_goes_on(number: int, body: Mapping[str, Any], table: SignedTable | None, replay: LedgerReplay) -> None:
    """Measurements that were reversed count too: a reversal does not change what members have trained and measured."""
    round_number, bases = body["round"], bases_in(body)
    before = sorted((each for each in replay.measured if each < round_number), reverse=True)
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
        agreed = replay.state.terms_of(round_number).terms.agreed if replay.state.terms_since else None
        gains_count = agreed is not None and agreed.rates is not None and agreed.utility == "gain"
        for client, basis in bases.items():
            last = next((each for each in before if client in replay.measured[each]), None)
            if last is not None:
                _check_baseline(number, client, basis, last, gains_count, replay)
            if client in gains:
                rule = "a gain is measured from what the client signed"
                _check_gain(number, client, basis, gains[client], rule, replay)
    _check_directions(number, body, bases, replay)


def _check_opening(number: int, bases: Mapping[str, ReportBasis], last: int, replay: LedgerReplay) -> None:
    """A model that was reversed does not count: if another one took its place, later rounds are played again, too."""
    client, first = next(iter(bases.items()))
    if first.opening_model != replay.models[last]:
        rule = "a round opens with the model of the round before"
        expected = f"the model of round {last}, {replay.models[last][:16]}…"
        replay.findings.add(number, rule, expected, f"{first.opening_model[:16]}… in the report of {client}")


def _note_other_settings(number: int, bases: Mapping[str, ReportBasis], last: int, replay: LedgerReplay) -> None:
    """Within a round other settings are a finding; from one to the next, another version may have more of them."""
    known = replay.settings[last]
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
    reports = replay.measured[last][client]
    if not basis.goes_on_from(reports, gains_count=gains_count):
        rule = "utility is measured from what the client measured in its last settled round"
        expected = f"{' or '.join(str(went_on_to(report)) for report in reports)} as {client} signed in round {last}"
        replay.findings.add(number, rule, expected, str(basis.baseline))
