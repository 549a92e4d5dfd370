"""All mechanisms, by the name that a scenario gives them. To add one, add its file and a line here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from commonweal.decision.mechanism import Mechanism
from commonweal.decision.mechanisms.own_file import load_mechanism
from commonweal.errors import InputError
from commonweal.records import Rules
from commonweal.records.rounds import FILE_PREFIX, FILE_VERSION_PREFIX

# "module of this package:its class". If a new version of a mechanism is a class of its own, it goes above the old one,
# which stays: ledgers that were settled with it are verified with it.
_ENTRIES = (
    "paper:Paper",
    "equal:Equal",
    "quantity:Quantity",
    "tang_wong:TangWong",
    "zhang:Zhang",
    "kang_contract:KangContract",
    "kang_reputation:KangReputation",
    "zhan:Zhan",
    "fli:FLI",
    "fmore:FMore",
    "active_fl:ActiveFL",
    "power_of_choice:PowerOfChoice",
    "cgsv:CGSV",
    "clarke:Clarke",
    "clarke_ir:ClarkeIR",
)


def _load(entry: str) -> type[Mechanism]:
    module, _, name = entry.partition(":")
    mechanism = getattr(import_module(f"commonweal.decision.mechanisms.{module}"), name)
    assert issubclass(mechanism, Mechanism), f"{entry} is not a Mechanism"
    return mechanism  # type: ignore[no-any-return]


_LOADED = [_load(entry) for entry in _ENTRIES]
VERSIONS: Mapping[str, type[Mechanism]] = MappingProxyType(
    {version: one for one in _LOADED for version in (one.version, *one.earlier_versions)}
)
MECHANISMS: Mapping[str, type[Mechanism]] = MappingProxyType(
    {one.name: next(newest for newest in _LOADED if newest.name == one.name) for one in _LOADED}
)
"""By name, each in its newest version."""


def mechanism_class(rules: Rules) -> type[Mechanism]:
    """The class that the rules name, in its newest version; a user's own file is run for it."""
    if rules.file is not None:
        return load_mechanism(rules.file)
    if rules.mechanism.startswith(FILE_PREFIX):
        raise InputError(f"The mechanism {rules.mechanism!r} is a file of its user, which is not at hand here.")
    if rules.mechanism not in MECHANISMS:
        raise InputError(f"mechanism must be one of {', '.join(MECHANISMS)}, got {rules.mechanism!r}.")
    return MECHANISMS[rules.mechanism]


def make_mechanism(rules: Rules) -> Mechanism:
    """The mechanism that the rules name."""
    return mechanism_class(rules)(rules)


def rules_for(kind: type[Mechanism], base: Rules) -> Rules:
    """The rules by which another mechanism decides the same federation: what it honours is kept, its own is default.

    A mechanism with a mu keeps that of `base`.
    """
    return Rules(
        mu=base.mu if kind.takes_mu else math.inf,
        mechanism=kind.name,
        parameters=tuple((name, one.default) for name, one in kind.parameters.items()),
        seed=base.seed or 0 if "seed" in kind.reads else None,
        **{rule: getattr(base, rule) for rule in kind.honours},
    )


def mechanism_of_version(version: str, rules: Rules) -> Mechanism:
    """The mechanism that a settled round was decided with."""
    if version.startswith(FILE_VERSION_PREFIX):
        if rules.file is None or rules.file.version != version:
            raise InputError(
                f"The round was decided by a file of SHA-256 {version.removeprefix(FILE_VERSION_PREFIX)}, which is not "
                "at hand. Give the file."
            )
        return load_mechanism(rules.file)(rules)
    if version not in VERSIONS:
        raise InputError(
            f"Unknown rules version {version!r}: this version of commonweal knows {', '.join(VERSIONS)}. Use a newer "
            "commonweal."
        )
    return VERSIONS[version].of_version(version, rules)
