"""The reason for a client's fate in words: what it brought, what it earned or lost, how sure that is; then why.

"north contributed nothing measurable (−0.002 ± 0.004) and lost 0.005 ± 0.006; in 61 of 100 draws it would have stayed.
It is eliminated: ..."
"""

from __future__ import annotations

import math
from typing import get_args

from commonweal.decision.mechanisms import MECHANISMS
from commonweal.records import Decision, Evidence, HarmEvidence, LossRule, Stability
from commonweal.records.rounds import DEFAULT_MECHANISM

_UNKNOWN = Evidence()
_HARM = 2.0  # standard errors below zero from which on a contribution counts as negative beyond doubt
_DIGITS = 4  # of a figure without an error
_DECIMALS = 8  # smaller figures have an exponent


def reason(decision: Decision, client: str, evidence: Evidence | None, explained: str) -> str:
    """The whole reason; `explained` is the mechanism's own explanation, which it ends with."""
    can_go = not decision.spares_losses and decision.mu < math.inf
    total = math.fsum(decision.used_contributions.values())
    used = decision.used_contributions[client]
    figures = brought_and_earned(
        profit=decision.figures.profits[client],
        contribution=decision.figures.contributions[client],
        evidence=evidence,
        part=used / total if decision.rules.contribution_rule == "clip" and total > 0 else None,
    )
    figures += expectation(decision, client)
    sure = how_sure(client not in decision.eliminated, (evidence or _UNKNOWN).stability) if can_go else ""
    rest = explained.removeprefix(f"{client} ")
    return f"{client} {figures}{f'; {sure}' if sure else ''}. {'It ' if rest != explained else ''}{rest}"


def brought_and_earned(*, profit: float, contribution: float, evidence: Evidence | None, part: float | None) -> str:
    """ "contributed 0.012 ± 0.004 (31 % of the total) and lost 0.005 ± 0.006"; errors only where they are known."""
    evidence = evidence or _UNKNOWN
    brought = _brought(contribution, evidence.contribution_error, part)
    if profit == 0:
        return f"{brought} and neither earned nor lost anything"
    verb = "lost" if profit < 0 else "earned"
    return f"{brought} and {verb} {in_figures(abs(profit), evidence.profit_error)}"


def expectation(decision: Decision, client: str, *, who: str = "it") -> str:
    """ "; it is expected to earn 0.01 in the next round", where selection goes by that; "" otherwise."""
    if decision.figures.expected is None:
        return ""
    profit = decision.figures.expected[client]
    verb = "lose" if profit < 0 else "earn"
    is_ = "are" if who == "you" else "is"
    return f"; {who} {is_} expected to {verb} {in_figures(abs(profit), None)} in the next round"


def how_sure(stays: bool, stability: Stability | None, *, who: str = "it") -> str:
    """In how many draws the fate would have been another; "" if that is not known. `who` is "it" or "you"."""
    if stability is None:
        return ""
    other = stability.draw_count - stability.same_count
    if other == 0:
        stay, go = ("stay", "are eliminated") if who == "you" else ("stays", "is eliminated")
        return f"{who} {stay if stays else go} in all {stability.draw_count} draws"
    return f"in {other} of {stability.draw_count} draws {who} would have {'been eliminated' if stays else 'stayed'}"


def loss_reason(decision: Decision, client: str, *, who: str, is_paid: bool = True) -> str:
    """By which rule a loss was divided, and why the client bears what it bears; "" for one that bears no part of it.

    `who` is "you" or the client's name; `is_paid` tells whether transfers are paid, or payoffs accrue. Mechanisms that
    do not honour the loss rule divide losses in their own way.
    """
    rules = decision.rules
    mechanism = MECHANISMS.get(rules.mechanism)
    honours = mechanism is not None and "loss_rule" in mechanism.honours
    by_rule = honours and rules.loss_rule in get_args(LossRule)
    if decision.budget >= 0 or client not in decision.payoffs or not by_rule:
        return ""
    bears, pays, receives = ("bear", "pay", "receive") if who == "you" else ("bears", "pays", "receives")
    profit, transfer = decision.figures.profits[client], decision.transfers[client]
    own = f"{'lost' if profit < 0 else 'earned'} {in_figures(abs(profit), None)}"
    moved = f"{pays if transfer < 0 else receives} {in_figures(abs(transfer), None)}"
    limit = "" if rules.liability_cap is None else f" (liability cap {in_figures(rules.liability_cap, None)})"
    return (
        f"the federation made a loss of {in_figures(-decision.budget, None)}; by the loss rule '{rules.loss_rule}' "
        f"{_divided(decision, client, who)}, so {who} {bears} {in_figures(abs(decision.payoffs[client]), None)}"
        + (f"; as {who} {own}, {who} {moved}" if is_paid and transfer else "")
        + limit
    )


