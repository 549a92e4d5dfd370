"""`commonweal advise`: the table, the sentence, JSON, and what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.simulation.test_own_task import NAMES, write

DATA = os.environ.get("COMMONWEAL_DATA")


def test_a_table_a_sentence_and_json(commonweal, tmp_path):
    file = write(tmp_path)
    done = commonweal("advise", file, "--splits", 4, "--workers", 1)
    assert done.returncode == 0, done.stderr
    for name in NAMES:
        assert name in done.stdout
    assert "ROC AUC alone" in done.stdout
    *_, sentence = done.stdout.strip().splitlines()
    assert sentence.startswith(("Federate: ", "Do not federate: ", "Undecided: "))
    document = json.loads(commonweal("advise", file, "--splits", 4, "--json", "--workers", 1).stdout)
    assert document["sentence"] == sentence
    assert document["metric"]["label"] == "ROC AUC"
    assert len(document["splits"]) == 4 * len(NAMES)
    assert not list(tmp_path.glob("out*")), "nothing is written"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--splits", 1], "--splits must be from 3 to 10000, got 1."),
        (["--workers", 0], "--workers must be at least 1, got 0."),
        (["--rounds", 0], "rounds must be a whole number from 1"),
    ],
)
def test_what_is_refused(commonweal, tmp_path, options, sentence):
    done = commonweal("advise", write(tmp_path), *options)
    assert done.returncode == 2
    assert sentence in done.stderr


def test_a_missing_package_is_named(commonweal, tmp_path, monkeypatch):
    """The shipped table comes with statsmodels."""
    monkeypatch.setattr("commonweal.tables.packaged.find_spec", lambda name: None)
    done = commonweal("advise", "health-insurance")
    assert done.returncode == 2
    assert "pip install statsmodels" in done.stderr


@pytest.mark.soak
@pytest.mark.skipif(DATA is None or not (Path(DATA) / "tables").is_dir(), reason="COMMONWEAL_DATA has no folder tables")
def test_the_sites_of_the_insurance_experiment_are_advised_not_to_federate(commonweal, tmp_path):
    (tmp_path / "insurance.toml").write_text(
        'name = "insurance"\nrounds = 3\n[mechanism]\nmu = 0.01\n[task]\n'
        f'table = "{DATA}/tables/randhie.csv"\nsite = "site"\ntarget = "binexp"\nignore = ["meddol"]\n'
        'metric = "roc-auc"\n'
    )
    done = commonweal("advise", "insurance.toml", "--splits", 4, "--workers", 1)
    assert "Do not federate: pooling does not help" in done.stdout
