"""One seed, many independent random streams, each with a name.

A stream is keyed by what it is for: (seed, purpose, client, round, iteration). So whoever else is in the federation,
and in which order things are computed, changes nothing in a client's own draws.
"""

from __future__ import annotations

import hashlib
import json

import numpy as np


def stream(seed: int, purpose: str, *key: str | int) -> np.random.Generator:
    """The generator of (seed, purpose, *key): the same key gives the same draws, any other key independent ones."""
    return np.random.default_rng(stream_number(seed, purpose, *key))


def stream_number(seed: int, purpose: str, *key: str | int) -> int:
    """The key as a whole number of 128 bits, for generators of other libraries."""
    # JSON keeps 1 and "1", and ("a", "b") and ("ab",), apart.
    text = json.dumps([seed, purpose, *key], ensure_ascii=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")
