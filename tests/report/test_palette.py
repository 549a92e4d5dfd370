"""Readers, also colour-blind ones, can tell colours apart and see them on light and dark pages."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from commonweal.report.palette import DARK, HELD, NOT_HELD, UNDECIDED, client_styles, mu_styles

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
SEEN_BY = {
    "everybody": np.eye(3),
    "protanopes": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopes": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopes": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
MU_COLOURS = [style.colour for style in mu_styles([0.01, 0.02, 0.05, 0.1, 0.2]).values()]
LIGHT_COLOURS = [style.colour for style in client_styles([str(place) for place in range(6)]).values()]


def linear(colour):
    rgb = np.array(to_rgb(colour))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIE L*a*b* of linear RGB, white D65."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(np.maximum(to_xyz @ np.clip(rgb, 0, 1) / [0.9505, 1.0, 1.089], 0.0089))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(one, other):
    """The contrast ratio of WCAG 2."""
    light, dark = sorted((linear(colour) @ [0.2126, 0.7152, 0.0722] for colour in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("reader", SEEN_BY)
@pytest.mark.parametrize("page", ["light", "dark"])
def test_six_clients_can_be_distinguished(reader, page):
    colours = LIGHT_COLOURS if page == "light" else [DARK[colour] for colour in LIGHT_COLOURS]
    seen = [lab(SEEN_BY[reader] @ linear(colour)) for colour in colours]
    closest = min(np.linalg.norm(one - other) for one, other in combinations(seen, 2))
    assert closest > 15, closest  # a difference of 2.3 is barely noticeable side by side


@pytest.mark.parametrize("reader", SEEN_BY)
@pytest.mark.parametrize("page", ["light", "dark"])
def test_the_larger_mu_the_further_from_the_page(reader, page):
    colours = MU_COLOURS if page == "light" else [DARK[colour] for colour in MU_COLOURS]
    seen = [lab(SEEN_BY[reader] @ linear(colour)) for colour in colours]
    lightness = [colour[0] for colour in seen]
    assert lightness == sorted(lightness, reverse=page == "light")
    assert min(np.linalg.norm(one - other) for one, other in combinations(seen, 2)) > 14


@pytest.mark.parametrize("reader", SEEN_BY)
@pytest.mark.parametrize("page", ["light", "dark"])
def test_verdicts_can_be_distinguished(reader, page):
    colours = [colour if page == "light" else DARK[colour] for colour in (HELD, NOT_HELD, UNDECIDED)]
    seen = [lab(SEEN_BY[reader] @ linear(colour)) for colour in colours]
    assert min(np.linalg.norm(one - other) for one, other in combinations(seen, 2)) > 15


def test_every_mu_of_a_long_grid_has_a_style_of_its_own():
    styles = mu_styles([0.0, *(0.01 * place for place in range(1, 14)), math.inf])
    assert len({(style.colour, str(style.dash), style.marker) for style in styles.values()}) == 15
    places = [MU_COLOURS.index(style.colour) for mu, style in styles.items() if 0 < mu < math.inf]
    assert places == sorted(places)
    assert set(places) == set(range(5))


def test_lines_stand_out_from_the_page():
    for colour in (*LIGHT_COLOURS, *MU_COLOURS, HELD, NOT_HELD, UNDECIDED):
        assert contrast(colour, "#ffffff") >= 3
        assert contrast(DARK[colour], "#12181c") >= 3


def test_thirty_clients_all_look_different():
    styles = client_styles([f"c{place}" for place in range(30)])
    assert len({(style.colour, str(style.dash), style.marker) for style in styles.values()}) == 30
