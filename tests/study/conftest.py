"""A small result set, computed once for all tests that read results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from commonweal.study.replication import Replication, ReplicationTask, replicate
from commonweal.study.result_set import write_replication, write_results
from tests.study.small_federation import small_federation

REPLICATION_COUNT = 3


@pytest.fixture(scope="session")
def small_replications() -> list[Replication]:
    """Three replications of the small federation over the whole axis, under both contribution rules."""
    scenario = small_federation(rounds=3)
    return [
        replicate(
            ReplicationTask(
                experiment="label-noise",
                replication=number,
                scenario=replace(scenario, seed=scenario.seed + number - 1),
                mus={"clip": "all", "raw": "all"},
                data_directory=None,
            )
        )
        for number in range(1, REPLICATION_COUNT + 1)
    ]


@pytest.fixture(scope="session")
def small_results(small_replications: list[Replication], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of their result set."""
    directory = tmp_path_factory.mktemp("results")
    for replication in small_replications:
        write_replication(directory, replication)
    write_results(directory)
    return directory
