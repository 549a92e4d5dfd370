"""The reason for a client's fate in words: what it brought, what it earned or lost, how sure that is; then why.

"north contributed 0.002 ± 0.004 (3 % of the total), which cannot be told from nothing, and lost 0.005 ± 0.006; in 61 of
100 draws it would have stayed. It is eliminated: ..."
"""

from __future__ import annotations

import math
from typing import get_args

from commonweal.decision.explain import explain
from commonweal.decision.mechanisms import MECHANISMS
from commonweal.records import Decision, Evidence, HarmEvidence, LossRule, Stability
from commonweal.records.rounds import DEFAULT_MECHANISM

_UNKNOWN = Evidence()
_HARM = 2.0  # standard errors below zero from which on a contribution counts as negative beyond doubt
_DIGITS = 4  # of a figure without an error
_DECIMALS = 8  # smaller figures have an exponent
_EXPLAINED = 40  # loss-makers of a round, up to which a statement says what the elimination gains
_PROFITS_FIRST = "profits cover the others' losses first, and those who lost bear the rest"


def reason(decision: Decision, client: str, evidence: Evidence | None, explained: str) -> str:
    """The whole reason; `explained` is the mechanism's own explanation, which it ends with."""
    figures = brought_and_earned(decision, client, evidence) + expectation(decision, client, evidence)
    sure = how_sure_of(decision, client, evidence)
    rest = explained.removeprefix(f"{client} ")
    return f"{client} {figures}{f'; {sure}' if sure else ''}. {'It ' if rest != explained else ''}{rest}"


def brought_and_earned(decision: Decision, client: str, evidence: Evidence | None) -> str:
    """ "contributed 0.012 ± 0.004 (31 % of the total) and lost 0.005 ± 0.006"; errors only where they are known."""
    evidence = evidence or _UNKNOWN
    profit = decision.figures.profits[client]
    brought = _brought(decision, client, evidence.contribution_error)
    if profit == 0:
        return f"{brought} and neither earned nor lost anything"
    verb = "lost" if profit < 0 else "earned"
    return f"{brought} and {verb} {in_figures(abs(profit), evidence.profit_error)}"


def expectation(decision: Decision, client: str, evidence: Evidence | None, *, who: str = "it") -> str:
    """ "; it is expected to earn 0.01 ± 0.02 in the next round", where selection goes by that; "" otherwise."""
    if decision.figures.expected is None:
        return ""
    profit = decision.figures.expected[client]
    verb = "lose" if profit < 0 else "earn"
    is_ = "are" if who == "you" else "is"
    amount = in_figures(abs(profit), (evidence or _UNKNOWN).expected_error)
    return f"; {who} {is_} expected to {verb} {amount} in the next round"


def how_sure_of(decision: Decision, client: str, evidence: Evidence | None, *, who: str = "it") -> str:
    """How sure a client's fate is, where the figures could have made it another one; "" otherwise."""
    stability = (evidence or _UNKNOWN).stability
    if decision.finished and client in decision.payoffs:
        return how_sure_of_the_end(stability, who="the federation")
    if decision.spares_losses or decision.mu == math.inf:
        return ""
    return how_sure(client in decision.payoffs, stability, who=who)


def how_sure_of_the_end(stability: Stability | None, *, is_advice: bool = False, who: str = "it") -> str:
    """In how many draws a federation that is finished would have gone on; "" if that is not known."""
    if stability is None:
        return ""
    other = stability.draw_count - stability.same_count
    if other == 0:
        return f"the same in all {stability.draw_count} draws"
    instead = "another round would have paid" if is_advice else f"{who} would have gone on"
    return f"in {other} of {stability.draw_count} draws {instead}"


