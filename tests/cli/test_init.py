"""`commonweal init`: what it writes can be read, and nothing is lost."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from commonweal.cli.init import init_command
from commonweal.scenario.shipped import load, shipped_names, shipped_text
from commonweal.scenario.toml_file import read_scenario


def test_the_first_scenario(commonweal, tmp_path):
    done = commonweal("init")
    assert done.returncode == 0, done.stderr
    assert read_scenario(tmp_path / "scenario.toml") == replace(load("quickstart"), name="scenario")
    assert done.stdout.splitlines() == [
        "Wrote scenario.toml, a copy of quickstart: 5 clients, 8 rounds.",
        "Edit it, then run:",
        "  commonweal run scenario.toml",
    ]
    assert not done.stderr


@pytest.mark.parametrize("template", shipped_names())
def test_every_template_is_copied_except_for_its_name(template, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    init_command("mine.toml", template=template)
    assert "commonweal run mine.toml" in capsys.readouterr().out
    written = (tmp_path / "mine.toml").read_text()
    assert written == shipped_text(template).replace(f'name = "{template}"', 'name = "mine"')
    assert read_scenario(tmp_path / "mine.toml") == replace(load(template), name="mine")


@pytest.mark.parametrize(
    "name", ["two words", "it's", 'a "quoted" one', "back\\slash", "ünï", "日本", "#[x]=1", "$HOME"]
)
def test_names_that_need_care(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    init_command(f"{name}.toml")
    assert read_scenario(tmp_path / f"{name}.toml").name == name


def test_the_next_command_can_be_typed(commonweal):
    assert "\n  commonweal run 'two words.toml'\n" in commonweal("init", "two words.toml").stdout


def test_a_file_is_overwritten_only_with_force(commonweal, refused, tmp_path):
    (tmp_path / "scenario.toml").write_text("mine")
    assert "scenario.toml exists. Choose another name, or overwrite it with --force." in refused("init")
    assert (tmp_path / "scenario.toml").read_text() == "mine"
    assert commonweal("init", "--force").returncode == 0
    assert read_scenario(tmp_path / "scenario.toml").name == "scenario"


def test_the_list(commonweal, tmp_path):
    done = commonweal("init", "--list")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(shipped_names())
    for name, line in zip(shipped_names(), lines, strict=True):
        assert line.endswith(load(name).description)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["x.toml", "--from", "quikstart"], ["There is no shipped scenario 'quikstart'. Did you mean 'quickstart'?"]),
        (["mine"], ["FILE must end in .toml, got 'mine'. Write 'mine.toml'."]),
        (["label-noise"], ["Write 'label-noise.toml', or use --from label-noise to start from that scenario."]),
        ([""], ["FILE must end in .toml"]),
        (["none/x.toml"], ["Cannot write the file to 'none/x.toml': no such file or directory", "folder that exists"]),
        (["x.toml", "--list"], ["--list writes no file, got 'x.toml'."]),
        ([f"{'x' * 61}.toml"], ["name must be 1 to 60 printable characters"]),
        (["a\tb.toml"], ["name must be 1 to 60 printable characters"]),
    ],
)  # fmt: skip
def test_refusals(refused, arguments, parts):
    error = refused("init", *arguments)
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    for part in parts:
        assert part in error


def test_a_folder_in_the_way(refused, tmp_path):
    (tmp_path / "x.toml").mkdir()
    assert "Choose another name" in refused("init", "x.toml")
    assert "is a directory" in refused("init", "x.toml", "--force")


@pytest.mark.usefixtures("undrawn")
def test_a_task_of_ones_own_runs_at_once(commonweal, tmp_path):
    done = commonweal("init", "--task", "my task")
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "my task"
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*.*")) == [
        "data/east.csv", "data/north.csv", "data/south.csv", "data/west.csv", "scenario.toml", "task.py",
    ]  # fmt: skip
    lines = done.stdout.splitlines()
    assert "  commonweal run 'my task/scenario.toml'" in lines
    assert lines[-2:] == [
        "  commonweal flower new rehearsal --scenario 'my task/scenario.toml'",
        "  commonweal flower rehearse rehearsal",
    ]
    scenario = read_scenario(folder / "scenario.toml")
    assert (scenario.name, scenario.mechanism.utility, scenario.task.metric_name) == ("my task", "advantage", "roc-auc")
    done = commonweal("run", "my task/scenario.toml", "--keys", "keys", "--rounds", "2")
    assert done.returncode == 0, done.stderr
    assert "report: out/my-task/report.html" in done.stdout


@pytest.mark.usefixtures("numbers_only")
@pytest.mark.parametrize("algorithm", ["fedprox", "scaffold", "fedamp"])
def test_the_task_works_with_every_algorithm(commonweal, tmp_path, algorithm):
    """FedBN needs batch normalisation, which the starter's network does not have."""
    commonweal("init", "--task", "mine")
    file = tmp_path / "mine" / "scenario.toml"
    file.write_text(file.read_text().replace('algorithm = "fedavg" ', f'algorithm = "{algorithm}" '))
    done = commonweal("run", "mine/scenario.toml", "--keys", "keys", "--rounds", "1")
    assert done.returncode == 0, done.stderr
    history = json.loads((tmp_path / "out" / "mine" / "history.json").read_text())
    assert history["scenario"]["learning"]["algorithm"] == algorithm


