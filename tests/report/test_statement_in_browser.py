"""A statement's page in a real browser, at the width of a desktop and of a phone."""

from __future__ import annotations

import json

import pytest

from commonweal.report.statement import to_html
from tests.report.run_reports import RUDE_NAMES
from tests.report.test_report_in_browser import CHROMEDRIVER, CHROMIUM, SIZES, overflow
from tests.report.test_statement_page import statement

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and CHROMEDRIVER), reason="needs chromium and chromedriver on the path, as packaged by Debian"
)


@pytest.mark.parametrize("size", SIZES)
def test_the_page_fits_and_requests_nothing(browser, tmp_path, size):
    long = [(entry, f"{RUDE_NAMES[-1]} {'x' * 60}", 10**14, 10**14, None) for entry in range(3, 40)]
    file = tmp_path / "statement.html"
    file.write_text(to_html(statement(client="W" * 60, lines=long, minor_digits=6)), encoding="utf-8")
    width, height = SIZES[size]
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == "phone"},
    )
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(file.as_uri())
    assert overflow(browser) <= 0
    seen = browser.execute_script("""
        return [...document.querySelectorAll("figure svg")].map((svg) => svg.getBoundingClientRect().width)
          .filter((width) => width > 0);""")
    assert len(seen) == 1
    assert 300 < seen[0] <= width
    smallest = browser.execute_script("""
        return Math.min(...[...document.querySelectorAll("figure svg text")]
          .filter((text) => text.getBoundingClientRect().width > 0)
          .map((text) => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a));""")
    assert smallest >= 9
    assert browser.get_log("browser") == []
    requested = [
        message["params"]["request"]["url"]
        for entry in browser.get_log("performance")
        if (message := json.loads(entry["message"])["message"])["method"] == "Network.requestWillBeSent"
    ]
    assert {url for url in requested if not url.startswith("data:")} == {file.as_uri()}
