"""What `decide` and `mu_path` take as figures, and how their results are shown."""

from __future__ import annotations

import numpy as np
import pytest

import commonweal as cw

PROFITS = {"ann": 0.2, "bob": -0.1, "cyd": -0.05}
CONTRIBUTIONS = {"ann": 0.5, "bob": 0.1, "cyd": 0.4}
CLIENTS = list(PROFITS)


class Series:
    """As much of a pandas Series as is used."""

    def __init__(self, figures):
        self._figures = figures

    def items(self):
        return zip(list(self._figures), np.array(list(self._figures.values())), strict=True)


def arrays(figures):
    return np.array(list(figures.values()))


def test_mappings_series_and_arrays_give_the_same():
    expected = cw.decide(profits=PROFITS, contributions=CONTRIBUTIONS, mu=0.1)
    assert cw.decide(profits=Series(PROFITS), contributions=Series(CONTRIBUTIONS), mu=0.1) == expected
    given = {"profits": arrays(PROFITS), "contributions": arrays(CONTRIBUTIONS), "clients": CLIENTS}
    assert cw.decide(**given, mu=0.1) == expected
    assert cw.mu_path(**given).pieces() == cw.mu_path(profits=PROFITS, contributions=CONTRIBUTIONS).pieces()
    assert cw.decide(**given, costs=[1.0, 2.0, 3.0], loss_rule="cost", mu=0.1).figures.costs["cyd"] == 3.0


def test_a_pandas_series_is_accepted():
    pandas = pytest.importorskip("pandas")
    expected = cw.decide(profits=PROFITS, contributions=CONTRIBUTIONS, mu=0.1)
    assert cw.decide(profits=pandas.Series(PROFITS), contributions=pandas.Series(CONTRIBUTIONS), mu=0.1) == expected


@pytest.mark.parametrize(
    ("profits", "clients", "message"),
    [
        (arrays(PROFITS), None, r"dict or a pandas Series by client, or an array together with clients=\[\.\.\.\]"),
        (np.ones(2), CLIENTS, r"one number for each of the 3 clients, got an array of shape \(2,\)"),
        (np.ones(2), ["ann", "ann"], "clients must be distinct, got 'ann' more than once"),
        (Series({0: 1.0}), None, r"index of profits must contain the names of the clients, got \[0\]"),
    ],
)
def test_what_has_no_names_is_refused(profits, clients, message):
    with pytest.raises(cw.InputError, match=message):
        cw.decide(profits=profits, contributions=CONTRIBUTIONS, clients=clients, mu=0.1)


def test_a_decision_has_a_readable_repr():
    decision = cw.decide(profits=PROFITS, contributions=CONTRIBUTIONS, mu=0.1)
    assert repr(decision).startswith(
        "<Decision at mu = 0.1: retained ann, cyd; eliminated bob; budget 0.15; transfers "
    )
    odd = {"<b>ann": 0.2, "bob": -0.1}
    table = cw.decide(profits=odd, contributions=dict.fromkeys(odd, 1.0), mu=0)._repr_html_()
    assert "<td>&lt;b&gt;ann</td><td>retained</td><td>0.2</td>" in table
    assert "<td>bob</td><td>eliminated</td><td>-0.1</td><td></td><td></td>" in table


def test_a_path_has_a_readable_repr():
    path = cw.mu_path(profits=PROFITS, contributions=CONTRIBUTIONS)
    lines = repr(path).splitlines()
    assert lines[0] == "<MuPath of 3 clients, 2 breakpoints"
    assert lines[1].endswith("retains ann")
    assert lines[-1].endswith("retains ann, bob, cyd>")
    odd = {"<b>ann": 0.2, "bob": -0.1}
    assert "&lt;b&gt;ann" in cw.mu_path(profits=odd, contributions=dict.fromkeys(odd, 1.0))._repr_html_()
    cut = cw.mu_path(profits=PROFITS, contributions=CONTRIBUTIONS, limit=1)
    assert repr(cut) == "<MuPath of 3 clients, cut off after 1 breakpoint>"
