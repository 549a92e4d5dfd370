"""From idx files of one's own to a report: 26 classes, images of 20×12 pixels."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

from tests.data.small import idx, pictures, write_mnist

SCENARIO = """
name = "letters"
rounds = 1
[mechanism]
mu = 0.05
[learning]
iteration_limit = 2
[data]
label_skew = 0.5
[defaults]
source = "letters"
samples_per_round = 200
[[clients]]
name = "north"
[[clients]]
name = "south"
defect = { kind = "label-noise", probability = 0.3 }
"""


def write_letters(folder, *, count=1300, class_count=26):
    """Each image is the pattern of its class with a little noise, so that one round is enough to learn something."""
    random = np.random.default_rng(1)
    labels = np.arange(count) % class_count
    images = (
        3 * pictures(class_count, (20, 12), 1)[labels].astype(int) + random.integers(0, 256, (count, 20, 12))
    ) // 4
    (folder / "images.gz").write_bytes(gzip.compress(idx(images)))
    (folder / "labels.gz").write_bytes(gzip.compress(idx(labels)))


@pytest.fixture
def letters(commonweal, tmp_path):
    write_letters(tmp_path)
    imported = commonweal("data", "import", "letters", "labels.gz", "images.gz", "--data", "store")
    assert imported.returncode == 0, imported.stderr
    assert "26 classes; grey images of 20×12 pixels" in imported.stdout
    (tmp_path / "letters.toml").write_text(SCENARIO)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("model", ["compact", "fedbn-digits"])
def test_a_federation_learns_twenty_six_classes(commonweal, letters, tmp_path, model):
    text = SCENARIO.replace("[learning]", f'[learning]\nmodel = "{model}"\nlearning_rate = 0.05')
    (tmp_path / "letters.toml").write_text(text)
    done = commonweal("run", "letters.toml", "--data", "store", "--out", "out")
    assert done.returncode == 0, done.stderr
    (held,) = json.loads((tmp_path / "out/history.json").read_text())["rounds"]
    accuracies = {client["client"]: client["accuracy"]["value"] for client in held["clients"]}
    assert accuracies.keys() == {"north", "south"}
    assert accuracies["north"] > 5 / 26, "five times as good as guessing"
    assert (tmp_path / "out/report.html").exists()


@pytest.mark.usefixtures("numbers_only")
def test_a_run_is_not_resumed_with_another_number_of_classes(commonweal, letters):
    assert commonweal("run", "letters.toml", "--data", "store", "--out", "out").returncode == 0
    files = ["labels.gz", "images.gz"]
    assert commonweal("data", "import", "letters", *files, "--classes", "30", "--data", "store").returncode == 0
    done = commonweal("run", "letters.toml", "--data", "store", "--out", "out", "--resume")
    assert done.returncode == 2
    assert "was written for different data: the scenario is the same" in done.stderr


@pytest.mark.usefixtures("numbers_only")
def test_sources_of_different_sizes_are_refused_with_the_way_out(commonweal, letters, refused, tmp_path):
    files = write_mnist(tmp_path, pictures(800, 28, 1), np.arange(800) % 10)
    assert commonweal("data", "import", "fashion-mnist", *files, "--data", "store").returncode == 0
    (tmp_path / "both.toml").write_text(SCENARIO.replace('name = "north"', 'name = "north"\nsource = "fashion-mnist"'))
    error = refused("run", "both.toml", "--data", "store")
    assert "'fashion-mnist' has 28×28 and 'letters' 20×12 pixels. Import your own images again with the size" in error
    again = commonweal("data", "import", "fashion-mnist", *files, "--size", "20x12", "--data", "store")
    assert again.returncode == 0, again.stderr
    done = commonweal("run", "both.toml", "--data", "store", "--out", "out")
    assert done.returncode == 0, done.stderr
