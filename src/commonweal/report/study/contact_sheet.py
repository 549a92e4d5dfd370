"""Samples of the data, one row per source, as one image in one axes: laying out fifty axes would take seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from commonweal.records.study import SampleSheet
from commonweal.report.drawing import TEXT_SIZE, WIDE, new_figure
from commonweal.report.palette import INK
from commonweal.report.study.panel_grid import wrapped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAMPLES_SHOWN = 10
_SIDE, _GAP = 64, 5  # of a sample and between samples, in pixels of the image


def contact_sheet(sheets: Sequence[SampleSheet], width: float) -> Figure:
    """Labels are beside their rows, or above them on a phone."""
    beside = width >= WIDE
    label_width = 165.0 if beside else 0.0
    columns = min(SAMPLES_SHOWN, max(len(sheet.images) for sheet in sheets))
    image_width = columns * (_SIDE + _GAP) - _GAP
    points = (width - label_width - 8) / (SAMPLES_SHOWN * (_SIDE + _GAP) - _GAP)  # per pixel
    labels = ["\n".join(wrapped(sheet.label, label_width - 45 if beside else width - 30)) for sheet in sheets]
    above = [0 if beside else int((13.5 * (label.count("\n") + 1) + 5) / points) for label in labels]
    tops = [sum(above[: place + 1]) + place * (_SIDE + _GAP) for place in range(len(sheets))]
    canvas = np.zeros((tops[-1] + _SIDE, image_width, 4), dtype=np.uint8)  # transparent where there is no sample
    for sheet, top in zip(sheets, tops, strict=True):
        for place, image in enumerate(sheet.images[:columns]):
            left = place * (_SIDE + _GAP)
            canvas[top : top + _SIDE, left : left + _SIDE, :3] = _enlarged(image)
            canvas[top : top + _SIDE, left : left + _SIDE, 3] = 255
    figure = new_figure(width, points * canvas.shape[0] + 8)
    axes = figure.subplots()
    axes.imshow(canvas, interpolation="none", aspect="equal")
    axes.set_axis_off()
    axes.set_anchor("E")
    for label, top in zip(labels, tops, strict=True):
        at, where = ((-_GAP * 2, top + _SIDE / 2), "center") if beside else ((0, top - 4 / points), "bottom")
        axes.text(*at, label, fontsize=TEXT_SIZE, color=INK, va=where, ha="right" if beside else "left")
    return figure


def _enlarged(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The image in three channels and at one size, each pixel as a block."""
    rows = np.arange(_SIDE) * image.shape[0] // _SIDE
    columns = np.arange(_SIDE) * image.shape[1] // _SIDE
    enlarged = image[rows][:, columns]
    return np.broadcast_to(enlarged, (_SIDE, _SIDE, 3))
