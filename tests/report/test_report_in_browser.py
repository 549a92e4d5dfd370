"""The run report in a real browser, at the width of a desktop and of a phone."""

from __future__ import annotations

import json
import shutil

import pytest

pytest.importorskip("selenium.webdriver")
CHROMIUM, CHROMEDRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and CHROMEDRIVER), reason="needs chromium and chromedriver on the path, as packaged by Debian"
)
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}


@pytest.fixture(scope="module")
def pages(hospitals_folder, unusual_pages):
    """Addresses of run reports."""
    files = {**unusual_pages, "hospitals": hospitals_folder / "report.html"}
    return {name: file.as_uri() for name, file in files.items()}


@pytest.fixture(params=SIZES)
def visit(request, browser, pages):
    """Open a report at one of the widths."""
    width, height = SIZES[request.param]
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": request.param == "phone"},
    )

    def open_page(name, fragment=""):
        browser.get("about:blank")  # so that a new fragment is a new page
        browser.get_log("browser")
        browser.get_log("performance")
        browser.get(pages[name] + fragment)
        assert browser.execute_script("return innerWidth") == width
        return browser

    return open_page


def overflow(browser):
    return browser.execute_script("return document.documentElement.scrollWidth - innerWidth")


@pytest.mark.parametrize("name", ["hospitals", "rude", "dissolved", "lenient", "clinics", "crowd"])
def test_the_page_fits_and_all_plots_are_visible(visit, name):
    browser = visit(name)
    assert overflow(browser) <= 0
    browser.execute_script("""document.querySelectorAll("details.more").forEach((more) => { more.open = true; });""")
    assert overflow(browser) <= 0
    figures = browser.execute_script("""
        return [...document.querySelectorAll("figure")].map((figure) => {
          const seen = [...figure.querySelectorAll("svg")].map((svg) => svg.getBoundingClientRect())
            .filter((box) => box.width > 0 && box.height > 0);
          return {drawings: seen.length, left: seen[0]?.left, right: seen[0]?.right, width: seen[0]?.width};
        });""")
    assert len(figures) >= 7
    width = browser.execute_script("return innerWidth")
    for figure in figures:
        assert figure["drawings"] == 1
        assert figure["left"] >= 0
        assert figure["right"] <= width
        assert figure["width"] > 300
    assert browser.get_log("browser") == []


def test_text_in_plots_is_legible(visit):
    browser = visit("hospitals")
    smallest = browser.execute_script("""
        return Math.min(...[...document.querySelectorAll("figure svg text")]
          .filter((text) => text.getBoundingClientRect().width > 0 && text.textContent.trim())
          .map((text) => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a));""")
    assert smallest >= 9


@pytest.mark.parametrize("visit", ["desktop"], indirect=True)
def test_the_first_screen_of_a_desktop_shows_the_outcome(visit):
    browser = visit("hospitals")
    seen = browser.execute_script("""
        return [".outcome", ".warnings", ".numbers", "#figure-durations"].map((selector) =>
          document.querySelector(selector).getBoundingClientRect().bottom);""")
    assert max(seen) <= 900


def wait_for_script(browser, is_so):
    """A script opens what a link leads to, a moment after the click."""
    wait = pytest.importorskip("selenium.webdriver.support.wait")
    wait.WebDriverWait(browser, 20).until(lambda _: is_so())


def test_each_client_opens_by_click_and_by_link(visit, hospitals):
    browser = visit("hospitals")
    for place, client in enumerate(hospitals.clients, start=1):
        section = browser.find_element("id", f"client-{place}")
        table = section.find_element("css selector", "table")
        assert not table.is_displayed()
        section.find_element("css selector", "summary").click()
        assert table.is_displayed()
        assert client in section.text
        assert overflow(browser) <= 0
        section.find_element("css selector", "summary").click()
        assert not table.is_displayed()
        browser.find_element("css selector", f'.index a[href="#client-{place}"]').click()
        wait_for_script(browser, table.is_displayed)
    fresh = visit("hospitals", "#client-4")
    assert fresh.find_element("css selector", "#client-4 table").is_displayed()
    assert not fresh.find_element("css selector", "#client-3 table").is_displayed()


def test_ordinary_names_are_shown_whole(visit):
    browser = visit("hospitals")
    cut = browser.execute_script("""
        return [...document.querySelectorAll("bdi")].filter((name) => name.scrollWidth > name.clientWidth + 1
          && name.clientWidth > 0).map((name) => name.textContent);""")
    assert cut == []


def test_all_sections_open_for_print(visit):
    browser = visit("hospitals")
    closed = 'return document.querySelectorAll("details:not([open])").length'
    before = browser.execute_script(closed)
    browser.execute_script('dispatchEvent(new Event("beforeprint"))')
    assert browser.execute_script(closed) == 0
    browser.execute_script('dispatchEvent(new Event("afterprint"))')
    assert browser.execute_script(closed) == before > 0


def test_only_the_file_is_requested(visit, pages):
    browser = visit("rude", "#client-1")
    requested = [
        message["params"]["request"]["url"]
        for entry in browser.get_log("performance")
        if (message := json.loads(entry["message"])["message"])["method"] == "Network.requestWillBeSent"
    ]
    assert {url.partition("#")[0] for url in requested if not url.startswith("data:")} == {pages["rude"]}
    assert browser.title != "owned"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_plots_have_contrast_in_both_schemes(visit, scheme):
    browser = visit("hospitals")
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    lowest = browser.execute_script("""
        const luminance = (colour) => {
          const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => {
            const share = part / 255;
            return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
          });
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const page = luminance(getComputedStyle(document.body).backgroundColor);
        return Math.min(...[...document.querySelectorAll("svg text, p, td, th, dt, dd, a")]
          .filter((element) => element.getBoundingClientRect().width > 0)
          .map((element) => {
            const style = getComputedStyle(element);
            const ink = luminance(element.closest("svg") ? style.fill : style.color);
            return (Math.max(ink, page) + 0.05) / (Math.min(ink, page) + 0.05);
          }));""")
    assert lowest >= 3.2
