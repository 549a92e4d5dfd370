"""Figures become money to the last unit: every division is compared with exact fractions."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from itertools import product
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from commonweal.errors import InputError
from commonweal.ledger.money import (
    LARGEST_AMOUNT,
    amount_text,
    check_amount,
    in_proportion,
    largest_remainder,
    parse_amount,
    settle_payoffs,
    settle_transfers,
)

figures = st.floats(-1e4, 1e4) | st.integers(-3, 3).map(float) | st.sampled_from([0.5, -0.5, 1 / 3, 1e-300, -1e-300])
worths = st.sampled_from([1, 2, 100, 99_999, 100_000, 10**9])
digits = st.integers(0, 6)


def clients(values) -> dict:
    return {f"c{place}": value for place, value in enumerate(values)}


def balanced(parts: list[float]) -> dict[str, float]:
    """Transfers that sum to zero, up to the rounding of the last one."""
    return clients([*parts, -math.fsum(parts)])


def rounding_of(transfers: dict[str, float]) -> float:
    return 1e-12 * math.fsum(map(abs, transfers.values()))


def exact(amounts: dict[str, float], worth: int) -> dict[str, Fraction]:
    return {client: Fraction(amount) * worth for client, amount in amounts.items()}


def check_largest_remainders(paid: dict[str, int], due: dict[str, Fraction], total: int) -> None:
    """Rounded down, plus one unit each for the largest remainders; of equal remainders, for the first ones."""
    assert sum(paid.values()) == total
    assert list(paid) == list(due)
    extra = {client: paid[client] - math.floor(amount) for client, amount in due.items()}
    by_remainder = sorted(due, key=lambda client: due[client] - math.floor(due[client]), reverse=True)
    ranked = [extra[client] for client in by_remainder]
    assert ranked == sorted(ranked, reverse=True)
    assert ranked[0] - ranked[-1] <= 1
    missed = sum(due.values()) - total
    if abs(missed) < 1:
        assert all(abs(paid[client] - amount) <= 1 for client, amount in due.items())
    if missed == 0:
        assert all(abs(paid[client] - amount) < 1 for client, amount in due.items())  # whole amounts stay as they are


@given(st.lists(figures, min_size=1, max_size=8), worths)
@example([0.5], 1)
@example([-1 / 3, -1 / 3], 100)
def test_transfers_sum_to_zero_and_are_the_nearest_units(parts, worth):
    transfers = balanced(parts)
    paid = settle_transfers(transfers, worth, rounding=rounding_of(transfers))
    check_largest_remainders(paid, exact(transfers, worth), 0)


@given(st.lists(figures, min_size=1, max_size=8), worths)
@example([0.5], 1)
@example([-0.5], 1)
@example([0.25, 0.25], 1)
def test_payoffs_sum_to_the_budget_in_whole_units(parts, worth):
    payoffs = clients(parts)
    due = exact(payoffs, worth)
    budget = math.floor(sum(due.values()) + Fraction(1, 2))
    check_largest_remainders(settle_payoffs(payoffs, worth), due, budget)


@given(st.lists(st.integers(0, 10**15), min_size=1, max_size=8).filter(any), st.integers(1, 10**15))
@example([1, 1, 1], 100)
@example([0, 7, 0], 1)
def test_income_is_divided_in_proportion(weights, amount):
    parts = in_proportion(amount, clients(weights))
    check_largest_remainders(parts, clients([Fraction(amount * w, sum(weights)) for w in weights]), amount)
    assert all(part >= 0 for part in parts.values())
    assert all(part == 0 for part, weight in zip(parts.values(), weights, strict=True) if not weight)


def test_no_whole_amounts_are_nearer():
    """By brute force: largest remainders minimise the sum of squared errors and the largest error."""
    for count, denominator in ((1, 3), (2, 5), (3, 4)):
        for numerators in product(range(-denominator, denominator + 1), repeat=count):
            due = [Fraction(numerator, denominator) for numerator in numerators]
            for total in {math.floor(sum(due)), math.ceil(sum(due))}:
                found = largest_remainder(numerators, denominator, total)
                near = (range(math.floor(amount) - 1, math.floor(amount) + 3) for amount in due)
                errors = [
                    sum((part - amount) ** 2 for part, amount in zip(parts, due, strict=True))
                    for parts in product(*near)
                    if sum(parts) == total
                ]
                assert sum(found) == total
                assert sum((part - amount) ** 2 for part, amount in zip(found, due, strict=True)) == min(errors)


@pytest.mark.parametrize(
    ("due", "paid"),
    [
        ([0.5, 0.5, -1.0], [1, 0, -1]),  # of equal remainders, the first
        ([0.25, 0.5, 0.25, -1.0], [0, 1, 0, -1]),
        ([-0.75, 0.25, 0.5], [-1, 0, 1]),
        ([-0.5, -0.5, 1.0], [0, -1, 1]),
        ([0.0, 0.0], [0, 0]),
        ([-0.0], [0]),
    ],
)
def test_transfers_by_hand(due, paid):
    assert list(settle_transfers(clients(due), 1, rounding=0.0).values()) == paid


def test_the_rounding_of_transfers_is_divided_too():
    """With large figures the sum may miss zero by more than a unit; everybody bears the same part of it."""
    transfers = clients([2.0**40, 2.0**40, -(2.0**41) - 7])
    paid = settle_transfers(transfers, 1, rounding=10.0)
    assert [paid[client] - int(amount) for client, amount in transfers.items()] == [3, 2, 2]


@pytest.mark.parametrize("worth", [1, 100_000])
@pytest.mark.parametrize("missing", [1e-5, -1e-5, 1e20, 1e50])
def test_transfers_that_do_not_sum_to_zero_are_refused(worth, missing):
    with pytest.raises(InputError, match=r"The transfers of a round must sum to zero, got -?1e"):
        settle_transfers({"ann": 1e3, "bob": -1e3, "eve": missing}, worth, rounding=1e-12)


@settings(max_examples=5)
@given(st.integers(0, 10**6), st.integers(900, 1000), st.sampled_from([1.0, 1e5, 1e9]))
def test_a_thousand_clients_and_sums_of_many_digits(seed, client_count, scale):
    """Up to 10^15 minor units per client."""
    random = Random(seed)
    worth = 100_000
    profits = [random.uniform(-scale, scale) for _ in range(client_count)]
    weights = [random.random() for _ in range(client_count)]
    budget, total = math.fsum(profits), math.fsum(weights)
    payoffs = clients([weight / total * budget for weight in weights])
    transfers = clients([p - profit for p, profit in zip(payoffs.values(), profits, strict=True)])
    paid = settle_transfers(transfers, worth, rounding=1e-12 * math.fsum(map(abs, profits)))
    check_largest_remainders(paid, exact(transfers, worth), 0)
    due = exact(payoffs, worth)
    check_largest_remainders(settle_payoffs(payoffs, worth), due, math.floor(sum(due.values()) + Fraction(1, 2)))
    accrued = clients([random.randrange(10**15) for _ in range(client_count)])
    shares = {client: Fraction(10**15 * weight, sum(accrued.values())) for client, weight in accrued.items()}
    check_largest_remainders(in_proportion(10**15, accrued), shares, 10**15)


def test_no_posting_of_income_is_zero():
    assert settle_transfers({}, 100, rounding=0.0) == settle_payoffs({}, 100) == {}


@pytest.mark.parametrize("sign", [1, -1])
def test_what_a_ledger_cannot_hold_is_refused(sign):
    assert check_amount(sign * LARGEST_AMOUNT, "ann") == sign * LARGEST_AMOUNT
    with pytest.raises(InputError, match=r"at most 10\^15 minor units, got -?1000000000000001 for ann\."):
        check_amount(sign * (LARGEST_AMOUNT + 1), "ann")
    largest = {"ann": sign * 1e13, "bob": -sign * 1e13}
    assert settle_transfers(largest, 100, rounding=0.0) == {"ann": sign * 10**15, "bob": -sign * 10**15}
    beyond = {client: amount + math.copysign(0.01, amount) for client, amount in largest.items()}
    with pytest.raises(InputError, match=r"for ann\. Choose a smaller worth"):
        settle_transfers(beyond, 100, rounding=0.0)
    with pytest.raises(InputError, match=r"for ann\. Choose a smaller worth"):
        settle_payoffs(beyond, 100)


@given(st.integers(-(10**15), 10**15) | st.integers(-(10**30) + 1, 10**30 - 1), digits)
@example(0, 0)
@example(-5, 2)
@example(10**30 - 1, 6)
def test_amounts_are_written_and_read_back(amount, minor_digits):
    text = amount_text(amount, minor_digits)
    assert parse_amount(text, minor_digits) == amount
    assert Fraction(Decimal(text)) == Fraction(amount, 10**minor_digits)
    assert len(text.partition(".")[2]) == minor_digits


@pytest.mark.parametrize(
    ("text", "minor_digits", "amount"),
    [
        ("12", 2, 1200),
        ("12.3", 2, 1230),
        ("+12.34", 2, 1234),
        ("12.3400", 2, 1234),
        ("-0.01", 2, -1),
        ("0.50", 1, 5),
        ("007", 0, 7),
        (" 7 ", 0, 7),
        ("7.0", 0, 7),
        ("1" * 29 + ".5", 1, int("1" * 29 + "5")),
    ],
)
def test_amounts_as_people_write_them(text, minor_digits, amount):
    assert parse_amount(text, minor_digits) == amount


@pytest.mark.parametrize(
    "text",
    [
        "", " ", ".", ".5", "abc", "1,5", "1 000", "1_000", "0x10", "--1", "1e3", "nan", "snan", "-Infinity", "١٢",
        "0.001", "12.3401", "1.000000000000000000000000000000000000001", "1" * 20 + ".001", "1" * 40, "1e-9999999",
        "1e999999", "9e1000000000",
    ],
)  # fmt: skip
def test_text_that_is_not_an_amount_is_refused(text):
    with pytest.raises(
        InputError, match=r"An amount must be a number with at most 2 decimal places, such as 1234\.56, got "
    ):
        parse_amount(text, 2)


@given(st.decimals(-(10**18), 10**18, places=8) | st.decimals(-(10**18), 10**18, places=3), digits)
def test_amounts_are_read_exactly_or_not_at_all(number, minor_digits):
    minor = Fraction(number) * 10**minor_digits
    if minor.denominator == 1:
        assert parse_amount(f"{number:f}", minor_digits) == minor
    else:
        with pytest.raises(InputError):
            parse_amount(f"{number:f}", minor_digits)
