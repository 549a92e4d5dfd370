"""The mechanism and the measure that CONTRIBUTING shows work as they stand, and pass `make check`."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.extended_copy import ExtendedCopy

ROOT = Path(__file__).parent.parent
# Section, the file that it adds, the registry that it adds a line to, and the end of the registry's entries.
EXAMPLES = {
    "A mechanism": ("decision/mechanisms/equal_split.py", "decision/mechanisms/__init__.py"),
    "A contribution measure": ("valuation/leave_one_in.py", "valuation/registry.py"),
}


def shown(section):
    """The file and the line in a section of CONTRIBUTING."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split(f"### {section}\n")[1].split("\n### ")[0]
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    copy = ExtendedCopy(tmp_path_factory.mktemp("copy"))
    for section, (file, registry) in EXAMPLES.items():
        content, line = shown(section)
        copy.add_file(file, content)
        first = re.search(r"_ENTRIES = \(\n(.*)\n", (copy.folder / "commonweal" / registry).read_text())[1]
        copy.add_line(registry, line.rstrip("\n"), above=first)
    return copy


def test_the_mechanism_decides(copy):
    said = copy.python(
        "-c",
        "import json; from commonweal.decision.decide import decide_figures; from commonweal.records import *\n"
        "figures = Figures(profits={'a': 0.3, 'b': -0.1}, contributions={'a': 1.0, 'b': 0.0})\n"
        "print(json.dumps(dict(decide_figures(figures, Rules(mu=0.0, mechanism='equal-split')).transfers)))",
    )
    assert json.loads(said) == pytest.approx({"a": -0.2, "b": 0.2})


def test_the_measure_values(copy):
    said = copy.python(
        "-c",
        "import json; from commonweal.valuation.leave_one_in import leave_one_in\n"
        "worth = {frozenset(): 1.0, frozenset('a'): 3.0, frozenset('b'): 0.5}\n"
        "print(json.dumps(dict(leave_one_in(['a', 'b'], worth.__getitem__).values)))\n"
        "from commonweal.valuation.registry import MEASURES; assert 'leave-one-in' in MEASURES",
    )
    values = json.loads(said)
    assert math.isclose(values["a"], 2.0)
    assert math.isclose(values["b"], -0.5)


@pytest.mark.parametrize("section", EXAMPLES)
def test_ruff_accepts_them(section):
    content, _ = shown(section)
    named = ["--stdin-filename", f"src/commonweal/{EXAMPLES[section][0]}", "-"]
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *named], cwd=ROOT, input=content, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.soak
def test_strict_mypy_accepts_them(copy):
    files = [f"commonweal/{file}" for file, _ in EXAMPLES.values()]
    copy.python("-m", "mypy", "--strict", "--explicit-package-bases", "--follow-imports=silent", *files)
