"""The mechanism of every version that a book may have been made with.

A version is never changed: whatever would decide the same figures otherwise gets a new one, and the old code stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from commonweal.decision.decide import decide_figures
from commonweal.errors import FederationError
from commonweal.records import Decision, Figures, Rules

CURRENT = "1"  # what new rounds are decided with


def _version_1(figures: Figures, rules: Rules, grace: bool) -> Decision:
    return decide_figures(figures, rules, grace=grace)


RULE_VERSIONS: Mapping[str, Callable[[Figures, Rules, bool], Decision]] = MappingProxyType({"1": _version_1})


def recompute(version: str, figures: Figures, rules: Rules, grace: bool) -> Decision:
    """A round decided as it was under these rules."""
    if version not in RULE_VERSIONS:
        raise FederationError(
            f"a decision is checked by the rules it was made with, got the version {version!r}; the versions known "
            f"here are {', '.join(RULE_VERSIONS)}: use a newer commonweal"
        )
    return RULE_VERSIONS[version](figures, rules, grace)
