"""Run reports, studies and their written files, made once: drawing takes seconds."""

from __future__ import annotations

import shutil

import pytest

from commonweal.report import inline_svg, write
from commonweal.report.run_page.page import to_page
from commonweal.report.study.page import write_study
from commonweal.report.write import write_all
from tests.made_once import made_once
from tests.report import artificial_study, run_reports

UNUSUAL = ("pair", "dissolved", "lenient", "rude", "clinics", "advised")
DRAWN = {"hospitals_folder", "unusual_pages", "study_folders"}
BROWSER_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


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
        crowd = run_reports.crowd(client_count=16, round_count=4)
        made = {name: getattr(run_reports, name)() for name in UNUSUAL} | {"crowd": crowd}
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
    """Everything that is written about each artificial study; not to be changed.

    The files of the largest study's plots are empty: its page shows the plots, and the others' files have every kind.
    """

    def make(folder, one):
        with pytest.MonkeyPatch.context() as patch:
            if one is study:
                patch.setattr(write, "rendered_as", lambda kinds, *_, **__: [b"" for _ in kinds])
            write_study(one, folder)

    made = {"study": study, "bare": artificial_study.bare(), "rude": rude_study}
    return {
        name: made_once(tmp_path_factory, f"{name}-page", lambda folder, one=one: make(folder, one))
        for name, one in made.items()
    }


@pytest.fixture(scope="session")
def started_browser(tmp_path_factory):
    """One for all files of tests: it takes a second to start."""
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in (*BROWSER_FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture
def browser(started_browser):
    """A browser that prefers what it does by itself, whatever an earlier test told it."""
    started_browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    return started_browser
