"""When a federation is finished, against all sets of clients."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from commonweal.decision.ending import find_ending

PROFITS = st.lists(st.integers(-40, 40), min_size=2, max_size=7)


@given(PROFITS)
def test_finished_means_that_no_set_of_two_or_more_has_a_positive_budget(profits):
    named = {f"c{number}": profit / 8 for number, profit in enumerate(profits)}  # sums of eighths are exact
    sets = [chosen for size in range(2, len(named) + 1) for chosen in combinations(named.values(), size)]
    ending = find_ending(named)
    assert (ending is not None) == (max(map(sum, sets)) <= 0)
    if ending is not None:
        assert ending.best_budget == max(map(sum, sets))
        assert ending.expected == named


def test_rounding_is_no_reason_to_go_on():
    assert find_ending({"a": 0.1 + 0.2, "b": -0.3}) is not None  # their sum is 5.6e-17


def test_one_client_is_no_federation():
    assert find_ending({"a": -1.0}) is None
    assert find_ending({}) is None
