"""The study report in a real browser, at the width of a desktop and of a phone."""

from __future__ import annotations

import json

import pytest

from tests.report.test_report_in_browser import CHROMEDRIVER, CHROMIUM, SIZES, overflow

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and CHROMEDRIVER), reason="needs chromium and chromedriver on the path, as packaged by Debian"
)


@pytest.fixture(params=SIZES)
def visit(request, browser, study_folders):
    """Open a study's page at one of the widths."""
    width, height = SIZES[request.param]
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": request.param == "phone"},
    )

    def open_page(name):
        browser.get("about:blank")
        browser.get_log("browser")
        browser.get_log("performance")
        browser.get((study_folders[name] / "report.html").as_uri())
        assert browser.execute_script("return innerWidth") == width
        return browser

    return open_page


@pytest.mark.parametrize("name", ["study", "bare", "rude"])
def test_the_page_fits_and_all_plots_are_visible(visit, name):
    driver = visit(name)
    driver.execute_script('for (const part of document.querySelectorAll("details")) part.open = true;')
    assert overflow(driver) <= 0
    figures = driver.execute_script("""
        return [...document.querySelectorAll("figure")].map((figure) => {
          const seen = [...figure.querySelectorAll("svg")].map((svg) => svg.getBoundingClientRect())
            .filter((box) => box.width > 0 && box.height > 0);
          return {drawings: seen.length, left: seen[0]?.left, right: seen[0]?.right, width: seen[0]?.width};
        });""")
    assert len(figures) >= 4
    width = driver.execute_script("return innerWidth")
    for figure in figures:
        assert figure["drawings"] == 1
        assert figure["left"] >= 0
        assert figure["right"] <= width
        assert figure["width"] > 300
    assert driver.get_log("browser") == []


def test_only_the_file_is_requested(visit, study_folders):
    driver = visit("rude")
    requested = [
        message["params"]["request"]["url"]
        for entry in driver.get_log("performance")
        if (message := json.loads(entry["message"])["message"])["method"] == "Network.requestWillBeSent"
    ]
    own = (study_folders["rude"] / "report.html").as_uri()
    assert {url.partition("#")[0] for url in requested if not url.startswith("data:")} == {own}
    assert driver.title != "owned"


def test_text_in_plots_is_legible_and_stays_inside(visit):
    driver = visit("study")
    smallest, cut = driver.execute_script("""
        const texts = [...document.querySelectorAll("figure svg text")]
          .filter((text) => text.getBoundingClientRect().width > 0 && text.textContent.trim());
        const cut = texts.filter((text) => {
          const own = text.getBoundingClientRect(), all = text.closest("svg").getBoundingClientRect();
          return own.left < all.left - 2 || own.right > all.right + 2;
        }).map((text) => text.textContent);
        const size = (text) => {
          const turned = text.getScreenCTM();
          return parseFloat(getComputedStyle(text).fontSize) * Math.hypot(turned.a, turned.b);
        };
        return [Math.min(...texts.map(size)), cut];""")
    assert smallest >= 9
    assert cut == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_verdicts_are_visible_in_both_schemes(visit, scheme):
    driver = visit("study")
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    colours = driver.execute_script("""
        return ["held", "not-held", "undecided"].map((kind) =>
          getComputedStyle(document.querySelector(`.verdict.${kind}`)).color);""")
    assert len(set(colours)) == 3
    closed = 'return document.querySelectorAll("#claims details:not([open])").length'
    assert driver.execute_script(closed) == 1
    driver.execute_script('dispatchEvent(new Event("beforeprint"))')
    assert driver.execute_script(closed) == 0
    shown = driver.execute_script("""
        return [...document.querySelectorAll("#claims .claims .verdict")].every((word) => {
          const box = word.getBoundingClientRect();
          return box.width > 0 && box.left >= 0 && box.right <= innerWidth;
        });""")
    assert shown


def test_why_a_verdict_changed_can_be_read_without_scrolling(visit):
    driver = visit("study")
    driver.execute_script('for (const part of document.querySelectorAll("#choices details")) part.open = true;')
    cut = driver.execute_script("""
        return [...document.querySelectorAll("#choices :is(th, td)")]
          .filter((cell) => {
            const box = cell.getBoundingClientRect();
            return box.width > 0 && (box.left < 0 || box.right > innerWidth || cell.scrollWidth > cell.clientWidth + 1);
          }).map((cell) => cell.textContent);""")
    assert cut == []
