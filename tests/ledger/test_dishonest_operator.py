"""An operator can sign any entry into a sound chain; verification recomputes it and names what is wrong."""

from __future__ import annotations

import copy
import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.decision.decide import decide_figures, decision_with
from commonweal.decision.mechanisms.paper import Paper
from commonweal.ledger.canonical import hash_of, parse
from commonweal.ledger.entries import Posting, signed_message
from commonweal.ledger.keys import SigningKey
from commonweal.ledger.member_documents import ClientReport, WithdrawalNotice
from commonweal.ledger.money import in_proportion
from commonweal.ledger.node_keys import ORDER, NodeKey
from commonweal.ledger.rounds import RoundToSettle, decision_document, draft_round, round_postings
from commonweal.records import Figures, RoundRecord, Rules
from tests.ledger.sample_ledger import (
    CLIENT_KEYS,
    ENTRIES,
    LAST_OF_DAN,
    LENIENT,
    STRANGER,
    STRICT,
    make_sample,
    next_document,
    parsed,
    sealed,
    signed_round,
    tampering,
    undone,
    verified,
)

ROUND = 4  # the next one
FIGURES = {"ann": (0.2003, 0.4, None), "bob": (0.1009, 0.35, None), "dan": (-0.0311, 0.2, None)}


@pytest.fixture(scope="module", params=["transfers", "accruals"])
def sample(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ledger")
    made = make_sample(str(folder / "ledger.db"), folder / "keys", request.param)
    yield made
    made.store.close()


@pytest.fixture(scope="module")
def inside(sample):
    with tampering(sample.store) as attacker:
        yield attacker


@pytest.fixture(scope="module")
def forge(sample, inside):
    """What verification finds when the operator adds such a document as the next entry."""
    entries = inside.entries()

    def findings_of(kind, body, postings=(), *, edit=lambda document: None, key=sample.operator):
        document = next_document(entries, kind, body, postings)
        edit(document)
        with undone(inside):
            inside.add(sealed(document, key))
            findings = verified(inside).findings
        # Only the forged entry has findings; balances are findings of the last entry, which it is.
        assert {finding.entry for finding in findings} <= {len(entries) + 1}
        return {finding.rule: finding for finding in findings}

    findings_of.entries = entries
    findings_of.number = len(entries) + 1
    return findings_of


where_payoffs_accrue = pytest.mark.parametrize("sample", ["accruals"], indirect=True, scope="module")
where_transfers_are_paid = pytest.mark.parametrize("sample", ["transfers"], indirect=True, scope="module")


def honest(sample, number=ROUND, figures=FIGURES, rules=LENIENT, **options):
    """A round as the ledger would record it."""
    return draft_round(
        signed_round(sample.ledger.identity, number, figures, rules, **options),
        sample.ledger.identity,
        sample.ledger.terms,
    )


def body_of(draft):
    return copy.deepcopy(dict(draft.body))


def only(findings, rule):
    """The only finding."""
    assert list(findings) == [rule]
    return findings[rule]


def test_an_honest_entry_gives_no_finding(sample, forge):
    draft = honest(sample)
    assert forge("round", draft.body, draft.postings) == {}


# A wrong decision.


@pytest.mark.parametrize("retained", [("ann", "bob"), ("ann", "dan"), ("bob", "dan")])
def test_another_retained_set(sample, forge, retained):
    """Everything else follows from it, to the last cent."""
    settled = signed_round(sample.ledger.identity, ROUND, FIGURES)
    figures = settled.record.decision.figures
    decision = decision_with(figures, LENIENT, retained)
    body = body_of(honest(sample)) | {"decision": decision_document(decision)}
    findings = forge("round", body, round_postings(decision, sample.ledger.terms))
    finding = only(
        {rule: found for rule, found in findings.items() if "eliminated" not in rule},
        "the decision follows from its inputs: retained",
    )
    assert finding.entry == forge.number
    assert finding.expected == "['ann', 'bob', 'dan']"
    assert finding.found == str(list(retained))


def test_payoffs_off_by_one_minor_unit(sample, forge):
    body = body_of(honest(sample))
    cent = 1 / sample.ledger.terms.worth
    for name in ("payoffs", "transfers"):
        row = body["decision"][name]
        row[0], row[1] = row[0] + cent, row[1] - cent
    figures = signed_round(sample.ledger.identity, ROUND, FIGURES).record.decision
    shifted = replace(
        figures,
        payoffs=dict(zip(figures.retained, body["decision"]["payoffs"], strict=True)),
        transfers=dict(zip(figures.retained, body["decision"]["transfers"], strict=True)),
    )
    postings = round_postings(shifted, sample.ledger.terms)
    assert postings != honest(sample).postings
    findings = forge("round", body, postings)
    assert set(findings) == {
        "the decision follows from its inputs: payoffs",
        "the decision follows from its inputs: transfers",
        "the postings follow from the entry's inputs",
    }
    payoff = findings["the decision follows from its inputs: payoffs"]
    name, value = payoff.expected.split()
    assert name == "ann"
    assert float(payoff.found) - float(value) == pytest.approx(cent)


@pytest.mark.parametrize("name", ["objective", "budget", "shares", "payoffs", "transfers"])
def test_a_figure_of_the_decision_off_by_a_rounding_error(sample, forge, name):
    body = body_of(honest(sample))
    row = body["decision"][name]
    body["decision"][name] = [row[0] * (1 + 1e-15), *row[1:]] if isinstance(row, list) else row * (1 + 1e-15)
    assert body["decision"][name] != row
    only(forge("round", body, honest(sample).postings), f"the decision follows from its inputs: {name}")


def test_moving_one_cent_to_a_friend(sample, forge):
    """The decision is right, the money is not."""
    draft = honest(sample)
    friend, other = draft.postings[2], draft.postings[0]
    postings = (
        replace(other, amount=other.amount - 1),
        draft.postings[1],
        replace(friend, amount=friend.amount + 1),
        *draft.postings[3:],
    )
    finding = only(forge("round", draft.body, postings), "the postings follow from the entry's inputs")
    assert finding.entry == forge.number
    assert finding.expected == f"[0] {other.account} {other.amount}"
    assert finding.found == f"{other.account} {other.amount - 1}"


def test_moving_one_cent_to_a_friend_by_rounding(sample, forge):
    """If two payoffs are equal, a difference in the sixteenth digit decides who gets the odd cent."""
    even = {"ann": (-0.000025, 0.5, None), "bob": (-0.000025, 0.5, None), "dan": (0.00005, 1.0, None)}
    if sample.ledger.terms.settlement == "accruals":
        even = {"ann": (0.00003, 0.5, None), "bob": (0.00003, 0.5, None), "dan": (0.00004, 1.0, None)}
    settled = signed_round(sample.ledger.identity, ROUND, even)
    decision = settled.record.decision
    friends = {
        name: amounts | {"ann": amounts["ann"] * (1 - 1e-14), "bob": amounts["bob"] * (1 + 1e-14)}
        for name, amounts in (("payoffs", decision.payoffs), ("transfers", decision.transfers))
    }
    bent = replace(decision, **friends)
    draft = draft_round(settled, sample.ledger.identity, sample.ledger.terms)
    postings = round_postings(bent, sample.ledger.terms)
    body = body_of(draft) | {"decision": decision_document(bent)}
    amounts = {posting.account.split("/")[-1]: posting.amount for posting in postings}
    fair = {posting.account.split("/")[-1]: posting.amount for posting in draft.postings}
    assert (amounts["ann"], amounts["bob"]) == (fair["ann"] - 1, fair["bob"] + 1)
    assert "the postings follow from the entry's inputs" in forge("round", body, postings)


def test_changed_rules(sample, forge):
    draft = honest(sample)
    for rules in ({"mu": 0.0}, {"liability_cap": 0.001}, {"contribution_rule": "equal"}, {"loss_rule": "none"}):
        body = body_of(draft)
        body["rules"] |= rules
        assert forge("round", body, draft.postings)


def test_changed_contributions(sample, forge):
    draft = honest(sample)
    body = body_of(draft)
    body["inputs"][0]["contribution"] += 1e-6
    assert "the decision follows from its inputs: shares" in forge("round", body, draft.postings)


def test_a_false_grace_round(sample, forge):
    draft = honest(sample, rules=STRICT)
    assert draft.body["decision"]["eliminated"] == ["dan"]
    body = body_of(draft) | {"grace": True}
    assert "the decision follows from its inputs: retained" in forge("round", body, draft.postings)
    body = body_of(draft) | {"grace": 0}
    only(forge("round", body, draft.postings), "grace is true or false")


def test_an_unknown_version_of_rules(sample, forge):
    draft = honest(sample)
    finding = only(
        forge("round", draft.body | {"rules_version": "77"}, draft.postings),
        "the decision can be recomputed from its inputs",
    )
    assert finding.expected == "a decision"
    assert "'77'" in finding.found


BY_THE_LAST_BIT = {"ann": (-0.05, 0.5, None), "bob": (0.15, 0.4, None), "dan": (0.02, 0.1, None)}
"""Retaining everybody and letting ann go tie on paper. As doubles, the latter is better by 1e-17."""


@pytest.mark.parametrize(("version", "eliminated"), [(1, ["ann"]), (2, [])])
def test_a_round_is_verified_by_the_version_it_names_and_by_no_other(sample, forge, version, eliminated):
    settled = signed_round(sample.ledger.identity, ROUND, BY_THE_LAST_BIT, Rules(mu=0.05, version=version))
    draft = draft_round(settled, sample.ledger.identity, sample.ledger.terms)
    assert draft.body["rules_version"] == str(version)
    assert draft.body["decision"]["eliminated"] == eliminated
    assert forge("round", draft.body, draft.postings) == {}
    body = body_of(draft) | {"rules_version": str(3 - version)}
    assert "the decision follows from its inputs: retained" in forge("round", body, draft.postings)


def test_shares_beyond_the_terms(sample, forge):
    """A ledger that was opened without a largest share accepts only shares from 0 to 1."""
    raw = {"ann": (0.2, 0.5, None), "bob": (0.1, -0.4, None)}
    rules = Rules(mu=float("inf"), contribution_rule="raw")
    decision = signed_round(sample.ledger.identity, ROUND, raw, rules, absent=("dan",))
    generous = replace(sample.ledger.terms, largest_share=10.0)
    draft = draft_round(decision, sample.ledger.identity, generous)
    finding = only(forge("round", draft.body, draft.postings), "shares are within the ledger's terms")
    assert "'ann'" in finding.found


# Reports that their clients did not make.


def signed_otherwise(sample, signature_of):
    """An honest round, except for the signature of bob's report."""
    settled = signed_round(sample.ledger.identity, ROUND, FIGURES)
    report = settled.report(sample.ledger.identity, "bob")
    signatures = dict(settled.signatures) | {"bob": signature_of(report)}
    return draft_round(replace(settled, signatures=signatures), sample.ledger.identity, sample.ledger.terms)


OTHER_SIGNATURES = {
    "none": lambda report: None,
    "empty": lambda report: "",
    "no signature": lambda report: "00" * 64,
    "of another client": lambda report: report.signed(CLIENT_KEYS["ann"]),
    "of a stranger": lambda report: report.signed(STRANGER),
    "for another round": lambda report: replace(report, round_number=3).signed(CLIENT_KEYS["bob"]),
    "for another ledger": lambda report: replace(report, ledger="0" * 64).signed(CLIENT_KEYS["bob"]),
    "for another client": lambda report: replace(report, client="ann").signed(CLIENT_KEYS["bob"]),
    "for another profit": lambda report: replace(report, profit=report.profit + 1e-12).signed(CLIENT_KEYS["bob"]),
    "for other samples": lambda report: replace(report, sample_count=1).signed(CLIENT_KEYS["bob"]),
    "for another cost": lambda report: replace(report, cost=0.1).signed(CLIENT_KEYS["bob"]),
    "in capitals": lambda report: report.signed(CLIENT_KEYS["bob"]).upper(),
}


@pytest.mark.parametrize("which", OTHER_SIGNATURES)
def test_a_report_that_its_client_did_not_sign(sample, forge, which):
    draft = signed_otherwise(sample, OTHER_SIGNATURES[which])
    finding = only(forge("round", draft.body, draft.postings), "a report is signed by its client")
    assert finding.entry == forge.number
    assert finding.expected == "a signature by bob"
    assert finding.found == ("no signature" if which in ("none", "empty") else "another signature")


def test_the_report_of_an_earlier_round_again(sample, forge):
    """Signed by bob himself, in this ledger: figures and signature of round 3, called round 4."""
    entry = next(
        document
        for document in map(parsed, forge.entries)
        if document["kind"] == "round" and document["body"]["round"] == 3
    )
    body = copy.deepcopy(entry["body"]) | {"round": ROUND}
    postings = [Posting(account, int(amount)) for account, amount in entry["postings"]]
    finding = only(forge("round", body, postings), "a report is signed by its client")
    assert finding.found == "another signature"


def test_reports_of_a_client_without_a_key_are_counted_as_unsigned(sample, forge):
    """What cannot be checked is counted. Before cyd was eliminated, the operator could state anything about it."""
    told = verified(sample.store)
    rounds = [document for document in map(parsed, forge.entries) if document["kind"] == "round"]
    reports = [row["client"] for held in rounds for row in held["body"]["inputs"]]
    assert told.unsigned_reports == reports.count("cyd") == 3
    assert told.signed_reports == len(reports) - 3
    assert told.round_count == len(rounds)


# Who may take part.


def test_a_client_that_was_eliminated_earlier(sample, forge):
    draft = honest(sample, figures=FIGURES | {"cyd": (0.1, 0.1, None)})
    finding = only(forge("round", draft.body, draft.postings), "eliminated clients do not take part in later rounds")
    assert (finding.entry, finding.expected, finding.found) == (
        forge.number,
        "cyd eliminated in round 2",
        "it takes part",
    )


def test_eliminating_a_client_that_took_part_later(sample, forge):
    draft = honest(sample, number=0, figures={"ann": (0.2, 0.4, None), "bob": (-0.5, 0.01, None)}, rules=STRICT)
    findings = forge("round", draft.body, draft.postings)
    assert findings.pop("rounds are numbered from 1 on").found == "0"
    finding = only(findings, "eliminated clients do not take part in later rounds")
    assert (finding.expected, finding.found) == ("bob not in round 1", "it takes part")


def test_a_client_that_is_not_a_member(sample, forge):
    draft = honest(sample, figures=FIGURES | {"eve": (0.1, 0.1, None)})
    finding = only(forge("round", draft.body, draft.postings), "only members take part in rounds")
    assert finding.found == "eve"
    draft = honest(sample, absent=("eve",))
    only(forge("round", draft.body, draft.postings), "only members take part in rounds")


def test_a_client_that_reports_twice(sample, forge):
    """It signed two reports of one round; the second counts in the decision, the first is shown to others."""
    settled = signed_round(sample.ledger.identity, ROUND, FIGURES)
    first = replace(settled.report(sample.ledger.identity, "ann"), profit=0.9)
    draft = honest(sample)
    body = body_of(draft)
    body["inputs"].insert(0, body["inputs"][0] | {"profit": 0.9, "signature": first.signed(CLIENT_KEYS["ann"])})
    finding = only(forge("round", body, draft.postings), "a client takes part at most once")
    assert (finding.expected, finding.found) == ("ann once", "2 times")


def test_a_client_that_reports_and_is_absent(sample, forge):
    draft = honest(sample, absent=("ann",))
    only(forge("round", draft.body, draft.postings), "a client takes part at most once")


@pytest.mark.parametrize("held", [1, 2])
def test_a_round_settled_twice(sample, forge, held):
    figures = {"ann": (0.2, 0.4, None), "bob": (0.3, 0.4, None)}
    draft = honest(sample, number=held, figures=figures, absent=("cyd",))
    finding = only(forge("round", draft.body, draft.postings), "a round is settled only once")
    assert finding.entry == forge.number
    assert finding.expected == f"round {held} only in entry {sample.ledger.state.rounds[held]}"


@pytest.mark.parametrize("held", [1.5, "4", True, None, [4]])
def test_a_round_without_a_whole_number(sample, forge, held):
    draft = honest(sample)
    assert "round numbers are whole numbers" in forge("round", draft.body | {"round": held}, draft.postings)


# Income and reversals.


def realisation(sample, amount, reference):
    parts = in_proportion(amount, sample.ledger.state.weights())
    postings = [Posting("model-income", -amount), *(Posting(f"clients/{name}", part) for name, part in parts.items())]
    return {"reference": reference, "amount": str(amount)}, postings


@where_payoffs_accrue
def test_income_divided_wrongly(sample, forge):
    body, postings = realisation(sample, 10_001, "invoice 3")
    assert forge("realisation", body, postings) == {}
    postings[1] = replace(postings[1], amount=postings[1].amount - 1)
    postings[2] = replace(postings[2], amount=postings[2].amount + 1)
    finding = only(forge("realisation", body, postings), "the postings follow from the entry's inputs")
    assert finding.entry == forge.number
    assert finding.found == f"{postings[1].account} {postings[1].amount}"


@where_payoffs_accrue
@pytest.mark.parametrize("reference", ["invoice 1", "invoice 2"])
def test_a_reference_used_twice(sample, forge, reference):
    """Even if its income was reversed."""
    finding = only(forge("realisation", *realisation(sample, 10_001, reference)), "a reference is used only once")
    entry = sample.ledger.state.references[reference].entry
    assert (finding.expected, finding.found) == (f"{reference!r} only in entry {entry}", "used again")


@where_payoffs_accrue
@pytest.mark.parametrize("amount", ["-5", "0"])
def test_amounts_that_are_not_income(forge, amount):
    body = {"reference": "invoice 3", "amount": amount}
    only(forge("realisation", body), "income is divided in proportion to accrued payoffs")


@where_transfers_are_paid
def test_income_where_nobody_accrued(sample, forge):
    body = {"reference": "invoice 3", "amount": "5"}
    only(
        forge("realisation", body, [Posting("model-income", -5), Posting("clients/ann", 5)]),
        "income is divided in proportion to accrued payoffs",
    )


def last_round(forge):
    return next(document for document in map(parsed, reversed(forge.entries)) if document["kind"] == "round")


def test_a_reversal_that_does_not_negate(sample, forge):
    state = sample.ledger.state
    entry = state.rounds[1]
    stated = parsed(forge.entries[entry - 1])["postings"]
    postings = [Posting(account, -int(amount)) for account, amount in stated]
    body = {"entry": entry, "reason": "an error"}
    assert forge("reversal", body, postings) == {}
    postings[0] = replace(postings[0], amount=postings[0].amount + 1)
    postings[1] = replace(postings[1], amount=postings[1].amount - 1)
    finding = only(forge("reversal", body, postings), "the postings follow from the entry's inputs")
    assert (finding.entry, finding.found) == (forge.number, f"{postings[0].account} {postings[0].amount}")
    only(forge("reversal", body), "the postings follow from the entry's inputs")


def test_a_reversal_of_what_was_reversed(sample, forge):
    entry, by = next(iter(sample.ledger.state.reversals.items()))
    postings = [Posting(account, -int(amount)) for account, amount in parsed(forge.entries[entry - 1])["postings"]]
    finding = only(forge("reversal", {"entry": entry, "reason": "again"}, postings), "an entry is reversed only once")
    assert finding.expected == f"entry {entry} only by entry {by}"


def test_a_reversal_of_what_cannot_be_reversed(sample, forge):
    kinds = [parsed(entry)["kind"] for entry in forge.entries]
    for kind in ("opening", "admission", "reversal", "withdrawal", "key-rotation"):
        body = {"entry": kinds.index(kind) + 1, "reason": "an error"}
        finding = forge("reversal", body)["only some kinds of entries are reversed"]
        assert finding.found.endswith(f", {kind}")
    for entry in (forge.number, forge.number + 1, 0, -1):
        only(forge("reversal", {"entry": entry, "reason": "an error"}), "only some kinds of entries are reversed")


# Who leaves.


def withdrawal(sample, client="bob", last=ROUND, key=None, **other):
    """A withdrawal by the client's own notice, except for what is given."""
    notice = WithdrawalNotice(sample.ledger.identity, client, last)
    return {"client": client, "round": last, "signature": notice.signed(key or CLIENT_KEYS[client])} | other


@pytest.mark.parametrize(("client", "last"), [("ann", 3), ("ann", ROUND), ("bob", 1), ("bob", 10**9)])
def test_an_honest_withdrawal_gives_no_finding(sample, forge, client, last):
    """bob's round 3 counts only if it was not reversed."""
    later = sample.ledger.state.took_part_after(client, last)
    findings = forge("withdrawal", withdrawal(sample, client, last))
    assert set(findings) == (set() if later is None else {"withdrawn clients do not take part in later rounds"})


NO_NOTICES = {
    "none": lambda notice: None,
    "empty": lambda notice: "",
    "no signature": lambda notice: "00" * 96,
    "of another client": lambda notice: notice.signed(CLIENT_KEYS["ann"]),
    "of a stranger": lambda notice: notice.signed(STRANGER),
    "for another round": lambda notice: replace(notice, round_number=ROUND + 1).signed(CLIENT_KEYS["bob"]),
    "for another ledger": lambda notice: replace(notice, ledger="0" * 64).signed(CLIENT_KEYS["bob"]),
    "for another client": lambda notice: replace(notice, client="ann").signed(CLIENT_KEYS["bob"]),
    "in capitals": lambda notice: notice.signed(CLIENT_KEYS["bob"]).upper(),
    "with the larger s": lambda notice: with_the_larger_s(notice.signed(CLIENT_KEYS["bob"])),
    "a number": lambda notice: 7,
    "a report": lambda notice: ClientReport(ledger=notice.ledger, round_number=ROUND, client="bob", profit=0.1).signed(
        CLIENT_KEYS["bob"]
    ),
}


def with_the_larger_s(signature):
    return signature[:96] + f"{ORDER - int(signature[96:], 16):096x}"


@pytest.mark.parametrize("which", NO_NOTICES)
def test_a_withdrawal_that_its_client_did_not_sign(sample, forge, which):
    notice = WithdrawalNotice(sample.ledger.identity, "bob", ROUND)
    body = withdrawal(sample, signature=NO_NOTICES[which](notice))
    finding = only(forge("withdrawal", body), "a withdrawal is signed by its client")
    assert (finding.entry, finding.expected) == (forge.number, "a signature by bob")
    assert finding.found == ("no signature" if which in ("none", "empty") else "another signature")


def test_a_withdrawal_of_a_client_that_is_not_a_member(sample, forge):
    body = withdrawal(sample, "eve", key=STRANGER)
    assert only(forge("withdrawal", body), "only members withdraw").found == "eve"


def test_a_withdrawal_of_an_eliminated_client(sample, forge):
    finding = only(forge("withdrawal", withdrawal(sample, "cyd", key=STRANGER, signature=None)), GONE)
    assert (finding.expected, finding.found) == ("cyd eliminated in round 2", "a withdrawal")
    body = withdrawal(sample, "cyd", key=STRANGER)
    assert set(forge("withdrawal", body)) == {GONE, "a client without a key signs nothing"}


GONE = "eliminated clients do not withdraw"


@pytest.mark.parametrize("last", [LAST_OF_DAN - 1, LAST_OF_DAN, LAST_OF_DAN + 1])
def test_a_second_withdrawal(sample, forge, last):
    finding = only(forge("withdrawal", withdrawal(sample, "dan", last)), "a client withdraws only once")
    assert (finding.expected, finding.found) == (f"dan after round {LAST_OF_DAN}", "another withdrawal")


def test_a_withdrawal_before_rounds_that_the_client_took_part_in(sample, forge):
    findings = forge("withdrawal", withdrawal(sample, "ann", 0))
    finding = only(findings, "withdrawn clients do not take part in later rounds")
    assert (finding.expected, finding.found) == ("ann not in round 1", "it takes part")


def test_a_client_that_withdrew_in_a_later_round(sample, forge):
    draft = honest(sample, number=LAST_OF_DAN)
    assert forge("round", draft.body, draft.postings) == {}
    draft = honest(sample, number=LAST_OF_DAN + 1)
    finding = only(forge("round", draft.body, draft.postings), "withdrawn clients do not take part in later rounds")
    assert (finding.expected, finding.found) == (f"dan withdrawn after round {LAST_OF_DAN}", "it takes part")


@pytest.mark.parametrize("last", [-1, 10**9 + 1])
def test_a_withdrawal_after_no_round(sample, forge, last):
    assert forge("withdrawal", withdrawal(sample, "ann", last))["a client withdraws after a round"].found == str(last)


@pytest.mark.parametrize("other", [{"round": "4"}, {"round": 4.5}, {"round": True}, {"client": 5}, {"client": ["bob"]}])
def test_a_withdrawal_of_another_form(sample, forge, other):
    only(forge("withdrawal", withdrawal(sample) | other), "the entry has everything that its kind needs")


def test_a_withdrawal_has_exactly_three_fields(sample, forge):
    body = withdrawal(sample)
    only(forge("withdrawal", body | {"reason": "debts"}), "entries have only known fields")
    for name in body:
        less = {key: value for key, value in body.items() if key != name}
        only(forge("withdrawal", less), "the entry has everything that its kind needs")


def test_a_withdrawal_moves_no_money(sample, forge):
    postings = [Posting("clients/bob", -5), Posting("clients/ann", 5)]
    only(forge("withdrawal", withdrawal(sample), postings), "the postings follow from the entry's inputs")


# Members and keys.


@pytest.mark.parametrize("members", [["ann"], ["eve", "eve"]])
def test_a_client_admitted_twice(forge, members):
    """With a key that the operator knows, it could sign in the client's name."""
    rows = [{"client": name, "key": STRANGER.public} for name in members]
    finding = only(forge("admission", {"members": rows}), "a client is admitted only once")
    assert finding.found == f"{members[0]} again"


def test_a_new_key_that_nobody_has(sample, forge):
    new = SigningKey.from_seed(b"a key to be used from today on..")
    for proof in ("", "00" * 64, sample.operator.sign(b"proof"), new.sign(b"proof")):
        only(forge("key-rotation", {"operator": new.public, "proof": proof}), "the new key signed its own announcement")


def test_a_new_key_that_only_members_may_have(sample, forge):
    """The format says that operators sign with Ed25519."""
    new = NodeKey.new()
    proof = new.sign(f"commonweal.key-rotation/1 {sample.ledger.identity} {new.public}".encode())
    only(forge("key-rotation", {"operator": new.public, "proof": proof}), "the new key signed its own announcement")


def test_an_entry_with_the_key_that_was_replaced(sample, forge):
    first = sample.keys.key_of(parsed(forge.entries[0])["body"]["operator"])
    finding = only(
        forge("admission", {"members": [{"client": "eve", "key": None}]}, key=first), "the operator signed the entry"
    )
    assert finding.expected == f"a signature by {sample.operator.public[:16]}…"


# Money from nowhere, and entries of no known form.


def test_an_entry_that_does_not_sum_to_zero(sample, forge):
    draft = honest(sample)
    postings = (replace(draft.postings[0], amount=draft.postings[0].amount + 1), *draft.postings[1:])
    findings = forge("round", draft.body, postings)
    assert findings["the entry sums to zero"].found == "1"
    assert findings["the ledger sums to zero"].found == "1"


@pytest.mark.parametrize("kind", ["opening", "admission", "key-rotation"])
def test_money_moved_where_none_is_due(sample, forge, kind):
    body = next(document["body"] for document in map(parsed, forge.entries) if document["kind"] == kind)
    findings = forge(kind, body, [Posting("clients/ann", 5), Posting("clients/bob", -5)])
    assert findings["the postings follow from the entry's inputs"].found == "['clients/ann 5', 'clients/bob -5']"


def test_a_second_opening(forge):
    body = parsed(forge.entries[0])["body"]
    key = "only the first entry is an opening"
    assert forge("opening", body)[key].found == f"opening as entry {forge.number}"


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("format", "commonweal.entry/2", "the format is known"),
        ("previous", "0" * 64, "the entry is chained to the one before it"),
    ],
)
def test_an_entry_of_another_chain_or_format(forge, field, value, rule):
    body = {"members": [{"client": "eve", "key": None}]}
    finding = only(forge("admission", body, edit=lambda document: document.update({field: value})), rule)
    assert finding.found == value


