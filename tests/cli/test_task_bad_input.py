"""Bad tasks and bad tables through `commonweal run`: one sentence, exit code 2, and nothing left behind."""

from __future__ import annotations

import pytest

TASK = """
import numpy as np
from commonweal.task import NewData, Predictions, Trained


def initial_model(plan):
    return {"w": np.zeros(2, np.float32), "b": np.zeros(1, np.float32)}


def load(round_number, member):
    random = np.random.default_rng([round_number, len(member.name)])
    x = random.normal(size=(30, 2)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int64)
    return NewData(training=(x[:20], y[:20]), validation=(x[20:], y[20:]))


def train(model, training, context):
    x, y = training
    p = 1 / (1 + np.exp(-(x @ model["w"] + model["b"])))
    w = model["w"] - (0.5 * (p - y) @ x / len(y)).astype(np.float32)
    return Trained(model={"w": w, "b": model["b"]}, step_count=1, loss=0.5)


def evaluate(model, validation, context):
    x, y = validation
    p = 1 / (1 + np.exp(-(x @ model["w"] + model["b"])))
    return Predictions(targets=y, values=p)
"""
SCENARIO = """
name = "x"
rounds = 2

[mechanism]
mu = "inf"

[learning]
iteration_limit = 1
stop_below = 0.0

[task]
file = "task.py"
metric = "roc-auc"

[[clients]]
name = "ann"

[[clients]]
name = "bobby"
"""
RETURN_TRAINED = 'return Trained(model={"w": w, "b": model["b"]}, step_count=1, loss=0.5)'
RETURN_LOADED = "return NewData(training=(x[:20], y[:20]), validation=(x[20:], y[20:]))"
RETURN_EVALUATED = "return Predictions(targets=y, values=p)"
RETURN_FIRST = 'return {"w": np.zeros(2, np.float32), "b": np.zeros(1, np.float32)}'
IN_TRAIN = "train in task.py failed for client 'ann' in round 1"
IN_EVALUATE = "evaluate in task.py failed for client 'ann' in round 1"
IN_LOAD = "load in task.py failed for client 'ann' in round 1"


def trained(code, result=RETURN_TRAINED):
    return RETURN_TRAINED, f"{code}; {result}"


TASKS = {
    "no train": (("def train(", "def drain("), ["task.py must define", "train is missing", "init --task"]),
    "syntax": (("def train(model,", "def train(model"), ["Cannot run", "task.py, line 17: SyntaxError"]),
    "a package that is missing": (("import numpy", "import numpie"), ["Cannot run", "line 2 (import numpie"]),
    "initial_model raises": ((RETURN_FIRST, 'raise OSError("no disk")'),
                             ["initial_model in task.py failed (line 7: raise", "OSError: no disk"]),
    "initial_model returns nothing": ((RETURN_FIRST, "return None"),
                                      ["initial_model must return named arrays, got NoneType", "model_of(module)"]),
    "whole numbers": (("np.zeros(2, np.float32)", "np.zeros(2, np.int64)"),
                      ["initial_model must return arrays of floats, got int64 for 'w'"]),
    "nan at the start": (("np.zeros(2, np.float32)", "np.full(2, np.nan, np.float32)"),
                         ["initial_model must return finite numbers, got infinity or nan in 'w'"]),
    "load raises": ((RETURN_LOADED, 'return {}["north.csv"]'),
                    [IN_LOAD, """(line 14: return {}["north.csv"]): KeyError: 'north.csv'"""]),
    "load returns a tuple": ((RETURN_LOADED, "return (x, y)"), ["load must return NewData", "got tuple", "ann"]),
    "lengths": ((RETURN_LOADED, RETURN_LOADED.replace("y[:20]", "y[:19]")),
                ["training data must be arrays with one row per sample, got lengths [19, 20]", "ann"]),
    "not a tuple of arrays": ((RETURN_LOADED, RETURN_LOADED.replace("(x[:20], y[:20])", "x[:20]")),
                              ["training data must be a tuple of arrays", "got ndarray", "ann"]),
    "trains on validation rows": ((RETURN_LOADED, RETURN_LOADED.replace("(x[20:], y[20:])", "(x[:5], y[:5])")),
                                  [IN_LOAD, "every validation row is a training row too"]),
    "train raises": (trained("1 / 0"), [IN_TRAIN, "(line 21: 1 / 0", "ZeroDivisionError: division by zero"]),
    "train raises later": (trained("1 / (2 - context.round_number)"),
                           ["train in task.py failed for client 'ann' in round 2", "ZeroDivisionError"]),
    "train returns a dict": ((RETURN_TRAINED, 'return {"w": w}'), ["train must return Trained", "got dict", "ann"]),
    "another shape": (trained("w = w[:1]"), ["train must return 'w' with the shape (2,), got (1,)", "ann"]),
    "another kind": (trained("w = w.astype(int)"), ["train must return arrays of floats, got int64 for 'w'", "ann"]),
    "text": (trained('w = np.array(["a", "b"])'), ["train must return arrays of floats, got <U1 for 'w'", "ann"]),
    "nan": (trained("w = w * np.nan"), ["Training diverged", "ann", "round 1", "not finite"]),
    "loss nan": ((RETURN_TRAINED, RETURN_TRAINED.replace("0.5", "np.nan")), ["Training diverged", "'ann'", "round 1"]),
    "another name": ((RETURN_TRAINED, RETURN_TRAINED.replace('"w": w', '"v": w')),
                     ["train must return the arrays that it received, 'b', 'w', got 'b', 'v'", "ann"]),
    "names that change later": (
        (RETURN_TRAINED, RETURN_TRAINED.replace('"w": w', '"w" if context.round_number == 1 else "v": w')),
        ["train must return the arrays that it received, 'b', 'w', got 'b', 'v'", "'ann'", "round 2"],
    ),
    "half a step": ((RETURN_TRAINED, RETURN_TRAINED.replace("step_count=1", "step_count=0.5")),
                    [IN_TRAIN, "step_count must be a whole number of at least 0, got 0.5"]),
    "evaluate raises": ((RETURN_EVALUATED, "raise ValueError('odd')"),
                        [IN_EVALUATE, "(line 27: raise ValueError('odd')): ValueError: odd"]),
    "too few predictions": ((RETURN_EVALUATED, "return Predictions(targets=y[1:], values=p[1:])"),
                            ["evaluate", "shape (9,) for 10 validation samples", "'ann'", "round 1"]),
    "predictions of nan": ((RETURN_EVALUATED, "return Predictions(targets=y, values=p * np.nan)"),
                           ["evaluate returned values[0] = nan", "'ann'", "round 1"]),
    "logits": ((RETURN_EVALUATED, "return Predictions(targets=y, values=p * 9)"),
               ["values[0] = 4.5. A probability must be from 0 to 1", "'ann'", "round 1"]),
    "scores for another metric": ((RETURN_EVALUATED, "return (p > 0.5) == y"),
                                  ["ROC AUC needs predictions", "Predictions(targets=", "'ann'"]),
    "nothing": ((RETURN_EVALUATED, "return None"), ["evaluate", "'ann'", "round 1"]),
}  # fmt: skip


