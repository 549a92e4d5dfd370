"""Entries that are chained, signed and balanced, but that no honest operator would write."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta

import pytest

from commonweal.errors import LedgerError
from commonweal.ledger.ledger import Ledger
from commonweal.ledger.rounds import draft_round
from tests.ledger.sample_ledger import (
    CLIENT_KEYS,
    FIRST_ROUND,
    FIRST_ROUND_AGAIN,
    MEMBERS,
    STRANGER,
    make_sample,
    next_document,
    odd_notes,
    open_ledger,
    parsed,
    sealed,
    signed_round,
    tampering,
    undone,
    verified,
)

ROUND = 4  # the next one
FIGURES = {"ann": (0.2003, 0.4, None), "bob": (0.1009, 0.35, None), "dan": (-0.0311, 0.2, None)}


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ledger")
    made = make_sample(str(folder / "ledger.db"), folder / "keys", "accruals")
    yield made
    made.store.close()


@pytest.fixture(scope="module")
def inside(sample):
    with tampering(sample.store) as attacker:
        yield attacker


@pytest.fixture
def forge(sample, inside):
    """The findings and notes about a document that the operator adds as the next entry."""
    entries = inside.entries()

    def outcome_of(kind, body, postings=(), edit=lambda document: None):
        document = next_document(entries, kind, body, postings)
        edit(document)
        with undone(inside):
            inside.add(sealed(document, sample.operator))
            outcome = verified(inside)
        assert {finding.entry for finding in outcome.findings} <= {len(entries) + 1}
        notes = {note.rule: note for note in outcome.notes if note.entry == len(entries) + 1}
        return {finding.rule: finding for finding in outcome.findings}, notes

    return outcome_of


def round_of(sample, number=ROUND, figures=FIGURES, **options):
    settled = signed_round(sample.ledger.identity, number, figures, **options)
    draft = draft_round(settled, sample.ledger.identity, sample.ledger.terms)
    return "round", copy.deepcopy(dict(draft.body)), draft.postings


def test_an_honest_entry_gives_neither_findings_nor_notes(sample, forge):
    assert forge(*round_of(sample)) == ({}, {})


# Members that a round does not mention.


def test_an_active_member_that_a_round_does_not_mention(sample, forge):
    """bob is active: leaving him out takes his share away, and no signature of his is needed for that."""
    figures = {client: FIGURES[client] for client in ("ann", "dan")}
    findings, _ = forge(*round_of(sample, figures=figures))
    assert list(findings) == ["a round lists every active member"]
    finding = findings["a round lists every active member"]
    assert (finding.expected, finding.found) == ("bob with figures or as absent", "neither")
    assert forge(*round_of(sample, figures=figures, absent=("bob",))) == ({}, {})


def test_who_left_or_came_later_need_not_be_mentioned(tmp_path):
    """Not a member that withdrew or was eliminated before, nor in an earlier round one that joined later."""
    sample = make_sample(str(tmp_path / "ledger.db"), tmp_path / "keys", "transfers")
    ledger = sample.ledger  # cyd was eliminated in round 2, and dan joined after it
    ledger.reverse_round(1, "figures came late")
    ledger.settle(signed_round(ledger.identity, 1, FIRST_ROUND))
    ledger.settle(signed_round(ledger.identity, 3, FIGURES))
    assert verified(sample.store).findings == ()
    sample.store.close()


def test_the_ledger_refuses_a_round_that_leaves_a_member_out(tmp_path):
    sample = open_ledger(str(tmp_path / "ledger.db"), tmp_path / "keys")
    sample.ledger.admit(MEMBERS)
    figures = {client: FIRST_ROUND[client] for client in ("ann", "bob")}
    with pytest.raises(LedgerError, match="'cyd' is an active member, but round 1 has neither its figures nor lists"):
        sample.ledger.settle(signed_round(sample.ledger.identity, 1, figures))
    assert sample.ledger.settle(signed_round(sample.ledger.identity, 1, figures, absent=("cyd",))).fresh
    sample.store.close()


def test_names_that_look_the_same_are_a_note(sample, forge):
    """Ledgers of versions that did not refuse them may have such members: ann, and one with a Cyrillic a."""
    twin, other = "\u0430nn", "zoe"
    members = [{"client": client, "key": None} for client in (other, twin)]
    findings, notes = forge("admission", {"members": members})
    assert not findings
    note = notes["no two members' names look the same"]
    assert (note.expected, note.found) == ("a name that does not look like 'ann'", "'\\u0430nn'")
    assert "no two members' names look the same" not in forge("admission", {"members": members[:1]})[1]


# Numbers of rounds.


@pytest.mark.parametrize("number", [0, -1, -(10**9), 10**9 + 1])
def test_a_round_with_an_impossible_number(sample, forge, number):
    findings, _ = forge(*round_of(sample, number, FIRST_ROUND_AGAIN if number < 1 else FIGURES))
    assert findings["rounds are numbered from 1 on"].found == str(number)


def test_a_round_far_beyond_the_last(sample, forge):
    figures = {client: FIGURES[client] for client in ("ann", "bob")}  # dan withdraws after round 9
    findings, _ = forge(*round_of(sample, 10_004, figures))
    assert list(findings) == ["the number of a round is near the last one"]
    findings, notes = forge(*round_of(sample, 10_003, figures))
    assert findings == {}
    note = notes["rounds are settled in order and without gaps"]
    assert (note.expected, note.found) == ("round 4", "round 10003")


@pytest.mark.parametrize(
    ("number", "fault"),
    [(0, "from 1 to"), (-3, "from 1 to"), (10**9 + 1, "from 1 to"), (10_002, "too far beyond round 1")],
)
def test_the_ledger_refuses_impossible_numbers(tmp_path, number, fault):
    sample = open_ledger(str(tmp_path / "ledger.db"), tmp_path / "keys")
    sample.ledger.admit(MEMBERS)
    sample.ledger.settle(signed_round(sample.ledger.identity, 1, FIRST_ROUND))
    with pytest.raises(LedgerError, match=fault):
        sample.ledger.settle(signed_round(sample.ledger.identity, number, FIRST_ROUND))
    sample.store.close()


def test_rounds_may_be_numbered_by_date(tmp_path):
    """The first number is free, and the last day of a year is near enough to the next one."""
    sample = open_ledger(str(tmp_path / "ledger.db"), tmp_path / "keys")
    sample.ledger.admit(MEMBERS)
    for number in (20_261_231, 20_270_101):
        sample.ledger.settle(signed_round(sample.ledger.identity, number, FIRST_ROUND))
    outcome = verified(sample.store)
    assert outcome.findings == ()
    assert [note.expected for note in odd_notes(outcome)] == ["round 1", "round 20261232"]
    sample.store.close()


# Dates.


def dated(text):
    return lambda document: document.update(at=text)


@pytest.mark.parametrize(
    "text",
    [
        "2025-12-31T23:59:59.000000Z",  # before the ledger was opened
        "2026-01-01T00:00:00.000000Z",
    ],
)
def test_a_date_that_goes_back(sample, inside, text):
    last = datetime(2026, 1, 1, 1, tzinfo=UTC)
    entries = [dated(last.isoformat(timespec="microseconds").replace("+00:00", "Z")), dated(text)]
    findings = dates_after(sample, inside, entries).findings
    assert [(finding.rule, finding.found) for finding in findings] == [("dates do not go back", text)]
    assert findings[0].expected == "2026-01-01T01:00:00.000000Z or later"


def dates_after(sample, inside, edits):
    """What verification says after admissions with these changes."""
    with undone(inside):
        for place, edit in enumerate(edits):
            body = {"members": [{"client": f"member {place}", "key": STRANGER.public}]}
            document = next_document(inside.entries(), "admission", body)
            edit(document)
            inside.add(sealed(document, sample.operator))
        return verified(inside)


def test_a_small_step_back_is_a_note(sample, inside):
    """Two machines write in turn, and one clock is two minutes behind; it does not add up to a large step."""
    later = ["2026-01-01T01:00:00.000000Z", "2026-01-01T00:58:00.000000Z", "2026-01-01T00:56:00.000000Z"]
    outcome = dates_after(sample, inside, map(dated, later))
    assert outcome.findings == ()
    assert [note.found for note in outcome.notes if note.rule == "dates do not go back"] == later[1:]
    outcome = dates_after(sample, inside, map(dated, [*later, "2026-01-01T00:54:00.000000Z"]))
    assert [finding.found for finding in outcome.findings] == ["2026-01-01T00:54:00.000000Z"]


@pytest.mark.parametrize(
    "value",
    [
        None, 7, True, ["2026-02-01T00:00:00.000000Z"], {"day": 1}, "", "yesterday", "2026-02-01",
        "2026-02-30T00:00:00.000000Z", "2026-02-01T00:00:00Z", "2026-02-01T00:00:00.000000+00:00",
        "2026-02-01T00:00:00.000000", "2026-02-01 00:00:00.000000Z",
        "2026-02-01T01:00:00.000000+01:00", "2026-02-01T00:00:00.000000Z ", "0001-01-01T00:00:00.000000+23:00",
    ],
)  # fmt: skip
def test_a_date_of_another_form(sample, forge, value):
    findings, _ = forge(*round_of(sample), dated(value))
    assert findings["entries are dated"].found == repr(value)


def test_an_entry_without_a_date(sample, forge):
    findings, _ = forge(*round_of(sample), lambda document: document.pop("at"))
    assert findings["entries are dated"].found == "no date"


def test_the_ledger_never_writes_a_date_that_goes_back(tmp_path):
    sample = open_ledger(str(tmp_path / "ledger.db"), tmp_path / "keys")
    now = datetime(2026, 5, 1, tzinfo=UTC)
    late, soon, early = (
        Ledger(sample.store, sample.keys, clock=lambda moment=moment: moment)
        for moment in (now, now - timedelta(minutes=4), now - timedelta(minutes=6))
    )
    late.admit({"ann": None})
    soon.admit({"bob": None})
    assert odd_notes(verified(sample.store)) == verified(sample.store).findings == ()
    with pytest.raises(LedgerError, match=r"clock says 2026-04-30T23:54:00.000000Z, but the ledger has an entry of"):
        early.admit({"cyd": None})
    assert len(sample.entries()) == 3
    sample.store.close()


# Fields that nobody knows.


def places(value, path=()):
    """Every object in a document."""
    if isinstance(value, dict):
        yield path
        for name, inner in value.items():
            yield from places(inner, (*path, name))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from places(inner, (*path, place))


FREE = ("pooled", "expected", "parameters", "terms")  # with names of their own, or checked elsewhere


def test_an_unknown_field_anywhere_in_any_kind_of_entry(sample, inside):
    entries = inside.entries()
    tried = set()
    for entry in entries:
        document = next_document(entries, **{name: parsed(entry)[name] for name in ("kind", "body")})
        for place in places(document):
            if place and place[-1] in FREE:
                continue
            forged = copy.deepcopy(document)
            inner = forged
            for step in place:
                inner = inner[step]
            inner["approved"] = "by the board"
            with undone(inside):
                inside.add(sealed(forged, sample.operator))
                found = [f.found for f in verified(inside).findings if f.rule == "entries have only known fields"]
            assert len(found) == 1
            assert found[0].endswith("approved")
            tried.add((document["kind"], *(step for step in place if isinstance(step, str))))
    assert ("round", "body", "inputs") in tried
    assert {kind for kind, *_ in tried} == {
        "opening", "admission", "round", "realisation", "reversal", "withdrawal", "key-rotation"
    }  # fmt: skip


def test_many_unknown_fields_are_counted(sample, forge):
    kind, body, postings = round_of(sample)
    body |= {f"x{place}": place for place in range(30)}
    with_many, _ = forge(kind, body, postings)
    assert with_many["entries have only known fields"].found == "25 more"


def test_an_object_in_place_of_a_value(sample, forge):
    kind, body, postings = round_of(sample)
    body["absent"] = [{"client": "bob", "because": "of debts"}]
    findings, _ = forge(kind, body, postings)
    assert findings["entries have only known fields"].found == "body.absent"


# Rules that say something else than the version that decided.


@pytest.mark.parametrize(
    ("rules", "rule"),
    [
        ({"mechanism": "fli", "parameters": {}}, "the decision can be recomputed from its inputs"),
        ({"parameters": {"approved": 1}}, "the decision can be recomputed from its inputs"),
        ({"mechanism": "paper", "parameters": {}}, "rules are written in one way only"),
        ({"mu": "Infinity"}, "rules are written in one way only"),
        ({"mu": " inf"}, "rules are written in one way only"),
    ],
)
def test_rules_that_do_not_belong_to_their_version(sample, forge, rules, rule):
    """People read what the rules say; the round is decided by what the version means."""
    kind, body, postings = round_of(sample)
    assert body["rules"]["mu"] == "inf"
    body["rules"] |= rules
    assert rule in forge(kind, body, postings)[0]


# Texts that command a terminal.

ESCAPES = ["\x1b[2J", "\x1b]0;sound\x07", "a\rb", "a\nb", "\x9b31m", "\u202egnos", "\x7f", "\u2028", "a\u200bb"]


@pytest.mark.parametrize("text", ESCAPES)
def test_a_text_with_control_characters(sample, forge, text):
    body, rule = {"members": [{"client": f"eve{text}", "key": None}]}, "texts have only printable characters"
    findings, _ = forge("admission", body)
    assert list(findings) == [rule]
    assert str(findings[rule]).isprintable()
    reversal = {"entry": sample.ledger.state.rounds[3], "reason": text}
    assert rule in forge("reversal", reversal)[0]
    assert rule in forge("realisation", {"reference": text, "amount": "5"})[0]
    assert rule in forge("admission", body | {text: None})[0]
    assert rule in forge("admission", body, edit=lambda document: document.update(format=text))[0]


def test_names_of_all_scripts_are_printable(sample, forge):
    names = ["Zoë", "Ж", "銀行", "بنك", "𝄞 🏦", "O'Neil & Søn"]
    rows = [{"client": name, "key": CLIENT_KEYS["dan"].public} for name in names]
    assert not forge("admission", {"members": rows})[0]