def payment_reason(decision: Decision, client: str) -> str:
    """By which rule a client pays for others' losses although the federation made none; "" for everybody else."""
    if decision.rules.mechanism != DEFAULT_MECHANISM or decision.budget < 0 or decision.transfers.get(client, 0) >= 0:
        return ""
    profits = decision.figures.profits
    others = math.fsum(max(-profits[each], 0.0) for each in decision.retained if each != client)
    if others == 0:
        return ""
    total = math.fsum(decision.used_contributions[each] for each in decision.retained)
    divided = f"divided equally among {len(decision.retained)}, since nobody contributed anything"
    if total:
        divided = f"divided by contribution, and you contributed {_percent(decision.shares[client])}"
    cap = decision.rules.liability_cap
    return (
        f"others lost {in_figures(others, None)}; what the federation made, {in_figures(decision.budget, None)}, is "
        f"{divided}, so your payoff is {in_figures(decision.payoffs[client], None)}; as you "
        f"{'lost' if profits[client] < 0 else 'earned'} {in_figures(abs(profits[client]), None)}, you pay "
        f"{in_figures(-decision.transfers[client], None)}"
        + ("" if cap is None else f" (liability cap {in_figures(cap, None)})")
    )


def harm_in_words(evidence: HarmEvidence, *, who: str = "it") -> str:
    """ "over rounds 1 to 4 the model got worse by what it sent at 7 of 7 other clients (−0.041 ± 0.006)"."""
    numbers = evidence.round_numbers
    first, last, count = numbers[0], numbers[-1], len(numbers)
    rounds = f"in round {last}" if count == 1 else f"over rounds {first} to {last}"
    if count not in (1, last - first + 1):
        rounds = f"over {count} of the rounds {first} to {last}"
    return (
        f"{rounds} the model got worse by what {who} sent at {evidence.harmed_count} of "
        f"{len(evidence.by_scorer)} other clients ({in_figures(evidence.mean, evidence.standard_error)})"
    )


def eliminated_as_harmful(evidence: HarmEvidence) -> str:
    """The explanation of that fate."""
    return f"{evidence.client} is eliminated as harmful: {harm_in_words(evidence)}."


def _divided(decision: Decision, client: str, who: str) -> str:
    rule, count = decision.rules.loss_rule, len(decision.retained)
    equally = f"it is divided equally among {count} {'client' if count == 1 else 'clients'}"
    if rule == "contribution":
        if not any(decision.used_contributions[each] for each in decision.retained):
            return f"it is divided by contribution, and where nobody contributed anything, equally among {count}"
        return f"it is divided by contribution, and {who} contributed {_percent(decision.shares[client])}"
    if rule == "cost" and decision.figures.costs is not None:
        costs = {each: decision.figures.costs[each] for each in decision.retained}
        total = math.fsum(costs.values())
        if total > 0:
            return f"it is divided by cost, and {who} had {_percent(costs[client] / total)} of all costs"
    if rule == "loss":
        losses = {each: max(-decision.figures.profits[each], 0.0) for each in decision.retained}
        if not losses[client]:
            return f"those who lost bear it, and who earned something pays no more than that; {who} lost nothing"
        part = _percent(losses[client] / math.fsum(losses.values()))
        return f"those who lost bear it in proportion to their losses, and {who} made {part} of these"
    return equally


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %"


def _brought(contribution: float, error: float | None, part: float | None) -> str:
    shown = in_figures(contribution, error)
    if error and -_HARM * error <= contribution <= error:
        return f"contributed nothing measurable ({shown})"
    if contribution == 0:
        return "contributed nothing"
    if contribution < 0:
        sure = f"made the shared model worse (contribution {shown})"
        return f"contributed less than nothing ({shown})" if error is None else sure
    return f"contributed {shown}" + ("" if part is None else f" ({_percent(part)} of the total)")


def in_figures(value: float, error: float | None) -> str:
    """ "−0.002 ± 0.004": as many decimals as the error has meaning, and enough to show that the value is not zero."""
    sign, size = "−" if value < 0 else "", abs(value)
    if not error:
        return sign + (f"{size:.{_DIGITS}g}" if size < 10**_DIGITS else f"{size:.0f}")
    decimals = _decimals(error) + (f"{error:.1e}"[0] == "1")  # 0.0012 has two digits, 0.004 one
    if max(decimals, _decimals(size) if size else 0) > _DECIMALS:
        return f"{sign}{size:.2g} ± {error:.2g}"
    return f"{sign}{size:.{max(decimals, _decimals(size) if size else 0)}f} ± {error:.{decimals}f}"


def _decimals(size: float) -> int:
    """The place of the first digit behind the point; 0 for sizes of 1 or more."""
    return max(0, -math.floor(math.log10(size)))