def test_an_entry_that_replaces_another(sample, inside, forge):
    """Signed, and chained to the one before, but as another number."""
    document = next_document(forge.entries, "admission", {"members": [{"client": "eve", "key": None}]})
    entry = sealed(document | {"number": forge.number + 1}, sample.operator)
    with undone(inside):
        inside.add(replace(entry, number=forge.number))
        (finding,) = verified(inside).findings
    assert (finding.entry, finding.rule) == (forge.number, "the content states the number of its entry")
    assert (finding.expected, finding.found) == (str(forge.number), str(forge.number + 1))


def test_an_unknown_kind(forge):
    assert only(forge("gift", {}), "the kind of the entry is known").found == "gift"


def test_amounts_that_other_programs_would_read_differently(sample, forge):
    draft = honest(sample)

    def write(amount):
        def edit(document):
            document["postings"][0][1] = amount(document["postings"][0][1])

        return edit

    for amount in (int, float, lambda digits: f" {digits}", lambda digits: f"{digits}.0", lambda digits: f"0{digits}"):
        assert forge("round", draft.body, draft.postings, edit=write(amount))


@where_payoffs_accrue
@pytest.mark.parametrize("amount", [10_001, 10_001.7, "10_001", " 10001", "+10001"])
def test_income_that_other_programs_would_read_differently(sample, forge, amount):
    body, postings = realisation(sample, 10_001, "invoice 3")
    only(forge("realisation", body | {"amount": amount}, postings), "amounts are whole numbers written in digits")


