"""Did a client leave by its own word, once, and before the rounds that it is not in?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from commonweal.ledger.audit.replay import Replay
from commonweal.ledger.notices import ROUND_LIMIT, WithdrawalNotice


def check_withdrawal(number: int, body: Mapping[str, Any], replay: Replay) -> None:
    """Raises where it names no client or no round: nothing could follow from that."""
    state, findings = replay.state, replay.findings
    client, last, signature = body["client"], body["round"], body["signature"]
    if type(client) is not str or type(last) is not int:
        raise TypeError(f"client {client!r} and round {last!r}")
    findings.compare(number, "a withdrawal states these", ["client", "round", "signature"], sorted(body))
    if not 0 <= last <= ROUND_LIMIT:
        findings.add(number, "a client leaves after a round", f"0 to {ROUND_LIMIT}", str(last))
    if client not in state.members:
        findings.add(number, "members withdraw", "an admitted client", client)
        return
    key = state.members[client]
    if key is None:
        findings.compare(number, "a client without a key signs nothing", None, signature)
    elif signature is None or not WithdrawalNotice(state.book, client, last).is_signed(signature, key):
        found = "another" if signature else "none"
        findings.add(number, "a withdrawal is signed by its client", f"a signature by {client}", found)
    if client in state.withdrawn:
        findings.add(number, "a client withdraws once", f"{client} after round {state.withdrawn[client]}", "again")
    if client in state.eliminated:
        findings.add(number, "the eliminated are gone already", f"{client} since {state.eliminated[client]}", "it left")
    later = state.took_part_after(client, last)
    if later is not None:
        findings.add(number, "the withdrawn take part in no later round", f"{client} not in round {later}", "it was")
