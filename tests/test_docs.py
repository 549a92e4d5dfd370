"""What README and docs say is true: files on the pages are written, commands are run, and sessions are compared."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from commonweal.cli import compare
from commonweal.report.study.summary_json import FIELDS
from commonweal.study import machine
from tests.cli.conftest import run_here

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page):
    return [(kind, name, body) for kind, name, body in FENCE.findall(page.read_text(encoding="utf-8"))]


def squeezed(text):
    return " ".join(text.split())


def page_id(page):
    return str(page.relative_to(ROOT))


def commands(page):
    """The pages' commands with the lines that they are said to print."""
    for kind, _, body in blocks(page):
        if kind == "console":
            for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                command, *expected = part.splitlines()
                yield command, expected


def marks(page):
    """The paper's experiments take minutes and need the original data sets."""
    if any(command.startswith("commonweal reproduce") for command, _ in commands(page)):
        return [pytest.mark.soak, pytest.mark.skipif(not os.environ.get("COMMONWEAL_DATA"), reason="no original data")]
    return []


def run(command, folder):
    """Run a command as a shell would; our own plain commands run in this process, which saves the time for imports."""
    if not re.search(r"[|&;<>$*#]", command) and command.startswith("commonweal "):
        return run_here(shlex.split(command)[1:], folder)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=400)


@pytest.fixture
def one_worker(monkeypatch):
    """Replications are computed in this process, where torch is imported already; results are the same."""
    for module in (compare, machine):
        monkeypatch.setattr(module, "core_count", lambda: 1)


@pytest.mark.parametrize("page", [pytest.param(page, marks=marks(page), id=page_id(page)) for page in PAGES])
@pytest.mark.usefixtures("undrawn", "one_worker")
def test_commands_print_what_the_page_shows(page, tmp_path):
    for _, name, body in blocks(page):
        if name:
            (tmp_path / name).write_text(body, encoding="utf-8")
    for command, expected in commands(page):
        if command.startswith("make "):
            target = command.split()[1]
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), command
            continue
        done = run(command, tmp_path)
        assert done.returncode == 0, done.stderr
        printed = squeezed(done.stdout)
        for line in expected:
            assert squeezed(line) in printed, f"{command!r} does not print {line!r} but:\n{done.stdout}"


def test_the_installed_command_runs():
    command = str(Path(sys.executable).with_name("commonweal"))
    done = subprocess.run([command, "decide", "--help"], capture_output=True, text=True, check=True, timeout=100)
    guide = (ROOT / "docs/guides/bring-your-own-figures.md").read_text()
    for option in set(re.findall(r"`(--[a-z-]+)", guide)):
        assert option in done.stdout, option


class Sessions(doctest.DocTestRunner):
    """Tests that are skipped within a session are skipped, not failed."""

    def report_unexpected_exception(self, out, test, example, exc_info):
        if isinstance(exc_info[1], pytest.skip.Exception):
            raise exc_info[1]
        super().report_unexpected_exception(out, test, example, exc_info)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_python_sessions_give_what_the_page_shows(page):
    session = "\n".join(body for kind, _, body in blocks(page) if kind == "pycon")
    parsed = doctest.DocTestParser().get_doctest(session, {}, page_id(page), str(page), 0)
    report: list[str] = []
    results = Sessions(verbose=False).run(parsed, out=report.append)
    assert results.failed == 0, "".join(report)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page_id(page)} links to {target}"


def test_every_field_of_the_summary_is_described():
    page = (ROOT / "docs/reference/summary-json.md").read_text(encoding="utf-8")
    assert dict(re.findall(r"^\| `(.+?)` \| (.*) \|$", page, re.MULTILINE)) == FIELDS


def test_these_tests_check_something():
    kinds = [kind for page in PAGES for kind, _, _ in blocks(page)]
    assert kinds.count("console") >= 8
    assert kinds.count("pycon") >= 4
