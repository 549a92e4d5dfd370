"""Property tests explore anew on every run of a developer, and are the same on every run of CI."""

from __future__ import annotations

import os

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
