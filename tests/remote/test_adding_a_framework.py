"""The transport in CONTRIBUTING is all that a framework needs: one file, and its layer in pyproject.toml."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.remote.toy import TASK, coordinate_toy, make_toy, settled, write_toy

ROOT = Path(__file__).parent.parent.parent
(CODE,) = re.findall(
    r"^```python threads.py\n(.*?)^```$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE | re.DOTALL
)


def test_the_transport_runs_a_whole_federation(tmp_path):
    toy = make_toy(tmp_path / "one")
    toy.coordinate()
    scope = {}
    exec(CODE, scope)
    members = {name: (tmp_path / "two/members" / name / "member.toml", TASK) for name in write_toy(tmp_path / "two")}
    coordinate_toy(scope["ThreadTransport"](members), tmp_path / "two")
    assert settled(tmp_path / "two/out") == settled(toy.out)


def test_the_import_rule_needs_one_word(tmp_path):
    package = shutil.copytree(ROOT / "src", tmp_path / "src") / "commonweal"
    rules = (ROOT / "pyproject.toml").read_text()
    assert rules.count('"flower",') == 1
    (package / "threads.py").write_text(CODE)
    (tmp_path / "pyproject.toml").write_text(rules)
    assert not is_kept(tmp_path)
    (tmp_path / "pyproject.toml").write_text(rules.replace('"flower",', '"flower | threads",'))
    assert is_kept(tmp_path)


def is_kept(folder):
    """Whether the imports of a copy obey its rules."""
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "src")},
        capture_output=True,
        text=True,
        timeout=200,
    )
    return done.returncode == 0
