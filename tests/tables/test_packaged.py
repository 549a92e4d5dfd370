"""A real table with sites from PyPI."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from commonweal.errors import InputError
from commonweal.tables import packaged
from commonweal.tables.packaged import PACKAGED, is_packaged
from commonweal.tables.task import TableTask
from tests.tables.small import agreed_members

RANDHIE = {"table": "statsmodels:randhie", "site": "site", "target": "binexp", "ignore": ["meddol"]}
is_installed = find_spec("statsmodels") is not None


@pytest.mark.skipif(not is_installed, reason="statsmodels is not installed")
def test_randhie_has_six_sites(tmp_path):
    task = TableTask(RANDHIE)
    counts = task.sites(tmp_path)
    assert list(counts) == ["1", "2", "3", "4", "5", "6"]
    assert sum(counts.values()) == 20_190
    clients = agreed_members(task, tmp_path, round_count=8)
    assert clients[0].agreed["classes"] == ["0", "1"]
    columns = {block["column"] for block in clients[0].agreed["features"]}
    assert columns == set(PACKAGED["statsmodels:randhie"].columns) - {"site", "binexp", "meddol"}


def test_a_missing_package_is_told_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(packaged, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="needs statsmodels: pip install statsmodels"):
        TableTask(RANDHIE).sites(Path())


def test_names_of_packaged_tables():
    assert is_packaged("statsmodels:randhie")
    assert not is_packaged("patients.csv")
    assert not is_packaged("statsmodels")
    assert not is_packaged("C:/patients.csv")
    with pytest.raises(InputError, match=r"no packaged table 'statsmodels:rand'\. There is 'statsmodels:randhie'"):
        TableTask({**RANDHIE, "table": "statsmodels:rand"}).sites(Path())
