"""What a federation measures by, as one hash: members sign it with their reports, so that all can be seen to agree."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from commonweal.ledger.canonical import canonical, hash_of

SETTINGS = ("seed", "rounds", "settings", "metric", "lower_is_better", "utility", "figures", "smooth", "learning")
"""Fields of questions that the first one fixes at a member."""


def settings_hash(fields: Mapping[str, Any], agreed: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of these fields, and of what the members' data have in common, as texts."""
    texts = {name: json.dumps(fields.get(name), sort_keys=True) for name in SETTINGS}
    return hash_of(canonical(texts | {"agreed": json.dumps(agreed, sort_keys=True)}))
