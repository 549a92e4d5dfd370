"""The code version follows what the code computes: words may change, figures and decisions may not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import commonweal
from commonweal.data import arrival
from commonweal.learning.algorithms.fedavg import FedAvg
from commonweal.study import behaviour, fixed_replications, mu_sets
from commonweal.study.behaviour import compute_code_version, is_earlier_format, same_behaviour

PRINT_VERSION = "from commonweal.study.behaviour import code_version; print(code_version())"


@pytest.fixture(scope="module")
def tables() -> list[pa.Table]:
    """The rows of the fixed replications, which take seconds; not to be changed."""
    return fixed_replications.fixed_replications()


@pytest.fixture(scope="module")
def version(tables: list[pa.Table]) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fixed_replications, "fixed_replications", lambda: tables)
        return compute_code_version()


def test_it_has_two_parts_and_is_the_same_each_time(version: str) -> None:
    assert not is_earlier_format(version)
    assert len(version) == 64
    assert compute_code_version() == version


@pytest.mark.soak
def test_a_changed_docstring_keeps_it_in_another_process_which_remembers_it(version: str, tmp_path: Path) -> None:
    source = Path(commonweal.__file__).parent
    shutil.copytree(source, tmp_path / "src/commonweal", ignore=shutil.ignore_patterns("__pycache__"))
    changed = tmp_path / "src/commonweal/seeds.py"
    changed.write_text(changed.read_text().replace("One seed, many", "One seed; many", 1))
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "src"), "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def printed() -> str:
        command = [sys.executable, "-c", PRINT_VERSION]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    assert printed() == version
    (remembered,) = (tmp_path / "cache/commonweal").iterdir()
    assert remembered.read_text() == version
    remembered.write_text("f" * 16 + "-" + "0" * 47)
    assert printed() == remembered.read_text(), "it is read, not computed again"
    changed.write_text(changed.read_text() + "\n")
    assert printed() == version, "for other source files it is computed again"


def test_other_averaging_changes_it_for_one_kind_of_processor(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    aggregate = FedAvg.aggregate
    monkeypatch.setattr(FedAvg, "aggregate", lambda *arguments: aggregate(*arguments) * 1.000001)
    changed = compute_code_version()
    assert not same_behaviour(version, changed, same_cpu_kind=True)
    assert same_behaviour(version, changed, same_cpu_kind=False), "as other rounding would"


def test_another_decision_changes_it(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decide = mu_sets.decide_figures
    monkeypatch.setattr(
        mu_sets, "decide_figures", lambda figures, rules: decide(figures, mu_sets.replace(rules, mu=0.0))
    )
    assert compute_code_version() != version


def test_another_stream_of_arrivals_changes_both_parts(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def other_stream(seed: int, purpose: str, *key: str | int) -> np.random.Generator:
        return np.random.default_rng(abs(hash((seed, len(purpose), len(key)))))

    monkeypatch.setattr(arrival, "stream", other_stream)
    changed = compute_code_version()
    assert not same_behaviour(version, changed, same_cpu_kind=False)


def test_other_libraries_change_both_parts(
    version: str, tables: list[pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fixed_replications, "fixed_replications", lambda: tables)
    monkeypatch.setattr(behaviour, "version", lambda library: "99.1")
    assert not same_behaviour(version, compute_code_version(), same_cpu_kind=False)


def test_a_folder_that_cannot_be_written_is_not_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(behaviour, "compute_code_version", lambda: "computed")
    assert behaviour.code_version.__wrapped__() == "computed"


def test_versions_of_the_earlier_format_only_match_themselves() -> None:
    new = "0" * 16 + "-" + "1" * 47
    assert is_earlier_format("0" * 64)
    for same_cpu_kind in (True, False):
        assert not same_behaviour("0" * 64, new, same_cpu_kind=same_cpu_kind)
        assert same_behaviour("0" * 64, "0" * 64, same_cpu_kind=same_cpu_kind)
