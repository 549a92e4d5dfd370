"""One seed, many independent random streams, each with a name.

A stream is keyed by its purpose: (seed, purpose, client, round, iteration). So a client's draws depend neither on the
other clients nor on the order of computation.
"""

from __future__ import annotations

import hashlib
import json

import numpy as np


def stream(seed: int, purpose: str, *key: str | int) -> np.random.Generator:
    """The generator of (seed, purpose, *key): the same key gives the same draws, any other key independent ones."""
    return np.random.default_rng(stream_number(seed, purpose, *key))


def stream_number(seed: int, purpose: str, *key: str | int) -> int:
    """The key as an integer of 128 bits, for generators of other libraries."""
    # JSON distinguishes 1 from "1", and ("a", "b") from ("ab",).
    text = json.dumps([seed, purpose, *key], ensure_ascii=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")
