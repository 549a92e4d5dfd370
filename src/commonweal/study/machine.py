"""This machine's kind of processor (the same kind gives the same bits), memory and cores."""

from __future__ import annotations

import os
import platform
import re
from functools import cache
from pathlib import Path


@cache
def cpu_kind() -> str:
    """Vendor, family, model and widest vector unit, such as "AuthenticAMD family 25 model 1, avx2"."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:  # not Linux
        return f"{platform.machine()} {platform.processor() or 'unknown'}"

    def field(name: str) -> str:
        found = re.search(rf"^{name}\s*:\s*(.*)$", text, re.MULTILINE)
        return found[1].strip() if found else ""

    flags = field("flags").split()
    vectors = next((unit for unit in ("avx512f", "avx2", "avx", "sse2") if unit in flags), platform.machine())
    return f"{field('vendor_id') or platform.machine()} family {field('cpu family')} model {field('model')}, {vectors}"


def peak_memory_bytes() -> int:
    """The peak resident memory of this process so far."""
    import resource
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def core_count() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
