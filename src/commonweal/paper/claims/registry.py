"""All claims, in the paper's order."""

from __future__ import annotations

import re

from commonweal.paper.claims import contributions, durations, fairness, payoffs, welfare
from commonweal.paper.claims.claim import Claim


def _number(claim: Claim) -> tuple[int, str]:
    found = re.fullmatch(r"C(\d+)([a-z]?)", claim.name)
    assert found, claim.name
    return int(found[1]), found[2]


CLAIMS = tuple(
    sorted((*durations.CLAIMS, *welfare.CLAIMS, *fairness.CLAIMS, *payoffs.CLAIMS, *contributions.CLAIMS), key=_number)
)
