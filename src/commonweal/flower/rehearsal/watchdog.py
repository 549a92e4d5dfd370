"""Ends what its parent started if the parent is killed; a script that needs only the standard library.

Signals do not reach descendants by themselves, and a process that is killed cannot clean up. So this process reads from
a pipe that only the parent holds: when the parent ends, for whatever reason, the pipe closes, and this ends the rest.

usage: watchdog.py FOLDER, with one line per process group on standard input: +NUMBER when started, -NUMBER when ended
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path


def watch(folder: Path) -> None:
    groups: set[int] = set()
    for line in sys.stdin:
        sign, number = line[0], int(line[1:])
        (groups.add if sign == "+" else groups.discard)(number)
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    for _ in range(20):  # a process that is being killed may still write
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            break
        time.sleep(0.1)


if __name__ == "__main__":
    watch(Path(sys.argv[1]))
