"""What `import commonweal` offers, and what it loads."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import pytest

import commonweal


def test_the_surface_is_sorted_and_complete():
    assert commonweal.__all__ == sorted(commonweal.__all__)
    for name in commonweal.__all__:
        assert getattr(commonweal, name) is not None
    public = {name for name in vars(commonweal) if not name.startswith("_")}
    modules = {module.name for module in pkgutil.iter_modules(commonweal.__path__)}  # visible once imported
    of_python = {"AbstractContextManager", "Path", "TYPE_CHECKING", "annotations", "nullcontext"}
    assert public - (modules - set(commonweal.__all__)) - of_python == set(commonweal.__all__)


def test_importing_loads_only_numpy():
    script = (
        "import sys; import numpy; before = set(sys.modules); import commonweal; "
        "new = {m.split('.')[0] for m in set(sys.modules) - before}; "
        "print(*sorted(new - set(sys.stdlib_module_names)))"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert set(loaded) <= {"commonweal", "numpy"}


def test_figures_are_read_and_decided(tmp_path):
    file = tmp_path / "round.csv"
    file.write_text("client,profit,contribution\nann,0.2,0.5\nbob,-0.1,0.1\n")
    [(number, figures)] = commonweal.read_figures(file)
    assert (number, figures.clients) == (1, ("ann", "bob"))
    decision = commonweal.decide(profits=figures.profits, contributions=figures.contributions, mu=0.05)
    assert decision.eliminated == ("bob",)
    with pytest.raises(commonweal.StorageError, match=r"Cannot read .*missing\.csv: no such file"):
        commonweal.read_figures(tmp_path / "missing.csv")


def test_shipped_scenarios_are_loaded_by_name():
    assert commonweal.load_scenario("quickstart").name == "quickstart"
    with pytest.raises(commonweal.ScenarioError):
        commonweal.load_scenario("no-such-scenario")


def test_a_scenario_is_run(tmp_path):
    file = tmp_path / "scenario.toml"
    file.write_text(
        'name = "trial"\nrounds = 1\n[mechanism]\nmu = 0.1\n[learning]\niteration_limit = 1\n[defaults]\n'
        'source = "uci-digits"\nsamples_per_round = 20\n[[clients]]\nname = "ann"\n[[clients]]\nname = "bob"\n'
    )
    report = commonweal.run(file, worker_count=1)
    assert isinstance(report, commonweal.RunReport)
    assert report == commonweal.run(commonweal.load_scenario(file), worker_count=1)
    assert [number.number for number in report.rounds] == [1]


def test_a_ledger_is_read_and_verified(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from commonweal.cli.main import app

    monkeypatch.setenv("COMMONWEAL_KEYS", str(tmp_path / "keys"))
    location = tmp_path / "ledger.db"
    done = CliRunner().invoke(
        app, ["decide", "--example", "--ledger", str(location), "--currency", "XTS", "--worth", "1000"]
    )
    assert done.exit_code == 0, done.output
    with commonweal.open_ledger(location) as ledger:
        assert ledger.verify().findings == ()
        assert sum(ledger.balances.values()) == 0
        assert any(ledger.balances.values())
        assert [entry["number"] for entry in ledger.entries()] == list(range(1, len(list(ledger.entries())) + 1))
        assert "2 settled rounds, 3 members" in repr(ledger)
    with pytest.raises(commonweal.StorageError, match="no ledger"), commonweal.open_ledger(tmp_path / "missing.db"):
        pass
