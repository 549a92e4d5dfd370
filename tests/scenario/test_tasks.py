"""The table [task] of a scenario, and the keys that go with it."""

from __future__ import annotations

import pytest

from commonweal.errors import ScenarioError
from commonweal.scenario.toml_file import parse_scenario

START = 'name = "x"\nrounds = 2\n[mechanism]\nmu = 0.1\n'
CLIENTS = '[[clients]]\nname = "a"\n[[clients]]\nname = "b"\n'
TABLE = '[task]\ntable = "t.csv"\nsite = "hospital"\ntarget = "died"\n'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (TABLE + 'metric = "rocauc"\n', "metric must be one of .*, got 'rocauc'. Did you mean 'roc-auc'?"),
        ('[task]\nfile = "t.py"\ntable = "t.csv"\n' + CLIENTS, "a task has a file or a table, not both"),
        (
            '[task]\nfile = "t.py"\nlower_is_better = true\n' + CLIENTS,
            "only for a metric of your own, not for accuracy",
        ),
        ('[task]\nmetrik = "roc-auc"\n' + CLIENTS, "unknown key 'metrik'"),
        (TABLE + "[learning]\nbatch_size = 8\n", r"batch_size is only for images.* Move it to \[task\]"),
        (TABLE + "[data]\nlabel_skew = 0.5\n", "label_skew is only for images, and this task is a table"),
        (TABLE + '[[clients]]\nname = "a"\nsource = "mnist-5k"\n', "source is only for images"),
        (TABLE + '[[clients]]\nname = "a"\nsettings = 3\n', "settings must be a table, got 3 for client 'a'"),
        (
            TABLE + '[[clients]]\nname = "a"\ndefect = { kind = "label-noise", probability = 0.3 }\n',
            "defects of the data are only for images, .* a table, got label-noise for client 'a'",
        ),
        (
            '[task]\nfile = "t.py"\n' + CLIENTS + 'defect.kind = "label-flip"\n',
            "defects of the data are only for images, .* own file, got label-flip for client 'b'",
        ),
        (
            TABLE + 'metric = "roc-auc"\n[defaults]\nworth_curve = [[0.7, 1.0], [0.9, 0.0]]\n[[clients]]\nname = "a"\n',
            "worth_curve falls with ROC AUC, so a better model would be worth less. Reverse it",
        ),
        (
            TABLE + 'metric = "mean-absolute-error"\n[[clients]]\nname = "a"\nworth_curve = [[1, 0], [5, 1]]\n',
            "worth_curve rises with mean absolute error",
        ),
        (TABLE + "[defaults]\nworth_curve = [[0.9, 0.0], [0.7, 1.0]]\n", "each metric larger than the one before"),
    ],
)
def test_what_is_refused(text, sentence):
    with pytest.raises(ScenarioError, match=sentence):
        parse_scenario(START + text, "my.toml")


def test_sites_need_not_be_listed():
    scenario = parse_scenario(START + TABLE + "[defaults]\ncost_per_round = 0.5\n", "my.toml")
    assert scenario.clients == ()
    assert scenario.site_defaults == {"cost_per_round": 0.5}


def test_a_curve_that_fits_its_metric_is_taken():
    text = TABLE + 'metric = "mean-absolute-error"\n[[clients]]\nname = "a"\nworth_curve = [[1, 1], [5, 0]]\n'
    (client,) = parse_scenario(START + text, "my.toml").clients
    assert client.worth_curve == ((1.0, 1.0), (5.0, 0.0))
