"""Which mechanisms are compared: those of the registry, the paper's at several mu, and files of users."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from commonweal.decision.mechanism import Mechanism
from commonweal.decision.mechanisms import MECHANISMS, make_mechanism, mechanism_class, rules_for
from commonweal.decision.mechanisms.own_file import load_mechanism, mechanism_file
from commonweal.decision.mechanisms.paper import Paper
from commonweal.errors import CommonwealError, InputError
from commonweal.records import Rules
from commonweal.records.comparison import Skipped
from commonweal.records.rounds import FILE_PREFIX

EVERY_ONE = "all"
EXTREMES = {"least-lenient": 0.0, "most-lenient": math.inf}
"""The paper's mechanism at both ends of mu, by the name of its row."""

_ITERATION_LIMIT = "iteration_limit"  # a parameter that stands for the scenario's setting of the same name


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A row of the comparison."""

    name: str
    rules: Rules
    is_asked_for: bool = False  # by name: then it is an error if it cannot run

    @property
    def mechanism(self) -> Mechanism:
        return make_mechanism(self.rules)


def row_names() -> tuple[str, ...]:
    """The names of all rows that a comparison can have, apart from files of users."""
    first, *others = MECHANISMS
    return (first, *EXTREMES, *others)


def find_contenders(
    base: Rules, names: Sequence[str] = (EVERY_ONE,), *, mu: float | None = None, iteration_limit: int | None = None
) -> tuple[list[Contender], list[Skipped]]:
    """The mechanisms with these names, and those that cannot run with the reason; refused if one is asked for by name.

    `base` are the scenario's own rules: its mechanism keeps its parameters, and the others the rules that they honour.
    `mu` is for the mechanisms that have one; None: that of the scenario. `iteration_limit` is the scenario's, which a
    mechanism that chooses the iterations must keep to like the others.
    """
    own = mechanism_class(base)
    if mu is None and own.takes_mu:
        mu = base.mu
    asked = [name for name in dict.fromkeys(names) if name != EVERY_ONE]
    wanted = list(asked)
    if EVERY_ONE in names or not names:
        wanted = [*row_names(), *([own.name] if base.file is not None else []), *asked]
    contenders, skipped = [], []
    for name in dict.fromkeys(wanted):
        try:
            rules = _within(_rules(name, base, mu), base, iteration_limit)
            make_mechanism(rules).check(has_costs=True)  # in a simulation costs are known
            contenders.append(Contender(name=name, rules=rules, is_asked_for=name in asked))
        except CommonwealError as error:
            if name in asked:
                raise
            skipped.append(Skipped(name=name, label=MECHANISMS[name].full_label(), reason=str(error)))
    return _distinct(contenders), skipped


def _rules(name: str, base: Rules, mu: float | None) -> Rules:
    if name in EXTREMES:
        return replace(_of_kind(Paper, base), mu=EXTREMES[name])
    if name.startswith(FILE_PREFIX):
        file = base.file
        if file is None or file.name != name:
            file = mechanism_file(Path(name.removeprefix(FILE_PREFIX)))
        kind = load_mechanism(file)
        rules = base if file is base.file else replace(rules_for(kind, base), file=file)
    else:
        if name not in MECHANISMS:
            known = ", ".join((EVERY_ONE, *row_names()))
            raise InputError(f"There is no mechanism {name!r}. Choose among {known}, or a file of yours, file:FILE.py.")
        kind = MECHANISMS[name]
        rules = _of_kind(kind, base)
    if not kind.takes_mu:
        return rules
    if mu is None:
        raise InputError(f"The mechanism {name!r} needs mu, and the scenario has none. Give mu.")
    return replace(rules, mu=mu)


def _within(rules: Rules, base: Rules, iteration_limit: int | None) -> Rules:
    """With the scenario's limit, if the mechanism has one and the scenario does not set it."""
    given = dict(rules.parameters)
    if iteration_limit is None or _ITERATION_LIMIT not in given or rules is base or rules.file:
        return rules
    return replace(rules, parameters=tuple({**given, _ITERATION_LIMIT: float(iteration_limit)}.items()))


def _of_kind(kind: type[Mechanism], base: Rules) -> Rules:
    return base if base.mechanism == kind.name else rules_for(kind, base)


def _distinct(contenders: Sequence[Contender]) -> list[Contender]:
    """Each set of rules once: where the scenario's mu is 0 or infinite, its row is the one at that end."""
    found: list[Contender] = []
    for contender in contenders:
        if not any(one.rules == contender.rules and one.rules.file == contender.rules.file for one in found):
            found.append(contender)
    return found
