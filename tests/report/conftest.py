"""Run reports, studies and their written files, made once: drawing takes seconds."""

from __future__ import annotations

import pytest

from commonweal.report import inline_svg
from commonweal.report.run_page import to_page
from commonweal.report.study.page import write_study
from commonweal.report.write import write_all
from tests.made_once import made_once
from tests.report import artificial_study, run_reports

UNUSUAL = ("pair", "dissolved", "lenient", "rude", "clinics", "advised")
DRAWN = {"hospitals_folder", "unusual_pages", "study_folders"}


def pytest_collection_modifyitems(items):
    """Whichever test comes first draws what a fixture needs, so all of them count as slow."""
    for item in items:
        if DRAWN & set(item.fixturenames):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def hospitals():
    return run_reports.hospitals()


@pytest.fixture(scope="session")
def hospitals_folder(hospitals, tmp_path_factory):
    """Everything that is written about the hospitals; not to be changed."""
    return made_once(tmp_path_factory, "hospitals", lambda folder: write_all(hospitals, folder))


@pytest.fixture(scope="session", params=UNUSUAL)
def unusual(request):
    """Run reports at the edges: one round, nobody left, nothing known, names that break out."""
    return getattr(run_reports, request.param)()


@pytest.fixture
def words_only(monkeypatch):
    """Pages with empty drawings, for tests of what pages say: drawing takes longer than all the words."""
    empty = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"/>'
    monkeypatch.setattr(inline_svg, "rendered", lambda *_, **__: empty)


@pytest.fixture(scope="session")
def unusual_pages(tmp_path_factory):
    """Pages of the unusual runs and of a crowd, by the name of the run; not to be changed."""

    def make(folder):
        made = {name: getattr(run_reports, name)() for name in UNUSUAL} | {"crowd": run_reports.crowd(round_count=4)}
        for name, run_report in made.items():
            (folder / f"{name}.html").write_text(to_page(run_report), encoding="utf-8")

    folder = made_once(tmp_path_factory, "run-pages", make)
    return {path.stem: path for path in folder.iterdir()}


@pytest.fixture(scope="session")
def study():
    return artificial_study.study()


@pytest.fixture(scope="session")
def rude_study():
    return artificial_study.rude()


@pytest.fixture(scope="session")
def study_folders(study, rude_study, tmp_path_factory):
    """Everything that is written about each artificial study; not to be changed."""
    made = {"study": study, "bare": artificial_study.bare(), "rude": rude_study}
    return {
        name: made_once(tmp_path_factory, f"{name}-page", lambda folder, one=one: write_study(one, folder))
        for name, one in made.items()
    }
