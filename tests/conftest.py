"""Property tests explore anew on every run of a developer, and are the same on every run of CI."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests import one_thread

one_thread.limit()
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("exploring", deadline=None)
settings.load_profile("steady" if os.environ.get("CI") else "exploring")


@pytest.fixture(autouse=True, scope="session")
def _keys_of_nobody(tmp_path_factory):
    """Commands sign with keys of the tests, never with the user's own."""
    os.environ["COMMONWEAL_KEYS"] = str(tmp_path_factory.mktemp("keys"))


LONGEST = ["study/test_ray.py", "cli/test_run.py", "cli/test_reproduce.py", "report/test_study_page.py"]


def pytest_collection_modifyitems(items):
    """The longest files first: one that comes last leaves the other workers idle."""
    ranks = {Path(__file__).parent / name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))
