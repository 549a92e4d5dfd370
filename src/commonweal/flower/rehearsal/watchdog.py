"""Ends what its parent started should the parent be killed; run as a script, from the standard library alone.

Signals reach no descendants by themselves, and a process that is killed cannot clean up. So this process reads from a
pipe that only the parent holds: when the parent is gone, however it went, the pipe ends, and this ends the rest.

usage: watchdog.py FOLDER, and on standard input a line a process group: +NUMBER once started, -NUMBER once ended
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
