"""One seed, many named streams."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.seeds import stream, stream_number

keys = st.lists(st.one_of(st.integers(-(2**40), 2**40), st.text(max_size=8)), max_size=3)
requests = st.tuples(st.integers(0, 2**63), st.text(max_size=8), keys)


def draws(seed, purpose, *key):
    return stream(seed, purpose, *key).integers(0, 2**62, 4).tolist()


@given(requests)
def test_the_same_key_gives_the_same_draws(request) -> None:
    seed, purpose, key = request
    assert draws(seed, purpose, *key) == draws(seed, purpose, *key)


@given(requests, requests)
def test_another_key_gives_other_draws(one, other) -> None:
    """Whole numbers and texts that look alike are different keys."""
    same = one[:2] == other[:2] and [(type(k), k) for k in one[2]] == [(type(k), k) for k in other[2]]
    assert (draws(*one[:2], *one[2]) == draws(*other[:2], *other[2])) == same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((7, "p", "a", "b"), (7, "p", "ab")),
        ((7, "p", "a", "b"), (7, "pa", "b")),
        ((7, "p", "a", "b"), (7, "p", "b", "a")),
        ((7, "p", 1), (7, "p", "1")),
        ((7, "p", 1, 2), (7, "p", 12)),
        ((7, "p", 1), (1, "p", 7)),
        ((7, "p"), (7, "p", "")),
        ((7, "p"), (77, "p")),
        ((7, "p", 'a", "b'), (7, "p", "a", "b")),
        ((7, "p", "ä"), (7, "p", "\\u00e4")),
        ((7, "p", "Ä"), (7, "p", "A\u0308")),
    ],
)
def test_similar_keys_give_different_streams(one, other) -> None:
    assert stream_number(*one) != stream_number(*other)
    assert draws(*one) != draws(*other)


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ((7, "batches", "ann", 3, 1), '[7, "batches", "ann", 3, 1]'),
        ((0, "initial model"), '[0, "initial model"]'),
        ((1, "arrival", "Zürich", 12), '[1, "arrival", "Z\\u00fcrich", 12]'),
    ],
)
def test_the_number_is_the_first_half_of_the_sha256_of_the_key_as_json(request_, text) -> None:
    """The text is written by hand: what a re-implementation in another language would have to write."""
    number = int(hashlib.sha256(text.encode("ascii")).hexdigest()[:32], 16)
    assert stream_number(*request_) == number
    assert stream(*request_).random(3).tolist() == np.random.Generator(np.random.PCG64(number)).random(3).tolist()


def test_another_process_with_another_hash_seed_draws_the_same() -> None:
    program = (
        "from commonweal.seeds import stream; print(stream(5, 'batches', 'ann', 2).integers(0, 2**62, 4).tolist())"
    )
    for hash_seed in ("0", "1234"):
        answer = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert answer.stdout.strip() == str(draws(5, "batches", "ann", 2))


def test_neighbouring_streams_are_uncorrelated() -> None:
    """All pairs of 20; the largest of 190 correlations of 2,000 draws stays below 4.5 deviations."""
    table = np.array([stream(1, "arrival", f"c{i}", i % 3).standard_normal(2000) for i in range(20)])
    correlations = np.corrcoef(table)[np.triu_indices(20, 1)]
    assert np.abs(correlations).max() < 4.5 / np.sqrt(2000)


def test_a_stream_is_not_advanced_by_another() -> None:
    first = stream(3, "arrival", "ann")
    before = first.random()
    stream(3, "arrival", "bob").random(100)
    np.random.default_rng(0).random(100)
    again = stream(3, "arrival", "ann")
    assert [before, first.random()] == [again.random(), again.random()]
