"""The paper's Table 1: which properties it ticks for itself and for its rivals."""

from __future__ import annotations

from commonweal.comparison.contenders import EXTREMES
from commonweal.records.comparison import Ticks

_OURS = Ticks(isi=True, ns=True, fairness=True, ir=True, bb=True, dh=True)

TICKS = {
    "zhang": Ticks(isi=False, ns=False, fairness=False, ir=True, bb=False, dh=False),
    "tang-wong": Ticks(isi=False, ns=False, fairness=False, ir=True, bb=True, dh=False),
    "kang-contract": Ticks(isi=True, ns=True, fairness=False, ir=True, bb=True, dh=False),
    "zhan": Ticks(isi=True, ns=False, fairness=False, ir=False, bb=False, dh=False),
    "paper": _OURS,
    **dict.fromkeys(EXTREMES, _OURS),
}
"""By the name of a row."""
