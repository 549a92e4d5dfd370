"""What `import commonweal` offers, and what it drags in."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import commonweal


def test_the_surface_is_sorted_and_complete():
    assert commonweal.__all__ == sorted(commonweal.__all__)
    for name in commonweal.__all__:
        assert getattr(commonweal, name) is not None
    public = {name for name in vars(commonweal) if not name.startswith("_")}
    rooms = {module.name for module in pkgutil.iter_modules(commonweal.__path__)}  # visible once imported, not offered
    assert public - (rooms - set(commonweal.__all__)) == set(commonweal.__all__)


def test_importing_needs_numpy_alone():
    script = (
        "import sys; import numpy; before = set(sys.modules); import commonweal; "
        "new = {m.split('.')[0] for m in set(sys.modules) - before}; "
        "print(*sorted(new - set(sys.stdlib_module_names)))"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert set(loaded) <= {"commonweal", "numpy"}