@pytest.mark.parametrize("account", [None, 5, True])
def test_an_account_that_is_not_a_name(sample, forge, account):
    draft = honest(sample)

    def rename(document):
        document["postings"][0][0] = account

    assert "the postings follow from the entry's inputs" in forge("round", draft.body, draft.postings, edit=rename)


@where_payoffs_accrue
def test_content_that_is_nested_too_deeply_for_python(sample, inside):
    """At some depth a document can be read but no longer written or shown."""
    entry = next(entry for entry in inside.entries() if parsed(entry)["kind"] == "round")
    before, _, after = entry.content.partition('"retained":["ann","bob","cyd"]')
    deepest = next(depth for depth in range(2000, 0, -1) if parse(f'{{"x":{"[" * depth}{"]" * depth}}}') is not None)
    for depth in (*range(deepest - 24, deepest + 1), 100_000):
        content = f'{before}"retained":{"[" * depth}{"]" * depth}{after}'
        digest = hash_of(content.encode())
        signature = sample.operator.sign(signed_message(digest))
        with undone(inside):
            inside.run(f"DELETE FROM {ENTRIES} WHERE number = :number", number=entry.number)
            row = {"number": entry.number, "content": content, "hash": digest, "signature": signature}
            inside.insert(ENTRIES, row)
            assert entry.number in {finding.entry for finding in verified(inside).findings}


