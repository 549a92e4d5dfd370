"""Which parts of Flower are used that are not its public packages: a new one must be added here, with its reason."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

from commonweal.flower.rehearsal import warm_executor

ROOT = Path(__file__).parents[2]
PUBLIC = {"flwr.app", "flwr.clientapp", "flwr.serverapp", "flwr.serverapp.strategy"}

PRIVATE = {
    # in_process.py: a Message can only be made within a run, and this says which.
    ("flwr.supercore.task_identity", "TaskIdentity"): "flower/in_process.py",
    # superlink_api.py: what `flwr supernode register`, `supernode list`, `ls` and `stop` do, without their start-up.
    ("flwr.proto.control_pb2", "ListNodesRequest"): "flower/rehearsal/superlink_api.py",
    ("flwr.proto.control_pb2", "ListRunsRequest"): "flower/rehearsal/superlink_api.py",
    ("flwr.proto.control_pb2", "RegisterNodeRequest"): "flower/rehearsal/superlink_api.py",
    ("flwr.proto.control_pb2", "StopRunRequest"): "flower/rehearsal/superlink_api.py",
    ("flwr.supercore.control", "ControlHttpClient"): "flower/rehearsal/superlink_api.py",
    # Both: a SuperLink or SuperNode refuses requests without it.
    ("flwr.supercore.interceptors", "RuntimeVersionHttpInterceptor"): "flower/rehearsal",
    # warm_executor.py: a SuperNode whose ClientApps are forks, and which looks for messages more often.
    ("flwr.supernode", "start_client_internal"): "flower/rehearsal/warm_executor.py",
    ("flwr.supernode.cli", "flower_supernode"): "flower/rehearsal/warm_executor.py",
    ("flwr.proto.runtime_pb2", "AcquireTaskRequest"): "flower/rehearsal/warm_executor.py",
    ("flwr.supercore.constant", "TaskType"): "flower/rehearsal/warm_executor.py",
    ("flwr.supercore.runtime", "RuntimeHttpClient"): "flower/rehearsal/warm_executor.py",
    ("flwr.supernode.runtime.run_clientapp", "run_clientapp"): "flower/rehearsal/warm_executor.py",
}


def imports_of_flwr():
    """(module, name, file) of every import of flwr in the sources."""
    source = ROOT / "src" / "commonweal"
    for file in sorted(source.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "flwr" in text else ():
            place = str(file.relative_to(source))
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "flwr":
                yield from ((node.module, alias.name, place) for alias in node.names)
            elif isinstance(node, ast.Import):
                yield from ((alias.name, "", place) for alias in node.names if alias.name.split(".")[0] == "flwr")


def test_the_list_is_complete_and_has_nothing_superfluous():
    found = [(module, name, place) for module, name, place in imports_of_flwr() if module not in PUBLIC]
    assert {(module, name) for module, name, _ in found} == set(PRIVATE)
    for module, name, place in found:
        assert place.startswith(PRIVATE[module, name]), f"{name} is imported in {place} too"
    assert any(module in PUBLIC for module, _, _ in imports_of_flwr()), "the search finds imports"


@pytest.mark.parametrize(("module", "name"), PRIVATE)
def test_it_exists_in_the_installed_version(module, name):
    exec(f"from {module} import {name}", {})


def test_the_supernode_still_sleeps_by_the_clock_that_rehearsals_replace():
    """`warm_executor` puts another `time` into this module; if nothing there slept by it, that would do nothing."""
    import time

    from flwr.supernode import start_client_internal

    assert start_client_internal.time is time
    uses = re.findall(r"\btime\.(\w+)", Path(start_client_internal.__file__).read_text())
    assert set(uses) == {"sleep"}


def test_only_the_minor_version_that_was_tested_is_allowed():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (pin,) = [each for each in extras["flower"] if each.startswith("flwr")]
    major, minor = map(int, importlib.metadata.version("flwr").split(".")[:2])
    assert pin == f"flwr>={major}.{minor},<{major}.{minor + 1}"


def test_what_warm_executors_load_is_there():
    """They ignore what is missing, so a module that moved would only make them slow."""
    for module in warm_executor._LOADED:
        assert importlib.util.find_spec(module) is not None
