"""A source is one file and one line of the catalogue, as CONTRIBUTING says."""

from __future__ import annotations

from tests.extended_copy import ExtendedCopy

STRIPES = '''
import numpy as np

from commonweal.data.source_types import BuiltInSource


def stripes():
    """Of class k, images whose first k rows are white."""
    labels = np.arange(400) % 10
    rows = np.arange(28)[None, :, None, None] < labels[:, None, None, None]
    return np.broadcast_to(rows, (400, 28, 28, 1)).astype(np.uint8) * 255, labels


STRIPES = BuiltInSource(
    name="stripes", make=stripes, sample_count=400, image_shape=(28, 28, 1), note="stripes to count", licence="CC0"
)
'''
SCENARIO = """
name = "trial"
rounds = 2
[mechanism]
mu = 0.1
[defaults]
source = "stripes"
samples_per_round = 40
[[clients]]
name = "a"
[[clients]]
name = "b"
"""
PROGRAM = """
import sys
from commonweal.cli.main import main
from commonweal.data.federated_dataset import FederatedDataset
from commonweal.scenario.toml_file import parse_scenario
dataset = FederatedDataset.for_scenario(parse_scenario(open("trial.toml").read(), "trial.toml"), None)
samples = dataset.samples_for("a", 1)
print((samples.training_images[:, :, 0, 0] > 0).sum(1).tolist() == samples.training_labels.tolist())
sys.argv = ["commonweal", "data", "list"]
main()
"""


def test_a_source_is_one_file_and_one_line(tmp_path):
    copy = ExtendedCopy(tmp_path)
    copy.add_file("data/stripes.py", STRIPES)
    copy.add_line("data/catalogue.py", '    "stripes:STRIPES",', above='"originals.mnist:MNIST"')
    assert (len(copy.new_files), copy.new_lines) == (1, {"data/catalogue.py": 1})
    (tmp_path / "trial.toml").write_text(SCENARIO)
    first, *listed = copy.python("-c", PROGRAM).splitlines()
    assert first == "True", "clients receive the new images with their labels"
    (row,) = [line.split() for line in listed if line.split()[:1] == ["stripes"]]
    assert row[1:5] == ["built-in", "present", "400", "28×28×1"]
