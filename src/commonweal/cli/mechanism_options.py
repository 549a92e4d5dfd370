"""A mechanism from the options of a command: its name or the user's own file, and its parameters."""

from __future__ import annotations

from pathlib import Path

from commonweal.decision.mechanism import Mechanism
from commonweal.decision.mechanisms import MECHANISMS
from commonweal.decision.mechanisms.own_file import load_mechanism, mechanism_file
from commonweal.errors import InputError
from commonweal.records import MechanismFile
from commonweal.records.rounds import FILE_PREFIX


def own_file(mechanism: str) -> MechanismFile | None:
    """The user's own file that the option names; None if it names a mechanism of the registry."""
    return mechanism_file(Path(mechanism.removeprefix(FILE_PREFIX))) if mechanism.startswith(FILE_PREFIX) else None


def mechanism_named(mechanism: str) -> type[Mechanism]:
    """The class that the option names."""
    file = own_file(mechanism)
    if file is not None:
        return load_mechanism(file)
    if mechanism not in MECHANISMS:
        names = ", ".join(MECHANISMS)
        raise InputError(f"--mechanism must be one of {names}, or file:FILE.py, got {mechanism!r}.")
    return MECHANISMS[mechanism]


def parameters_of(kind: type[Mechanism], given: list[str]) -> tuple[tuple[str, float], ...]:
    """All parameters of the mechanism, with their defaults where they are not given."""
    values = {name: one.default for name, one in kind.parameters.items()}
    for text in given:
        name, has_value, value = text.partition("=")
        if not has_value:
            raise InputError(f"--parameter needs a name and a value, such as omega=2, got {text!r}.")
        values[name] = checked_number(f"--parameter {name}", value)
    return tuple(values.items())


def checked_number(option: str, text: str) -> float:
    """The number that an option's text says."""
    try:
        if "_" in text:
            raise ValueError
        return float(text)
    except ValueError:
        raise InputError(f"{option} must be a number such as 0.05, got {text!r}.") from None
