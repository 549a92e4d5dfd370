"""From verdicts on claims to one word: does what we found agree with what the paper shows?"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from commonweal.records.study import Verdict

Agreement = Literal["agrees", "agrees in part", "disagrees", "undecided", "not testable"]


def agreement(verdicts: Collection[Verdict]) -> Agreement:
    """All that could be tested held: agrees. Some held and some did not: in part. None held, some did not: disagrees.

    Undecided if nothing was refuted and something is open; not testable if nothing could be tested.
    """
    tested = [one for one in verdicts if one != "not testable"]
    if not tested:
        return "not testable"
    if all(one == "held" for one in tested):
        return "agrees"
    if "not held" in tested:
        return "agrees in part" if "held" in tested else "disagrees"
    return "undecided"
