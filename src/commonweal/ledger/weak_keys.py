"""Ed25519 public keys that must not be used: one signature fits every message, or one key can be written in two ways.

The curve has eight points of small order. If a public key is one of them, the signature of 64 bytes that is valid for
one message is valid for others too, and nobody needs a private key to make it. A canonical key has a coordinate y below
p = 2^255 − 19; other encodings name points that already have a key.
"""

from __future__ import annotations

_P = 2**255 - 19
_Y_OF_ORDER_8 = int.from_bytes(
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"
)
_SMALL_ORDER = frozenset({1, _P - 1, 0, _Y_OF_ORDER_8, _P - _Y_OF_ORDER_8})  # y; the sign of x does not matter


def is_weak(key: bytes) -> bool:
    """Whether 32 bytes are a point of small order or not the canonical encoding of a point."""
    y = int.from_bytes(key, "little") & (2**255 - 1)  # the highest bit is the sign of x
    return y >= _P or y in _SMALL_ORDER