def places_in(value, path=()):
    """Every place in a document, from the outside in."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places_in(inner, (*path, key))


def put_at(document, place, value):
    target = document
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = value


JUNK = (None, True, -1, 0.5, "x", "", [], [[]], {}, {"client": []}, "9" * 5000, 1e300)


@given(data=st.data())
def test_nothing_that_an_operator_signs_breaks_the_verification(sample, inside, forge, data):
    """Whatever is written in any place of any entry, verification runs to the end."""
    entry = data.draw(st.sampled_from(forge.entries))
    document = parsed(entry)
    put_at(document, data.draw(st.sampled_from(list(places_in(document)))), data.draw(st.sampled_from(JUNK)))
    with undone(inside):
        inside.put(sealed(document | {"number": entry.number}, sample.operator))
        assert verified(inside).state.number == len(forge.entries)


def test_the_first_entry_can_be_forged_too(sample, inside):
    """Even without terms, verification does not stop."""
    first = inside.entries()[0]
    for content in ("", "null", "[]", "{}", '{"kind":"opening"}', "\x00" * 3, "[" * 5000):
        with undone(inside):
            inside.run(f"UPDATE {ENTRIES} SET content = :content WHERE number = 1", content=content)
            assert 1 in {finding.entry for finding in verified(inside).findings}
    for place, junk in zip(places_in(parsed(first)), itertools.cycle((None, 5, "x", [])), strict=False):
        document = parsed(first)
        put_at(document, place, junk)
        with undone(inside):
            inside.put(sealed(document | {"number": 1}, sample.operator))
            assert verified(inside).findings


@where_transfers_are_paid
def test_an_honest_decision_with_amounts_that_are_too_large(sample, forge):
    """More than 10^15 minor units: the ledger refuses them, so an entry with them is a finding."""
    figures = Figures(profits={"ann": 1e12, "bob": -1e12}, contributions={"ann": 1.0, "bob": 1.0})
    decision = decide_figures(figures, LENIENT)
    record = RoundRecord(round_number=ROUND, decision=decision, absent=("dan",))
    settled = RoundToSettle(record=record, rules_version=Paper.version)
    signatures = {
        name: settled.report(sample.ledger.identity, name).signed(CLIENT_KEYS[name]) for name in figures.clients
    }
    small = replace(decision, payoffs={"ann": 0.0, "bob": 0.0}, transfers={"ann": 0.0, "bob": 0.0})
    draft = draft_round(
        replace(settled, signatures=signatures, record=replace(record, decision=small)),
        sample.ledger.identity,
        sample.ledger.terms,
    )
    findings = forge("round", draft.body | {"decision": decision_document(decision)}, draft.postings)
    assert "10^15" in only(findings, "the entry has everything that its kind needs").found
