"""Names of clients: one spelling each, and no two that look the same."""

from __future__ import annotations

import pytest

from commonweal.errors import CommonwealError, InputError
from commonweal.federation.settlement import FederationLedger
from commonweal.ledger.checks import check_look_alikes, check_names
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.names import look_alikes, tidy_name
from tests.cli.conftest import run_here
from tests.ledger.sample_ledger import open_ledger

ALIKE = [
    ("Zo\u00eb", "Zoe\u0308"),  # composed and not
    ("north", "n\u043erth"),  # Cyrillic o
    ("ANNA", "\u0391NNA"),  # Greek alpha
    ("bank1", "bankl"),
    ("bankI", "bankl"),
    ("bank0", "bankO"),
    ("north", "\uff4eorth"),  # of double width
    ("north", "north\ufe0f"),  # a variation selector
    ("north east", "north  east"),
    ("north-east", "north\u2010east"),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_look_alikes_are_found(one, other):
    assert look_alikes([one, "somebody", other]) == (one, other)
    with pytest.raises(InputError, match=r"look the same\. Rename one of them"):
        check_look_alikes([one, other])


@pytest.mark.parametrize("names", [["north", "North"], ["Jose", "Jos\u00e9"], ["a", "b"], ["site 1", "site 2"], ["x"]])
def test_other_names_are_accepted(names):
    assert look_alikes(names) is None


def test_equal_names_are_no_look_alikes():
    assert look_alikes(["a", "a"]) is None


@pytest.mark.parametrize("name", ["Zoe\u0308", " north", "north "])
def test_the_ledger_knows_one_spelling(name):
    with pytest.raises(InputError, match="composed characters"):
        check_names([name])
    check_names([tidy_name(name)])


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_admission_refuses_a_name_that_looks_like_a_members(tmp_path, one, other):
    sample = open_ledger(str(tmp_path / "ledger.db"), tmp_path / "keys")
    sample.ledger.admit({one: None})
    with pytest.raises(InputError):
        sample.ledger.admit({other: None})
    assert list(sample.ledger.state.members) == [one]
    sample.store.close()


def test_ledger_init_refuses_look_alikes(tmp_path):
    words = ["ledger", "init", "a.db", "--keys", "keys"]
    told = run_here([*words, "--member", "north", "--member", "n\u043erth"], tmp_path)
    assert told.returncode == 2
    assert "'north' and 'n\\u043erth' look the same" in told.stderr
    assert not (tmp_path / "a.db").exists()
    told = run_here([*words, "--member", "Zo\u00eb", "--member", "Zoe\u0308"], tmp_path)
    assert (told.returncode, "names a member twice" in told.stderr) == (2, True)
    told = run_here([*words, "--member", "Zoe\u0308"], tmp_path)
    assert (told.returncode, "members: Zo\u00eb\n" in told.stdout) == (0, True)


def test_a_new_ledger_of_a_federation_refuses_look_alikes(tmp_path):
    ledger = FederationLedger(
        str(tmp_path / "a.db"), KeyDirectory(tmp_path / "keys"), name="x", members={"bank1": None, "bankl": None}
    )
    with pytest.raises(CommonwealError, match="look the same"):
        ledger.check()
