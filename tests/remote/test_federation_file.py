"""The operator's file: what it says, and what is refused."""

from __future__ import annotations

import math

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from commonweal.errors import CommonwealError
from commonweal.ledger.node_keys import NodeKey
from commonweal.remote.coordinator.federation_file import DECLARED, read_federation

GOOD = """
name = "three"
rounds = 4

[mechanism]
mu = "inf"

[[clients]]
name = "north"
key_file = "north.pub"

[[clients]]
name = "south"
key_file = "south.pub"
profit_bounds = [-0.5, 2]
"""


@pytest.fixture
def folder(tmp_path):
    for name in ("north", "south"):
        NodeKey.new().write(tmp_path / name)
    other = ec.generate_private_key(ec.SECP256R1()).public_key()
    (tmp_path / "other-curve.pub").write_bytes(
        other.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    )
    (tmp_path / "garbage.pub").write_text("no key")
    return tmp_path


def read(folder, text):
    path = folder / "federation.toml"
    path.write_text(text)
    return read_federation(path)


def test_what_it_says(folder):
    federation = read(folder, GOOD)
    assert federation.client_names == ("north", "south")
    assert federation.mechanism.rules.mu == math.inf
    assert federation.terms_of("north").profit_bounds == (-1.0, 1.0), "one unit of utility around zero"
    assert federation.terms_of("south").profit_bounds == (-0.5, 2.0)
    assert federation.keys["north"] == NodeKey.read(folder / "north").public
    assert (federation.learning.iteration_limit, federation.learning.stop_below) == (5, 0.01)
    assert federation.description_for_readers().declared == DECLARED


def test_a_checkpoint_is_bound_to_terms_and_keys_but_not_to_waiting_times(folder):
    first = read(folder, GOOD).digest()
    assert read(folder, GOOD + "\n[waiting]\nanswer_seconds = 7\n").digest() == first
    assert read(folder, GOOD.replace("rounds = 4", "rounds = 5")).digest() != first
    (folder / "north").unlink()
    (folder / "north.pub").unlink()
    NodeKey.new().write(folder / "north")
    assert read(folder, GOOD).digest() != first


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "three"', "", "name is missing"),
        ("rounds = 4", "rounds = 0", "rounds must be a whole number"),
        ('mu = "inf"', "mu = -1", "mu must be"),
        ('mu = "inf"', 'mu = 0\nloss_rule = "cost"', "never leave the clients"),
        ('mu = "inf"', 'kind = "fli"\nliability_cap = 0.1', r'kind = "fli" has no liability_cap\. Remove it\.'),
        ('mu = "inf"', 'mu = 0\ncontribution = "adaptive"', "needs evaluation_limit"),
        ("profit_bounds = [-0.5, 2]", "profit_bounds = [2, -0.5]", "the smaller first"),
        ("profit_bounds = [-0.5, 2]", "profit_bounds = [nan, 2]", "profit_bounds must be two numbers"),
        ("profit_bounds = [-0.5, 2]", "profit_bounds = 1", "profit_bounds must be two numbers"),
        ('"south.pub"', '"north.pub"', "clients 1 and 2 have the same key"),
        ('name = "south"', 'name = "north"', "clients 1 and 2 have the same name"),
        ('"south.pub"', '"missing.pub"', "missing.pub"),
        ('"south.pub"', '"garbage.pub"', "garbage.pub"),
        ('"south.pub"', '"other-curve.pub"', "P-384"),
        ('"south.pub"', '"south"', "south"),
        ("[mechanism]", "[mechanisms]", "Did you mean 'mechanism'"),
        ("[mechanism]", "[waiting]\nanswer_seconds = 0\n[mechanism]", "answer_seconds must be"),
        ("[mechanism]", "[learning]\nbatch_size = 1\n[mechanism]", "unknown key 'batch_size' in \\[learning\\]"),
        ("[[clients]]", "[clients]", "already given|array of tables"),
    ],
)
def test_what_is_refused(folder, old, new, message):
    assert old in GOOD
    with pytest.raises(CommonwealError, match=message):
        read(folder, GOOD.replace(old, new))
