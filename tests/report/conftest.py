"""Chronicles and their written reports, made once: drawing takes seconds."""

from __future__ import annotations

import pytest

from commonweal.report.study.page import write_study
from commonweal.report.write import write_all
from tests.report import artificial_study, chronicles


@pytest.fixture(scope="session")
def hospitals():
    return chronicles.hospitals()


@pytest.fixture(scope="session")
def hospitals_folder(hospitals, tmp_path_factory):
    """Everything that is written of the hospitals."""
    folder = tmp_path_factory.mktemp("hospitals")
    write_all(hospitals, folder)
    return folder


@pytest.fixture(scope="session", params=["pair", "dissolved", "lenient", "rude"])
def unusual(request):
    """Chronicles at the edges: one round, nobody left, nothing known, names that break out."""
    return getattr(chronicles, request.param)()


@pytest.fixture(scope="session")
def study():
    return artificial_study.study()


@pytest.fixture(scope="session")
def study_folders(tmp_path_factory):
    """Everything that is written of each artificial study."""
    folders = {name: tmp_path_factory.mktemp(name) for name in ("study", "bare", "rude")}
    for name, folder in folders.items():
        write_study(getattr(artificial_study, name)(), folder)
    return folders
