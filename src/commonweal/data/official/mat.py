"""SVHN "Format 2" and SynthDigits: one MATLAB file with X (32×32×3×N bytes) and y (N×1; label 10 is the digit 0)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from commonweal.data.official.refusal import refused_unless
from commonweal.data.optional_packages import needed_for
from commonweal.data.samples import Images, Labels


def read_cropped_digits(path: Path) -> tuple[Images, Labels]:
    """Images 32×32×3 and labels 0..9."""
    with needed_for("reading MATLAB files"):
        from scipy.io import loadmat
    with refused_unless(path, "a MATLAB file with X (32×32×3×N bytes) and y"):
        content = loadmat(path, variable_names=["X", "y"])
        blocks, digits = content["X"], content["y"].reshape(-1)
        if blocks.dtype != np.uint8 or blocks.shape != (32, 32, 3, len(digits)):
            raise ValueError(f"X {blocks.dtype} {'×'.join(map(str, blocks.shape))} beside {len(digits)} labels")
        if not np.isin(digits, np.arange(11)).all():
            raise ValueError("labels outside 0 to 10")
        return blocks.transpose(3, 0, 1, 2), digits.astype(np.int64) % 10
