"""The search over the candidates whose fate the relaxation leaves open.

Candidates are taken in order of falling contribution. A state is a decision about those taken so far; all
states of a step are held in arrays, and each step branches and then prunes them. All states of a step have the same
candidates left, so one `searchsorted` finds the best continuous completion of every state: with the rest sorted by
falling ratio r = l/q, the first j of them go in full exactly as long as

    (what else stays)  >  √(μT/r_j) − Σ_{i>j} q_i,

whose right-hand side rises with j. Eliminating those j is also a possible decision, so every step yields both a bound
for each state and the best set found so far. Once there are no more decisions about the rest than there are states,
the two are joined: sorted by contribution, only pairs that retain about X* matter.

Values are relative to the set in which no undecided candidate goes: Σ_E l − μT·y / (X₀·X), y = Q(E), X = X₀ − y, with
X and y each added up from positive terms, so nothing cancels. Every comparison leaves room for rounding: a set that
could be the best in exact arithmetic is never dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from commonweal.decision.exact import BoolArray, FloatArray, IntArray
from commonweal.decision.instance import Instance
from commonweal.decision.states import Groups, Rest, States, Trail

_EPSILON = 2.0**-53
_UNDERFLOW = 1e-290  # smaller products of admissible figures may have lost digits
_THIN_ABOVE = 256  # states; fewer are not worth sorting
_JOIN_ABOVE = 32  # states; fewer are stepped through
_PAIR_LIMIT = 2**21  # pairs a join may look at
_SMALL_SEARCH = 2**12  # a search with fewer states is always completed
_OPEN_PER_NODE = 8  # summing over this many open candidates takes about as long as one more state


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The sets that may be the best, one per row; a single row if the search was cut short."""

    survivors: BoolArray
    undecided: IntArray  # candidates left for later, because those before them were decided with certainty
    shortfall: float  # another set may still be better than the best row by up to this much
    node_count: int
    limit_reached: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """What values are computed from: μT, X₀, the contribution that stays anyway, and the relative rounding error."""

    mu_total: float
    x_start: float
    kept: float
    rounding: float

    def value(self, lost: FloatArray, gone: FloatArray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Σ_E l − μT·y/(X₀·X), and the slack to leave for rounding."""
        penalty = self.mu_total * (gone / self.x_start) / x
        return lost - penalty, self.rounding * (lost + penalty) + _UNDERFLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class _Best:
    """The best set found so far, as the steps that led to it; the set itself is made only when needed."""

    x: float  # the contribution that it retains
    step: int
    state: int  # before that step
    here: int = 0  # how many members go from the group decided in that step
    rest: IntArray | None = None  # the groups after it that go in full

    def row(self, trail: Trail, groups: Groups, order: IntArray) -> BoolArray:
        row = trail.sets(self.step, np.array([self.state]))
        if self.rest is not None:
            members = groups.members[order[self.step]]
            row[0, members[len(members) - self.here :]] = True
            for group in self.rest.tolist():
                row[0, groups.members[group]] = True
        return row


def search(
    instance: Instance,
    mu: float,
    *,
    node_limit: int,
    good_enough: float = -1.0,
    all_ties: bool = True,
    stop_when_certain: bool = False,
    width: float = 0.0,
    most_going: int | None = None,
) -> SearchResult:
    """Find the sets that may maximise Σ_E l − μT/X(E), X(E) = kept + Σ_{stay} q.

    With `all_ties`, every set that may be the best survives, and every set that may fall short of it by no more than
    `width`, unless more than `most_going` candidates go; without it, one of several equal sets survives. The search
    stops at `node_limit` states; once it is large, as soon as no set can be better than the best one found by more than
    `good_enough`; and, with `stop_when_certain`, when a single state is left, so that the caller can relax the rest
    again.
    """
    losses, contributions, kept, mu_total = (
        instance.losses,
        instance.contributions,
        instance.kept_sum,
        mu * instance.total,
    )
    groups = Groups.gather(losses, contributions)
    still_open = np.argsort(-groups.ratios, kind="stable")
    order = np.lexsort((groups.ratios, -groups.contributions))
    choices_left = np.cumsum(np.log2(groups.sizes[order] + 1.0)[::-1])[::-1]
    trail = Trail(groups)
    rest = Rest.of(groups, still_open, mu_total)
    states = States.undecided()
    near_ties = 0.0
    node_count = 0

    def result(
        survivors: BoolArray, shortfall: float = 0.0, undecided: IntArray = order[:0], limit_reached: bool = False
    ) -> SearchResult:
        return SearchResult(
            survivors=survivors,
            undecided=undecided,
            shortfall=shortfall + near_ties,
            node_count=node_count,
            limit_reached=limit_reached,
        )

    for step, group in enumerate(order.tolist()):
        if states.count == 1:
            if stop_when_certain and step:
                undecided = np.concatenate([groups.members[g] for g in still_open])
                return result(trail.sets(step, np.zeros(1, np.int64)), undecided=undecided)
            # Make values relative to this state, so that large figures that are already decided do not swamp small
            # ones that are not.
            frame = _Frame(
                mu_total=mu_total,
                x_start=kept + float(states.stays[0] + rest.stays_sums[0]),
                kept=kept,
                rounding=(16 + 8 * len(losses)) * _EPSILON,
            )
            states = replace(states, lost=np.zeros(1), gone=np.zeros(1))
            best_low, best = 0.0, _Best(x=frame.x_start, step=step, state=0)
        elif states.count > _JOIN_ABOVE and choices_left[step] <= 1 + np.log2(states.count):
            pairs = _join(states, groups, order[step:], frame, best_low, best.x, width, most_going)
            if pairs is not None:
                node_count += len(pairs[0])
                return result(trail.sets(step, pairs[0]) | pairs[1])

        parents, counts, states = states.branch(groups, group)
        still_open = still_open[still_open != group]
        node_count += states.count + len(still_open) // _OPEN_PER_NODE
        rest = Rest.of(groups, still_open, mu_total)
        full, x, value, slack, bound = _complete(states, rest, frame)

        leader = int(np.argmax(value - slack))
        if value[leader] - slack[leader] > best_low:
            best_low = float(value[leader] - slack[leader])
            best = _Best(
                x=float(x[leader]),
                step=step,
                state=int(parents[leader]),
                here=int(counts[leader]),
                rest=rest.groups[: full[leader]],
            )
        keep = bound >= best_low - width
        if most_going is not None:
            keep &= states.going <= most_going
        shortfall = float(bound.max()) - best_low
        if not all_ties and np.count_nonzero(keep) > _THIN_ABOVE:
            keep, near_tie = _undominated(states, keep, slack)
            near_ties += near_tie
        states = states.pick(keep)
        trail.add(group, parents[keep], counts[keep])
        enough = shortfall <= good_enough and node_count > _SMALL_SEARCH
        if enough or (len(still_open) and node_count + 2 * states.count > node_limit):
            return result(best.row(trail, groups, order), shortfall, limit_reached=not enough)
    return result(trail.sets(len(order), np.arange(states.count)))


def _complete(
    states: States, rest: Rest, frame: _Frame
) -> tuple[IntArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """For each state: how many of the rest should go in full, the X, value and slack of that set, and a bound."""
    stays = frame.kept + states.stays
    full = np.searchsorted(rest.needed, stays)
    alive = (
        stays + rest.stays_sums[0] > 0
    )  # somebody with a contribution must stay: one before, or the last of the rest
    full = np.maximum(np.minimum(full, len(rest.groups) - (stays == 0)), 0)
    x = np.where(alive, stays + rest.stays_sums[full], 1.0)
    value, slack = frame.value(states.lost + rest.loss_sums[full], states.gone + rest.gone_sums[full], x)
    value[~alive] = -np.inf
    bound = value + slack
    # The next of the rest may go in part, which adds r (X − X*)² / X, but no more than all of its loss.
    broken = np.flatnonzero(full < len(rest.groups))
    if len(broken):
        at_break, x_broken = full[broken], x[broken]
        distance = np.maximum(x_broken - rest.x_alone[at_break], 0.0) + 4 * _EPSILON * x_broken
        with np.errstate(over="ignore"):
            gained = rest.ratios[at_break] * distance * distance / x_broken
        bound[broken] += np.minimum(gained, rest.losses[at_break]) * (1 + frame.rounding)
    return full, x, value, slack, bound


def _undominated(states: States, keep: BoolArray, slack: FloatArray) -> tuple[BoolArray, float]:
    """Drop each state if another one is at least as good both in the losses that go and in what stays.

    Also returns what rounding may have lost: the largest slack of a state that was dropped by less than its slack.
    """
    kept = np.flatnonzero(keep)
    order = kept[np.lexsort((-states.lost[kept], -states.stays[kept]))]
    lost = states.lost[order]
    best_before = np.concatenate(([-np.inf], np.maximum.accumulate(lost)[:-1]))
    dominated = lost <= best_before
    close = dominated & (lost > best_before - slack[order])
    undominated = np.zeros_like(keep)
    undominated[order[~dominated]] = True
    return undominated, float(slack[order[close]].max(initial=0.0))


def _join(
    states: States,
    groups: Groups,
    order: IntArray,
    frame: _Frame,
    best_low: float,
    x_best: float,
    width: float,
    most_going: int | None,
) -> tuple[IntArray, BoolArray] | None:
    """All pairs (state, decision on the groups in `order`) that may be near the best; None if there are too many.

    At the price λ = μT/X*² the pair's value is at most A + B + λ(X₀ − X*)²/X₀ − λ(X − X*)²/X, where A is the
    state's Σ(l − λq) and B the largest such sum of any decision on the rest. To reach the lowest value asked for, X
    must therefore lie between the roots of (X − X*)² = hX, a short interval around X*.
    """
    others = States.undecided()
    trail = Trail(groups)
    for group in order.tolist():
        parents, counts, others = others.branch(groups, group)
        trail.add(group, parents, counts)
    by_stays = np.argsort(others.stays, kind="stable")
    others = others.pick(by_stays)

    def value(first: IntArray, second: IntArray) -> tuple[FloatArray, FloatArray]:
        x = frame.kept + states.stays[first] + others.stays[second]
        lost, gone = states.lost[first] + others.lost[second], states.gone[first] + others.gone[second]
        values, slacks = frame.value(lost, gone, np.where(x > 0, x, 1.0))
        return np.where(x > 0, values, -np.inf), slacks

    # First find a good pair: for each state, the decision that comes closest to X*.
    everyone = np.arange(states.count)
    stays = frame.kept + states.stays
    nearest = np.searchsorted(others.stays, x_best - stays)
    for second in (np.minimum(nearest, others.count - 1), np.maximum(nearest - 1, 0)):
        values, slacks = value(everyone, second)
        best_low = max(best_low, float((values - slacks).max()))

    price = frame.mu_total / x_best / x_best
    top = price * (frame.x_start - x_best) * ((frame.x_start - x_best) / frame.x_start)
    surplus = states.lost - price * states.gone + float((others.lost - price * others.gone).max()) + top
    surplus -= best_low - width
    size = states.lost + price * states.gone + float((others.lost + price * others.gone).max()) + top
    h = np.maximum(surplus + 4 * frame.rounding * size, 0.0) / price
    middle, radius = x_best + h / 2, np.sqrt(h * x_best + h * h / 4)
    room = 4 * frame.rounding * (x_best + h)
    first_other = np.searchsorted(others.stays, middle - radius - room - stays, side="left")
    last_other = np.searchsorted(others.stays, middle + radius + room - stays, side="right")
    pair_counts = last_other - first_other
    pair_count = int(pair_counts.sum())
    if pair_count > _PAIR_LIMIT:
        return None
    first = np.repeat(everyone, pair_counts)
    starts = np.cumsum(pair_counts) - pair_counts
    second = np.arange(pair_count) - np.repeat(starts - first_other, pair_counts)
    values, slacks = value(first, second)
    may_win = values + slacks >= max(best_low, float((values - slacks).max())) - width
    if most_going is not None:
        may_win &= states.going[first] + others.going[second] <= most_going
    return first[may_win], trail.sets(len(order), by_stays[second[may_win]])