def one_sentence(refused, tmp_path, *arguments):
    error = refused("run", *arguments, "--keys", str(tmp_path / "keys"))
    assert error.startswith("error: ")
    assert error.count("\n") == 1, error
    return error


@pytest.fixture(autouse=True)
def keys(tmp_path):
    """The operator's key is made before a run starts, and kept."""
    from commonweal.ledger.key_directory import KeyDirectory

    KeyDirectory(tmp_path / "keys").current()


@pytest.mark.usefixtures("numbers_only")
def test_the_task_itself_is_good(commonweal, tmp_path):
    (tmp_path / "task.py").write_text(TASK)
    (tmp_path / "x.toml").write_text(SCENARIO)
    done = commonweal("run", "x.toml", "--keys", "keys")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("case", [case for case in TASKS if "later" not in case])
def test_tasks(refused, tmp_path, case):
    (old, new), parts = TASKS[case]
    assert old in TASK
    (tmp_path / "task.py").write_text(TASK.replace(old, new, 1))
    (tmp_path / "x.toml").write_text(SCENARIO)
    error = one_sentence(refused, tmp_path, "x.toml")
    for part in parts:
        assert part in error, error


@pytest.mark.parametrize("case", [case for case in TASKS if "later" in case])
def test_rounds_before_a_mistake_are_kept(commonweal, tmp_path, case):
    """A mistake that only shows in the second round leaves the first one, to be resumed after it is mended."""
    (old, new), parts = TASKS[case]
    (tmp_path / "task.py").write_text(TASK.replace(old, new, 1))
    (tmp_path / "x.toml").write_text(SCENARIO)
    done = commonweal("run", "x.toml", "--keys", "keys")
    assert done.returncode == 2
    error = done.stderr[done.stderr.index("error: ") :]
    assert error.count("\n") == 1
    assert "Traceback" not in done.stderr
    for part in parts:
        assert part in error, error
    assert (tmp_path / "out" / "x" / "checkpoint.npz").exists()
    assert not (tmp_path / "out" / "x" / "report.html").exists()


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        (
            'file = "task.py"',
            'file = "tusk.py"',
            ["Cannot read the task's file", "tusk.py: no such file. In a scenario, relative paths start at its"],
        ),
        ('file = "task.py"', "file = 3", ["x.toml, line 13: file must be a path in quotes, got 3"]),
        ('metric = "roc-auc"', 'metric = "auc"', ["metric must be one of accuracy,", "got 'auc'"]),
        ('file = "task.py"', 'file = "task.py"\ntable = "a.csv"', ["a task has a file or a table, not both"]),
        ("[learning]", "[learning]\nbatch_size = 8", ["batch_size is only for images"]),
        ("[learning]", '[learning]\nalgorithm = "fedbn"', ["FedBN keeps batch normalisation", "task.py has none"]),
        ("[learning]", '[learning]\nalgorithm = "fedprox"', ["context.correct_gradients", "task.py", "'ann'"]),
        ('name = "ann"', 'name = "ann"\nsource = "mnist-5k"', ["source is only for images"]),
        ('name = "ann"', 'name = "ann"\nsettings = 3', ["settings must be a table, got 3 for client 'ann'"]),
    ],
)
def test_scenarios(refused, tmp_path, old, new, parts):
    (tmp_path / "task.py").write_text(TASK)
    (tmp_path / "x.toml").write_text(SCENARIO.replace("rounds = 2", "rounds = 1").replace(old, new))
    error = one_sentence(refused, tmp_path, "x.toml")
    for part in parts:
        assert part in error, error


