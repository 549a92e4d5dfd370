"""README and docs are true today: their files are written, their commands run, their sessions compared."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from commonweal.report.study.summary_json import FIELDS

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page):
    return [(kind, name, body) for kind, name, body in FENCE.findall(page.read_text(encoding="utf-8"))]


def squeezed(text):
    return " ".join(text.split())


def page_id(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_commands_print_what_the_page_shows(page, tmp_path):
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for kind, name, body in blocks(page):
        if name:
            (tmp_path / name).write_text(body, encoding="utf-8")
        if kind != "console":
            continue
        commands = re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]
        for command, *expected in (part.splitlines() for part in commands):
            if command.startswith("commonweal reproduce") and not os.environ.get("COMMONWEAL_DATA"):
                pytest.skip("the paper's experiments need the original data sets; COMMONWEAL_DATA names no folder")
            if command.startswith("make "):
                target = command.split()[1]
                assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), command
                continue
            done = subprocess.run(
                command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=400
            )
            assert done.returncode == 0, done.stderr
            printed = squeezed(done.stdout)
            for line in expected:
                assert squeezed(line) in printed, f"{command!r} does not print {line!r} but:\n{done.stdout}"


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_python_sessions_give_what_the_page_shows(page):
    session = "\n".join(body for kind, _, body in blocks(page) if kind == "pycon")
    parsed = doctest.DocTestParser().get_doctest(session, {}, page_id(page), str(page), 0)
    report: list[str] = []
    results = doctest.DocTestRunner(verbose=False).run(parsed, out=report.append)
    assert results.failed == 0, "".join(report)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page_id(page)} links to {target}"


def test_every_field_of_the_summary_is_described():
    page = (ROOT / "docs/reference/summary-json.md").read_text(encoding="utf-8")
    assert dict(re.findall(r"^\| `(.+?)` \| (.*) \|$", page, re.MULTILINE)) == FIELDS


def test_the_glossary_and_the_help_agree_on_the_options():
    help_text = subprocess.run(
        [str(Path(sys.executable).with_name("commonweal")), "decide", "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    guide = (ROOT / "docs/guides/bring-your-own-figures.md").read_text()
    for option in set(re.findall(r"`(--[a-z-]+)", guide)):
        assert option in help_text, option


def test_these_tests_look_at_something():
    kinds = [kind for page in PAGES for kind, _, _ in blocks(page)]
    assert kinds.count("console") >= 8
    assert kinds.count("pycon") >= 4
