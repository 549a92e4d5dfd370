"""A place for temporary files that never waits for a disk, where there is one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

FOLDER = Path("/dev/shm")
NEEDED_BYTES = 2 * 2**30  # a container has 64 MB unless told otherwise: far too little


def folder_in_memory() -> Path | None:
    """A folder in memory if there is plenty; None: the system's temporary folder will do.

    The long tests kill processes while they write, and need a disk that takes its time.
    """
    if os.environ.get("COMMONWEAL_TESTS") == "soak":
        return None
    if os.access(FOLDER, os.W_OK) and shutil.disk_usage(FOLDER).free >= NEEDED_BYTES:
        return FOLDER
    return None