def spoilt(change):
    """The patients of three hospitals, after `change(header, rows)`."""
    header = ["hospital", "age", "died"]
    rows = [[("A", "B", "C")[n % 3], str(30 + 7 * n % 50), ("no", "yes")[n // 3 % 2]] for n in range(60)]
    change(header, rows)
    return "\n".join(",".join(row) for row in [header, *rows]) + "\n"


def rename(column, to):
    def change(header, rows):
        header[header.index(column)] = to

    return change


def put(column, value, rows_changed):
    def change(header, rows):
        for row in rows[rows_changed]:
            row[header.index(column)] = value

    return change


TABLES = {
    "no site column": (rename("hospital", "clinic"), ["patients.csv has no site column 'hospital'", "'clinic'"]),
    "no target column": (rename("died", "dead"), ["patients.csv has no target column 'died'", "Did you mean 'dead'?"]),
    "text in numbers": (
        put("age", "old", slice(7, 8)),
        ["patients.csv, line 9: 'old' in column 'age' is not a number"],
    ),
    "one site only": (put("hospital", "A", slice(None)), ["1 site", "a federation needs at least two"]),
    "a target with one class": (put("died", "no", slice(None)), ["The target 'died' is 'no' in all", "Choose another"]),
    "no target at all": (put("died", "", slice(None)), ["patients.csv"]),
}


@pytest.mark.parametrize("command", ["run", "init"])
@pytest.mark.parametrize("case", TABLES)
def test_tables(refused, tmp_path, case, command):
    change, parts = TABLES[case]
    (tmp_path / "patients.csv").write_text(spoilt(change))
    (tmp_path / "x.toml").write_text(
        'name = "x"\nrounds = 1\n[mechanism]\nmu = 1.0\n[task]\ntable = "patients.csv"\nsite = "hospital"\n'
        'target = "died"\nmetric = "roc-auc"\nvalidation_share = 0.1\n'
    )
    if command == "run":
        error = one_sentence(refused, tmp_path, "x.toml")
    else:
        error = refused("init", "y.toml", "--table", "patients.csv", "--site", "hospital", "--target", "died")
        assert error.count("\n") == 1
    for part in parts:
        assert part in error, error


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--table", "nowhere.csv", "--site", "a", "--target", "b"], ["Cannot read nowhere.csv: no such file"]),
        (["--table", "patients.csv", "--site", "hospital"], ["--table needs --target too"]),
        (["--table", "patients.csv"], ["--table needs --site and --target too"]),
        (["--site", "hospital"], ["Add --table FILE"]),
        (["--table", "patients.csv", "--task", "x"], ["--task and --table cannot be combined"]),
        (["--from", "cheats", "--task", "x"], ["--from and --task cannot be combined"]),
        (["y.toml", "--task", "x"], ["--task writes a folder of its own, got the file 'y.toml' too"]),
        (["--task", "."], ["The task's folder must be new, but '.' already exists"]),
        (["x.toml", "--table", "patients.csv", "--site", "hospital", "--target", "died"], ["x.toml exists"]),
        (["y.toml", "--table", "patients.csv", "--site", "age", "--target", "age"], ["target and site are the same"]),
    ],
)
def test_init(refused, tmp_path, arguments, parts):
    (tmp_path / "patients.csv").write_text(spoilt(lambda header, rows: None))
    (tmp_path / "x.toml").write_text("mine")
    error = refused("init", *arguments)
    for part in parts:
        assert part in error, error
