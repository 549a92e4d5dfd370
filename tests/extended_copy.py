"""A copy of the package to which a test adds something, as a contributor would: new files and lines, counted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src/commonweal"


@dataclass
class ExtendedCopy:
    """The copy lies in `folder`; `new_files` and `new_lines` tell what was added."""

    folder: Path
    new_files: list[str] = field(default_factory=list)
    new_lines: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shutil.copytree(SOURCE, self.folder / "commonweal", ignore=shutil.ignore_patterns("__pycache__"))

    def add_file(self, path: str, content: str) -> None:
        target = self.folder / "commonweal" / path
        assert not target.exists()
        target.write_text(content, encoding="utf-8")
        self.new_files.append(path)

    def add_line(self, path: str, line: str, *, above: str) -> None:
        """One line above the only line that holds the text `above`."""
        target = self.folder / "commonweal" / path
        lines = target.read_text(encoding="utf-8").split("\n")
        (place,) = [number for number, existing in enumerate(lines) if above in existing]
        lines.insert(place, line)
        target.write_text("\n".join(lines), encoding="utf-8")
        self.new_lines[path] = self.new_lines.get(path, 0) + 1

    def python(self, *arguments: str) -> str:
        """What Python writes when it runs with the copy."""
        done = self._run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refusal(self, *arguments: str) -> str:
        """The error of a command that must be refused."""
        done = self._run(*arguments)
        assert done.returncode == 2, done.stderr
        return done.stderr

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PYTHONPATH": str(self.folder), "OMP_NUM_THREADS": "1"}
        return subprocess.run(
            [sys.executable, *arguments], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=120
        )
