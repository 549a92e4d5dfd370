"""What an operator could still do unnoticed: words that only look alike, detours, notes that nobody sees."""

from __future__ import annotations

from dataclasses import replace

import pytest

from commonweal.errors import InputError
from commonweal.ledger.amendments import Amendment
from commonweal.ledger.terms import Terms
from tests.ledger.sample_ledger import (
    CLIENT_KEYS,
    next_document,
    parsed,
    rewritten,
    sealed,
    tampering,
    verified,
)
from tests.ledger.test_terms import AGREED, GAINS, a_round, open_with, rules_found

FREE = replace(AGREED, round_count=None, grace_rounds=0, profit_bounds={}, most_samples={}, silence_charge=1001)
LIKE_A = "\u0430"  # Cyrillic


@pytest.fixture
def opened(tmp_path):
    made = []

    def make(agreed=FREE, **options):
        made.append(open_with(tmp_path, agreed, **options))
        return made[-1]

    yield make
    for each in made:
        each.store.close()


LOOK_ALIKES = {
    "utility": f"g{LIKE_A}in",
    "measure": f"qu{LIKE_A}ntity",
    "scorers": f"{LIKE_A}ll",
    "contribution_score": f"metric{LIKE_A}",
    "metric": f"{LIKE_A}ccuracy",
}


@pytest.mark.parametrize(("name", "word"), LOOK_ALIKES.items())
def test_a_word_of_the_terms_that_only_looks_like_a_known_one(opened, name, word):
    """The checks that depend on the word would be switched off."""
    with pytest.raises(InputError, match=name):
        replace(FREE, **{name: word})
    sample = opened()
    terms = sample.ledger.terms.to_document()
    forged = {**terms, "agreed": {**terms["agreed"], name: word}}
    assert rules_found(sample, next_document(sample.entries(), "terms", {"terms": forged})) == [
        "the entry has everything that its kind needs"
    ]
    opening = parsed(sample.entries()[0])
    opening["body"]["terms"] = forged
    with tampering(sample.store) as forger:
        forger.put(sealed(opening, sample.operator))
        assert "the entry has everything that its kind needs" in [found.rule for found in verified(forger).findings]


def test_a_metric_of_ones_own_is_noted(opened):
    sample = opened(replace(FREE, metric="net benefit"))
    result = verified(sample.store)
    assert not result.findings
    assert [(note.entry, note.rule) for note in result.notes] == [(1, "figures are measured by a built-in metric")]


def test_income_taken_back_until_a_round_that_was_reversed_is_settled_again(opened):
    """The further round is settled before the income is reversed, and again after that."""
    sample = opened(settlement="accruals")
    ledger = sample.ledger
    ledger.settle(a_round(ledger, 1, GAINS, FREE))
    income = ledger.realise(100_000, "invoice 1")
    second = a_round(ledger, 2, {"ann": (0.01, 0.01, None), "bob": (0.9, 0.1, None), "cyd": (0.9, 5.0, None)}, FREE)
    ledger.settle(second)
    ledger.reverse_round(2, "typo")
    taken_back = ledger.reverse(income.entry, "typo")
    ledger.settle(second)
    again = ledger.realise(100_000, "invoice 1b")
    result = verified(sample.store)
    assert not result.findings
    assert [(note.entry, note.rule, note.found) for note in result.notes] == [
        (
            taken_back.entry,
            "income is reversed before further rounds are settled",
            "round 2 settled since: if the income is divided again, it is by other payoffs",
        ),
        (again.entry, "income that is reversed is divided again before further rounds", "with round 2"),
    ]