PATIENTS = "id,hospital,age,ward,died\n" + "".join(
    f"p{number},{'ABC'[number % 3]},{20 + number * 7 % 60},{'xyz'[number // 3 % 3]},{number * 5 % 7 % 2}\n"
    for number in range(90)
)


def test_from_a_csv_to_a_report_in_two_commands(commonweal, tmp_path):
    (tmp_path / "hospitals").mkdir()
    (tmp_path / "hospitals" / "patients.csv").write_text(PATIENTS)
    done = commonweal(
        "init", "mine.toml", "--table", "hospitals/patients.csv", "--site", "hospital", "--target", "died"
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith(
        "hospitals/patients.csv has 3 sites with 90 rows in all, the fewest (30) at 'A'. Target: 'died', 2 classes: 0"
    )
    assert "note: Column 'id' looks like a name or an identifier, so it is in ignore." in done.stdout
    assert "  commonweal run mine.toml" in lines
    scenario = read_scenario(tmp_path / "mine.toml")
    assert dict(scenario.task.settings) == {
        "table": "hospitals/patients.csv", "site": "hospital", "target": "died", "ignore": ["id"],
    }  # fmt: skip
    assert (scenario.task.metric_name, scenario.mechanism.measure) == ("roc-auc", "shapley")
    done = commonweal("run", "mine.toml", "--keys", "keys", "--rounds", "1")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "mine" / "report.html").exists()


@pytest.mark.usefixtures("numbers_only")
def test_a_scenario_for_numbers_and_many_sites(commonweal, tmp_path):
    rows = "".join(f"{n % 10},{n * 7 % 13},{n * 11 % 101 / 3}\n" for n in range(200))
    (tmp_path / "stays.csv").write_text(f"centre,age,days\n{rows}")
    done = commonweal("init", "stays.toml", "--table", "stays.csv", "--site", "centre", "--target", "days")
    assert done.returncode == 0, done.stderr
    scenario = read_scenario(tmp_path / "stays.toml")
    assert (scenario.task.metric_name, scenario.mechanism.measure) == ("r2", "adaptive")
    assert commonweal("run", "stays.toml", "--keys", "keys", "--rounds", "1").returncode == 0


def test_names_in_a_table_may_hold_anything(commonweal, tmp_path):
    """A line break in the name of a site must not end the comment that names it."""
    rows = "".join(f'"{"no" if n % 3 else "a"}\n[x]",{n * 7 % 13},{n % 2}\n' for n in range(60))
    (tmp_path / "odd.csv").write_text(f'"sit""e\n",age,died\n{rows}')
    done = commonweal("init", "odd.toml", "--table", "odd.csv", "--site", 'sit"e', "--target", "died")
    assert done.returncode == 0, done.stderr
    assert read_scenario(tmp_path / "odd.toml").task.settings["site"] == 'sit"e'
