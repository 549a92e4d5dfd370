"""The copy that a rehearsal works in: complete, with matching keys, and without members' state."""

from __future__ import annotations

import pytest

from commonweal.errors import CommonwealError
from commonweal.flower.rehearsal.rehearsed_folder import copy_federation, federation_name
from commonweal.ledger.node_keys import NodeKey, node_public_pem
from commonweal.remote.coordinator.federation_file import read_federation
from commonweal.remote.member.member_file import read_member
from tests.flower.tiny_federation import write_tiny_federation


@pytest.fixture
def folder(tmp_path):
    return write_tiny_federation(tmp_path / "tiny")


@pytest.fixture
def copy(tmp_path):
    (tmp_path / "copy").mkdir()
    return tmp_path / "copy"


def change(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def public_keys(copy, members):
    """As the operator knows them, and as the members do."""
    mine = {member.name: NodeKey.read(member.private_key).public for member in members}
    return read_federation(copy / "federation.toml").keys, mine


def test_missing_keys_are_made_only_in_the_copy(folder, copy):
    before = sorted(folder.rglob("*"))
    members = copy_federation(folder, copy)
    known, own = public_keys(copy, members)
    assert known == own
    assert set(own) == {"north", "south"}
    assert len(set(own.values())) == 2
    assert sorted(folder.rglob("*")) == before
    for member in members:
        found = read_member(member.file)
        assert (found.key_file, found.home) == (member.private_key, member.home)


def test_existing_keys_are_used(folder, copy):
    NodeKey.new().write(folder / "members" / "north" / "node-key")
    expected = NodeKey.read(folder / "members" / "north" / "node-key").public
    known, own = public_keys(copy, copy_federation(folder, copy))
    assert known["north"] == own["north"] == expected


def test_a_private_key_without_its_public_half(folder, copy):
    NodeKey.new().write(folder / "members" / "north" / "node-key")
    (folder / "members" / "north" / "node-key.pub").unlink()
    known, own = public_keys(copy, copy_federation(folder, copy))
    assert known == own


def test_the_operator_rehearses_with_only_public_keys(folder, copy):
    """The private one is with the member, as it should be: the rehearsal has its own."""
    change(folder / "federation.toml", "members/north/node-key.pub", "keys/north.pub")
    (folder / "keys").mkdir()
    real = NodeKey.new().public
    (folder / "keys" / "north.pub").write_bytes(node_public_pem(real))
    known, own = public_keys(copy, copy_federation(folder, copy))
    assert known == own
    assert known["north"] != real


def test_keys_that_do_not_belong_together(folder, copy):
    NodeKey.new().write(folder / "members" / "north" / "node-key")
    (folder / "members" / "north" / "node-key.pub").write_bytes(node_public_pem(NodeKey.new().public))
    with pytest.raises(CommonwealError, match=r"the public key of 'node-key' for member 'north', got another"):
        copy_federation(folder, copy)


def test_state_of_members_is_not_copied_and_other_files_are(folder, copy):
    north = folder / "members" / "north"
    (north / "home" / "arrays").mkdir(parents=True)
    (north / "home" / "state.json").write_text("of real rounds")
    (north / "data.csv").write_text("1,2")
    copy_federation(folder, copy)
    assert not (copy / "members" / "north" / "home").exists()
    assert (copy / "members" / "north" / "data.csv").read_text() == "1,2"
    assert (copy / "app" / "tiny" / "client_app.py").exists()


def test_the_name(folder):
    assert federation_name(folder) == "tiny"


@pytest.mark.parametrize(
    ("file", "old", "new", "match"),
    [
        ("federation.toml", "rounds = 1", "rounds = 0", r"tiny/federation\.toml, line 2: rounds must be a"),
        ("federation.toml", "[[clients]]", "[[members]]", "members"),
        ("federation.toml", 'name = "north"', 'name = "../north"', "usable as a folder name, got '../north'"),
        ("federation.toml", 'name = "north"', 'name = ".."', "usable as a folder name"),
        ("federation.toml", 'name = "north"', 'name = "nord"', r"Cannot read .*members/nord/member.toml"),
        ("federation.toml", "members/north/node-key.pub", "/etc/north.pub", "must be inside .* got '.*/etc/north.pub'"),
        ("members/north/member.toml", 'name = "north"', 'name = "south"', r"name must be 'north' in .*, got 'south'"),
        ("members/north/member.toml", '"home"', '"/var/lib/north"', r"'north' must be inside .*'/var/lib/north'"),
        ("members/north/member.toml", '"home"', '"."', r"home of 'north' must be inside"),
        ("members/north/member.toml", '"node-key"', '"../node-key"', r"key_file of 'north' must be inside"),
        ("members/north/member.toml", "home =", "hoem =", "hoem"),
    ],
)  # fmt: skip
def test_refusals(folder, copy, file, old, new, match):
    change(folder / file, old, new)
    with pytest.raises(CommonwealError, match=match) as refusal:
        copy_federation(folder, copy)
    assert str(copy) not in str(refusal.value), "the user knows the folder, not the copy"


def test_no_app(folder, copy):
    (folder / "app" / "pyproject.toml").unlink()
    with pytest.raises(CommonwealError, match=r"Cannot find a Flower app in .*: no app/pyproject\.toml"):
        copy_federation(folder, copy)
