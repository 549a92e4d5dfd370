"""How long does `import commonweal` take, and how much of that is numpy?"""

from __future__ import annotations

import subprocess
import sys
import time

LIMIT_SECONDS = 0.3


def seconds(statement: str) -> float:
    """The fastest of several fresh interpreters."""
    times = []
    for _ in range(7):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", statement], check=True)
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> int:
    bare, numpy, commonweal = seconds("pass"), seconds("import numpy"), seconds("import commonweal")
    print(f"import commonweal: {commonweal - bare:.3f} s, of which numpy {numpy - bare:.3f} s")
    return 1 if commonweal - bare > LIMIT_SECONDS else 0


if __name__ == "__main__":
    sys.exit(main())
