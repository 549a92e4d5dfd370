"""A mechanism from the user's own Python file, which holds one subclass of `Mechanism`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any

from commonweal.decision.mechanism import COMMON_RULES, READABLE, Mechanism, Parameter
from commonweal.decision.returned import DECISIONS
from commonweal.errors import CommonwealError, InputError
from commonweal.own_code import fingerprint_of, imported, line_of
from commonweal.records import MechanismFile

_NOT_REMOTE = "is a file of your own, which only the simulator runs: members could not check what it decides"
_METHODS = ("__init__", "check", "select", "divide", "advance", "plan", "objective", "mu_path", "explain")


def mechanism_file(path: Path) -> MechanismFile:
    """The file, identified by its content; it is not run."""
    return MechanismFile(path=path, sha256=fingerprint_of(path, "mechanism"))


@lru_cache
def load_mechanism(file: MechanismFile) -> type[Mechanism]:
    """The class that the file defines, if its content is still the same. Its errors become sentences."""
    if fingerprint_of(file.path, "mechanism") != file.sha256:
        raise InputError(f"{file.path} was changed while it was in use. Start again.")
    module = imported(file.path, "mechanism")
    own = [each for each in vars(module).values() if _is_mechanism(each) and each.__module__ == module.__name__]
    if len(own) != 1:
        found = f"{len(own)}: {', '.join(each.__name__ for each in own)}" if own else "none"
        raise InputError(f"{file.path} must define one subclass of commonweal.Mechanism, got {found}.")
    _check(own[0], file.path)
    guarded = {name: _guarded(getattr(own[0], name), name, file.path) for name in _METHODS}
    declared = {"name": file.name, "version": file.version, "label": vars(own[0]).get("label", file.name)}
    refusal = {"remote_refusal": classmethod(lambda cls: _NOT_REMOTE)}
    return type(own[0].__name__, (own[0],), {**declared, **guarded, **refusal})


def _is_mechanism(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Mechanism)


def _check(mechanism: type[Mechanism], path: Path) -> None:
    """Refuse a class that cannot decide rounds, or declares something that does not exist."""
    if inspect.isabstract(mechanism):
        raise InputError(f"{mechanism.__name__} in {path} must define the method divide.")
    for name, known in (
        ("reads", READABLE),
        ("decides", tuple(DECISIONS.values())),
        ("honours", COMMON_RULES),
    ):
        _check_words(mechanism, name, known, path)
    label: object = getattr(mechanism, "label", "")
    if not isinstance(label, str):
        raise InputError(f"label of {mechanism.__name__} in {path} must be a text, got {label!r}.")
    parameters: object = mechanism.parameters
    if not isinstance(parameters, Mapping) or not all(isinstance(one, Parameter) for one in parameters.values()):
        raise InputError(f"parameters of {mechanism.__name__} in {path} must be a dict of Parameter(...) by name.")


def _check_words(mechanism: type[Mechanism], name: str, known: Collection[str], path: Path) -> None:
    words: object = getattr(mechanism, name)
    if isinstance(words, str) or not isinstance(words, Collection):
        raise InputError(f"{name} of {mechanism.__name__} in {path} must be a set of words, got {words!r}.")
    odd = next((word for word in words if word not in known), None)
    if odd is not None:
        raise InputError(f"{name} of {mechanism.__name__} in {path} must be among {', '.join(known)}, got {odd!r}.")


def _guarded(method: Callable[..., Any], name: str, path: Path) -> Callable[..., Any]:
    @wraps(method)
    def call(*given: Any, **named: Any) -> Any:
        try:
            return method(*given, **named)
        except CommonwealError:
            raise
        except (Exception, SystemExit) as error:
            where = line_of(error, path)
            raise InputError(f"{name} failed in {path}{where}: {type(error).__name__}: {error}") from error

    return call
