"""Run reports and their written files, made once: drawing takes seconds."""

from __future__ import annotations

import pytest

from commonweal.report.study.page import write_study
from commonweal.report.write import write_all
from tests.made_once import made_once
from tests.report import artificial_study, run_reports


@pytest.fixture(scope="session")
def hospitals():
    return run_reports.hospitals()


@pytest.fixture(scope="session")
def hospitals_folder(hospitals, tmp_path_factory):
    """Everything that is written of the hospitals."""
    folder = tmp_path_factory.mktemp("hospitals")
    write_all(hospitals, folder)
    return folder


@pytest.fixture(scope="session", params=["pair", "dissolved", "lenient", "rude"])
def unusual(request):
    """Run reports at the edges: one round, nobody left, nothing known, names that break out."""
    return getattr(run_reports, request.param)()


@pytest.fixture(scope="session")
def study():
    return artificial_study.study()


@pytest.fixture(scope="session")
def study_folders(tmp_path_factory):
    """Everything that is written of each artificial study; not to be changed."""
    made = {name: getattr(artificial_study, name) for name in ("study", "bare", "rude")}
    return {
        name: made_once(tmp_path_factory, f"{name}-page", lambda folder, make=make: write_study(make(), folder))
        for name, make in made.items()
    }
