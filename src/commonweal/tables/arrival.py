"""Which of a site's rows are for training and which for validation, and the round in which each arrives."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from commonweal.seeds import stream

_BLOCK = 10  # of this many rows in order of arrival, a fixed number is for validation

Positions = NDArray[np.int64]


def random_order(row_count: int, seed: int, site: str) -> Positions:
    """The rows of a site in the order of their arrival, if no column says when they arrive."""
    return stream(seed, "order of rows", site).permutation(row_count)


def validation_rows(row_count: int, share: float, seed: int, site: str) -> NDArray[np.bool_]:
    """For each position in the order of arrival: whether the row there is for validation.

    Of the first two rows one is for validation, one for training. Of the first k rows, round(share · k) are for
    validation whenever k is a multiple of ten; which ones is random. So this depends on neither rounds nor other sites.
    """
    random = stream(seed, "validation rows", site)
    is_validation = np.zeros(row_count, dtype=bool)
    for start in range(0, row_count, _BLOCK):
        stop = min(start + _BLOCK, row_count)
        count = round(share * stop) - round(share * start)
        candidates = np.arange(start, stop)
        if start == 0:
            chosen = int(random.integers(2))
            is_validation[chosen] = True
            candidates = candidates[2:]
            count = max(count - 1, 0)
        # Where nearly all rows are for validation, the first block has one less than its quota: one must be trained on.
        is_validation[random.permutation(candidates)[:count]] = True
    return is_validation


def rounds_by_row(row_count: int, round_count: int) -> Positions:
    """For each position in the order of arrival its round: parts of nearly equal size, the first of at least two."""
    sizes = _nearly_equal(row_count, round_count)
    if sizes[0] < 2 and round_count > 1:
        sizes = [min(2, row_count), *_nearly_equal(max(row_count - 2, 0), round_count - 1)]
    return np.repeat(np.arange(1, round_count + 1), sizes)


def rounds_by_date(days: NDArray[np.float64], first: float, last: float, round_count: int) -> Positions:
    """The round of each row, by its date: round_count periods of equal length from `first` to `last`.

    `days` are in order. The two earliest rows always arrive in round 1, so that every site can start.
    """
    length = (last - first) / round_count
    passed = np.zeros(len(days)) if length <= 0 else np.floor((days - first) / length)
    rounds = np.clip(passed, 0, round_count - 1).astype(np.int64) + 1
    rounds[:2] = 1
    return rounds


def _nearly_equal(total: int, part_count: int) -> list[int]:
    """Sizes that sum to `total` and differ by at most one, the larger ones first."""
    size, rest = divmod(total, part_count)
    return [size + (part < rest) for part in range(part_count)]
