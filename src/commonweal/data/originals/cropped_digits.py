"""SVHN "Format 2" and SynthDigits: one MATLAB file with X (32×32×3×N bytes) and y (N×1; label 10 is the digit 0)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from commonweal.data.optional_packages import needed_for
from commonweal.data.originals import reading
from commonweal.data.samples import Images, Labels
from commonweal.data.source_types import Download, ExternalSource, OfficialFiles, PreparedCopy


def _read_cropped_digits(paths: Sequence[Path]) -> tuple[Images, Labels]:
    """Images 32×32×3 and labels 0..9."""
    (path,) = paths
    with needed_for("reading MATLAB files"):
        from scipy.io import loadmat
    with reading(path, "a MATLAB file with X (32×32×3×N bytes) and y"):
        content = loadmat(path, variable_names=["X", "y"])
        blocks, digits = content["X"], content["y"].reshape(-1)
        if blocks.dtype != np.uint8 or blocks.shape != (32, 32, 3, len(digits)):
            raise ValueError(f"X {blocks.dtype} {'×'.join(map(str, blocks.shape))} with {len(digits)} labels")
        if not np.isin(digits, np.arange(11)).all():
            raise ValueError("labels outside 0 to 10")
        return blocks.transpose(3, 0, 1, 2), digits.astype(np.int64) % 10


SVHN = ExternalSource(
    name="svhn",
    size=28,
    note="Street View House Numbers, cropped digits (Netzer et al. 2011)",
    licence="non-commercial use only",
    alternative="rendered-digits",
    official=OfficialFiles(
        names="train_32x32.mat",
        counts=(1,),
        read=_read_cropped_digits,
        downloads=(
            Download(
                file="train_32x32.mat",
                url="http://ufldl.stanford.edu/housenumbers/train_32x32.mat",
                md5="e26dedcc434d2e4c54c9b2d4a06d8373",
            ),
        ),
    ),
    prepared=PreparedCopy(
        sha256="e4f14aa7a1aaf7111fcd80ff48a80c4f9e5a619eae59b9214239f500b3319e79",
        sample_count=12_000,
        channels=3,
        rows="12,000 of 73,257 training rows kept",
    ),
)
SYNTHDIGITS = ExternalSource(
    name="synthdigits",
    size=28,
    note="SynthDigits (Ganin and Lempitsky 2015)",
    licence="commonly given as CC BY 4.0",
    alternative="rendered-digits",
    official=OfficialFiles(
        names="synth_train_32x32.mat",
        counts=(1,),
        read=_read_cropped_digits,
        downloads=(Download(file="synth_train_32x32.mat"),),  # on a file-sharing service without stable addresses
    ),
)
SYNTHDIGITS_REBUILT = ExternalSource(
    name="synthdigits-rebuilt",
    size=28,
    note="NOT the original SynthDigits: rebuilt from its published description; say so with every result",
    licence="made for this project with openly licensed fonts",
    alternative="rendered-digits",
    is_original=False,
    prepared=PreparedCopy(
        sha256="cc1fdb2736bb7b4636dd13313dceb1618b831669fa875bc98d43826cdbdf9128",
        sample_count=12_000,
        channels=3,
        rows="12,000 rows made",
    ),
)
