"""What each client gained, spent and contributed; pure functions, numpy only."""

from commonweal.valuation.adaptive import shapley_adaptive
from commonweal.valuation.coalition import CoalitionValue, Game
from commonweal.valuation.estimators import estimate_shapley
from commonweal.valuation.exact import marginal, quantity, shapley
from commonweal.valuation.leverage import shapley_leverage
from commonweal.valuation.measure import Contributions
from commonweal.valuation.permutations import shapley_gtg, shapley_tmc
from commonweal.valuation.profit import cost, profit, utility

__all__ = [
    "CoalitionValue",
    "Contributions",
    "Game",
    "cost",
    "estimate_shapley",
    "marginal",
    "profit",
    "quantity",
    "shapley",
    "shapley_adaptive",
    "shapley_gtg",
    "shapley_leverage",
    "shapley_tmc",
    "utility",
]