def how_sure(stays: bool, stability: Stability | None, *, who: str = "it") -> str:
    """In how many draws the fate would have been another; "" if that is not known. `who` is "it" or "you"."""
    if stability is None:
        return ""
    other = stability.draw_count - stability.same_count
    if other == 0:
        return f"the same in all {stability.draw_count} draws"
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
    made = f"the federation made a loss of {in_figures(-decision.budget, None)}; by the loss rule '{rules.loss_rule}'"
    moved = f"{pays if transfer < 0 else receives} {in_figures(abs(transfer), None)}"
    limit = "" if rules.liability_cap is None else f" (liability cap {in_figures(rules.liability_cap, None)})"
    if rules.loss_rule == "loss" and profit >= 0:
        keeps = f"{'keep' if who == 'you' else 'keeps'} {in_figures(decision.payoffs[client], None)}"
        paid = f"{moved}{limit} and " if is_paid else ""
        return f"{made} {_PROFITS_FIRST}; {who} {own}, so {who} {paid}{keeps}" if profit else ""
    return (
        f"{made} {_divided(decision, client, who)}, so {who} {bears} {in_figures(abs(decision.payoffs[client]), None)}"
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


def elimination_reason(decision: Decision, client: str) -> str:
    """What the federation gains by eliminating a client, for that client; it names nobody else."""
    if decision.rules.mechanism != DEFAULT_MECHANISM or len(decision.candidates) > _EXPLAINED:
        return ""
    fate = explain(decision.without_harmful, client)
    if fate.gain is None:
        return ""
    by = " of expected profit" if fate.is_expected else ""
    gained = f"the federation gains {in_figures(fate.gain, None)}{by} by eliminating you"
    if fate.gain <= fate.rounding or fate.is_tie:
        gained = "keeping you and eliminating you tie"
    return f"at mu = {decision.mu:g} {gained}"


def harm_in_words(evidence: HarmEvidence, *, who: str = "it") -> str:
    """ "over rounds 1 to 4 the model got worse by what it sent at 7 of 7 other clients (by −0.041 ± 0.006 …)"."""
    numbers = evidence.round_numbers
    first, last, count = numbers[0], numbers[-1], len(numbers)
    rounds = f"in round {last}" if count == 1 else f"over rounds {first} to {last}"
    if count not in (1, last - first + 1):
        rounds = f"over {count} of the rounds {first} to {last}"
    return (
        f"{rounds} the model got worse by what {who} sent at {evidence.harmed_count} of "
        f"{len(evidence.by_scorer)} other clients (mean effect {in_figures(evidence.mean, evidence.standard_error)})"
    )


def reported_as_harmful(evidence: HarmEvidence, *, who: str = "it") -> str:
    """The finding against a client that is not eliminated for it, and why it differs from its contribution."""
    whose = "your" if who == "you" else "its"
    return (
        f"reported as harmful: {harm_in_words(evidence, who=who)}, which is another figure than {whose} contribution "
        f"to this round: it is summed over rounds, {whose} own score does not count, and all others weigh the same"
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
        part = _percent(losses[client] / math.fsum(losses.values()))
        return f"{_PROFITS_FIRST}, in proportion to their losses, of which {who} made {part}"
    return equally


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %"


def _brought(decision: Decision, client: str, error: float | None) -> str:
    contribution = decision.figures.contributions[client]
    shown = in_figures(contribution, error)
    total = math.fsum(decision.used_contributions.values())
    part = ""
    if decision.rules.contribution_rule == "clip" and total > 0:  # money follows from it, however unsure it is
        part = f" ({_percent(decision.used_contributions[client] / total)} of the total)"
    if error and -_HARM * error <= contribution <= error:
        return f"contributed {shown}{part}, which cannot be told from nothing,"
    if contribution == 0:
        return "contributed nothing"
    if contribution < 0:
        sure = f"made the shared model worse (contribution {shown})"
        return f"contributed less than nothing ({shown})" if error is None else sure
    return f"contributed {shown}{part}"


def in_figures(value: float, error: float | None) -> str:
    """ "−0.002 ± 0.004": as many decimals as the error has meaning, and one more where the value would be zero."""
    sign, size = "−" if value < 0 else "", abs(value)
    if not error:
        return sign + (f"{size:.{_DIGITS}g}" if size < 10**_DIGITS else f"{size:.0f}")
    decimals = _decimals(error) + (f"{error:.1e}"[0] == "1")  # 0.0012 has two digits, 0.004 one
    if decimals > _DECIMALS:
        return f"{sign}{size:.2g} ± {error:.2g}"
    decimals += float(f"{size:.{decimals}f}") == 0 < size
    text = f"{size:.{decimals}f}"
    return f"{sign if float(text) else ''}{text} ± {error:.{decimals}f}"


def _decimals(size: float) -> int:
    """The place of the first digit behind the point; 0 for sizes of 1 or more."""
    return max(0, -math.floor(math.log10(size)))
