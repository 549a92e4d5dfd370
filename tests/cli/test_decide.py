"""`commonweal decide` as a user meets it."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from statsmodels.stats.meta_analysis import combine_effects

from tests.cli.conftest import COMMAND

EXAMPLE = """round,client,utility,cost,contribution
1,C1,0.2,0.1,0.4
1,C2,0.15,0.1,0.2
1,C3,0.3,0.05,0.4
2,C1,0.1,0.15,0.5
2,C2,0.1,0.15,0.1
2,C3,0.3,0.15,0.4
"""
ROUND = "client,profit,contribution\nC1,-0.05,0.5\nC2,-0.05,0.1\nC3,0.15,0.4\n"


@pytest.fixture
def decided(commonweal):
    def run(*arguments, stdin=None):
        done = commonweal("decide", *arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done

    return run


def document(done):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(done.stdout, parse_constant=refuse)


def test_the_example_shows_the_decision_and_why(decided):
    text = decided("--example").stdout
    assert "2,C2,0.1,0.15,0.1" in text
    assert "Round 2 at mu = 0.05" in text
    row = next(line for line in text.splitlines() if line.strip().startswith("C2") and "eliminated" in line)
    assert ">= 0.45" in row
    assert "C2 contributed 0.1 (10 % of the total) and lost 0.05. It is eliminated: eliminating it gains 0.04" in text
    assert "TSW +0.5, TSFI 0.9500 (with the final set in all rounds 0.8500)" in text


def test_the_example_is_the_file_it_shows(decided, tmp_path):
    (tmp_path / "rounds.csv").write_text(EXAMPLE)
    assert document(decided("--example", "--json")) == document(decided("rounds.csv", "--mu", "0.05", "--json"))


POOLABLE = """client,utility,cost,utility_error,contribution
north,0.040,0.020,0.02,120
south,0.010,0.024,0.02,90
east,0.002,0.030,0.03,15
west,0.060,0.020,0.02,100
"""


def test_pooled_utilities_decide_and_stand_beside_the_measured_ones(decided):
    pooled = document(decided("-", "--mu", "0.05", "--figures", "pooled", "--json", stdin=POOLABLE))
    measured = document(decided("-", "--mu", "0.05", "--json", stdin=POOLABLE))
    rows = list(zip(pooled["rounds"][0]["clients"], measured["rounds"][0]["clients"], strict=True))
    assert [one["measured_profit"] for one, _ in rows] == [other["profit"] for _, other in rows]
    assert [other["measured_profit"] for _, other in rows] == [None] * 4
    effects = combine_effects(np.array([0.04, 0.01, 0.002, 0.06]), np.array([0.02, 0.02, 0.03, 0.02]) ** 2, "iterated")
    between = max(effects.tau2, 0)
    for (one, other), variance in zip(rows, [4e-4, 4e-4, 9e-4, 4e-4], strict=True):
        utility = other["profit"] + other["cost"]
        shrunk = effects.mean_effect_re + between / (between + variance) * (utility - effects.mean_effect_re)
        assert one["profit"] == pytest.approx(shrunk - other["cost"], abs=1e-6)
    assert sum(one["transfer"] or 0 for one, _ in rows) == pytest.approx(0, abs=1e-12)
    text = decided("-", "--mu", "0.05", "--figures", "pooled", stdin=POOLABLE).stdout
    assert "measured" in text


def test_json_is_complete(decided):
    found = document(decided("-", "--mu", "0.05", "--mu-path", "--json", stdin=ROUND))
    assert found["schema"] == "commonweal.decide/1"
    assert found["rules"] == {
        "mu": 0.05,
        "contribution_rule": "clip",
        "loss_rule": "contribution",
        "liability_cap": None,
        "version": 2,
        "grace_rounds": 0,
    }
    (round_,) = found["rounds"]
    assert round_["retained"] == ["C1", "C3"]
    assert round_["eliminated"] == ["C2"]
    assert round_["objective"] == pytest.approx(0.1 - 0.05 / 9)
    assert round_["breakpoints"] == pytest.approx([0.036, 0.45])
    assert round_["individual_rationality"] == {"held": True, "violations": {}}
    assert round_["proven_gap"] == 0
    assert [piece["retained"] for piece in round_["mu_path"]] == [["C3"], ["C1", "C3"], ["C1", "C2", "C3"]]
    assert round_["mu_path"][-1]["upper"] == "inf"
    c2 = round_["clients"][1]
    assert c2["client"] == "C2"
    assert (c2["retained"], c2["candidate"]) == (False, True)
    assert (c2["payoff"], c2["transfer"], c2["share"]) == (None, None, None)
    assert c2["stays_for_mu"] == [
        {"lower": pytest.approx(0.45), "upper": "inf", "includes_lower": True, "includes_upper": True}
    ]
    assert c2["runner_up"]["gain"] == pytest.approx(0.1 - 0.05 / 9 - 0.05)
    assert found["totals"]["durations"] == {"C1": 1, "C2": 1, "C3": 1}
    assert sum(client["transfer"] or 0 for client in round_["clients"]) == pytest.approx(0, abs=1e-15)


def test_json_input_gives_what_csv_gives(decided, tmp_path):
    rows = [dict(zip(("client", "profit", "contribution"), line.split(","), strict=True)) for line in ROUND.split()[1:]]
    rows = [
        {"client": r["client"], "profit": float(r["profit"]), "contribution": float(r["contribution"])} for r in rows
    ]
    (tmp_path / "round.json").write_text(json.dumps(rows))
    from_json = document(decided("round.json", "--mu", "0.05", "--json"))
    assert from_json == document(decided("-", "--mu", "0.05", "--json", stdin=ROUND))


def test_a_byte_order_mark_blank_lines_quotes_and_spaces_are_fine(decided, tmp_path):
    text = '\ufeffclient, profit ,contribution\r\n\r\n"C1", -0.05 ,0.5\r\nC2,-0.05,0.1\r\n"C3",0.15,0.4\r\n'
    (tmp_path / "round.csv").write_text(text, encoding="utf-8", newline="")
    assert document(decided("round.csv", "--mu", "0.05", "--json"))["rounds"][0]["retained"] == ["C1", "C3"]


def test_many_rounds_in_order_with_notes(decided, tmp_path):
    (tmp_path / "rounds.csv").write_text(EXAMPLE + "3,C1,0.2,0.1,0.4\n3,C2,0.3,0.1,0.4\n4,C1,1,0,1\n4,C3,1,0,1\n")
    done = decided("rounds.csv", "--mu", "0.05")
    assert "note: ignored 1 later row of eliminated clients: C2" in done.stdout
    assert "absent (no figures, no transfer, may return): round 3: C3" in done.stdout
    found = document(decided("rounds.csv", "--mu", "0.05", "--json"))
    assert found["ignored"] == [{"round": 3, "clients": ["C2"]}]
    assert [round_["round"] for round_ in found["rounds"]] == [1, 2, 3, 4]
    assert found["totals"]["durations"] == {"C1": 4, "C2": 2, "C3": 3}
    assert found["totals"]["tsw"] == pytest.approx([0.4, 0.5, 0.6, 2.6])


def test_the_federation_ends_when_one_client_is_left(decided):
    rows = "".join(f"{t},a,-1,0\n{t},b,1,1\n" for t in (1, 2, 3))
    done = decided("-", "--mu", "1", stdin="round,client,profit,contribution\n" + rows)
    assert "ended after round 1 with fewer than two clients; 2 later rounds ignored" in done.stdout


def test_a_utility_equal_to_its_cost_is_no_loss(decided):
    """0.1 + 0.2 − 0.3 is 5.6e-17 in floats, and 0.3 − 0.1 − 0.2 is negative: neither is a loss."""
    rows = "client,utility,cost,contribution\na,0.3,0.30000000000000004,0\nb,1,0.5,1\n"
    found = document(decided("-", "--mu", "0", "--json", stdin=rows))
    assert found["rounds"][0]["clients"][0]["profit"] == 0
    assert found["rounds"][0]["retained"] == ["a", "b"]


def test_a_failure_of_rationality_causes_a_warning(decided):
    done = decided("-", "--mu", "inf", stdin="client,profit,contribution\na,0.1,3\nb,-0.5,1\n")
    said = "warning: individual rationality fails in round 1: after transfers, these clients lose: a 0.3, b 0.1"
    assert said in done.stdout


def test_loss_rule_cap_and_grace_reach_the_mechanism(decided):
    rows = "client,profit,cost,contribution\na,0.1,1,3\nb,-0.5,4,1\n"
    by_cost = document(decided("-", "--mu", "inf", "--loss-rule", "cost", "--json", stdin=rows))
    assert [c["payoff"] for c in by_cost["rounds"][0]["clients"]] == pytest.approx([-0.08, -0.32])
    capped = document(decided("-", "--mu", "inf", "--liability-cap", "0.05", "--json", stdin=rows))
    assert [c["transfer"] for c in capped["rounds"][0]["clients"]] == pytest.approx([-0.05, 0.05])
    spared = document(decided("-", "--mu", "0", "--grace-rounds", "1", "--json", stdin=rows))
    assert spared["rounds"][0]["retained"] == ["a", "b"]
    assert spared["rounds"][0]["grace"]


def test_raw_shares_outside_zero_to_one_cause_a_warning(decided):
    done = decided("-", "--mu", "1", "--contribution-rule", "raw", stdin="client,profit,contribution\na,1,2\nb,1,-1\n")
    assert "raw contributions give shares outside 0..1 in round 1: a 2, b -1" in done.stdout


def test_the_map_is_drawn(decided, tmp_path):
    for name, start in (("map.png", b"\x89PNG"), ("map.svg", b"<?xml"), ("map.pdf", b"%PDF")):
        done = decided("--example", "--plot", name)
        assert (tmp_path / name).read_bytes().startswith(start)
        assert f"decision map: {name}" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["map.pdf", "map.png", "map.svg"]


def test_mu_path_without_mu_shows_every_mu(decided):
    text = decided("-", "--mu-path", stdin=ROUND).stdout
    for piece in ("[0, 0.036)", "[0.036, 0.45)", ">= 0.45"):
        assert piece in text
    assert "payoff" not in text


def test_a_grace_round_has_no_ranges(decided):
    found = document(decided("-", "--mu", "0", "--grace-rounds", "1", "--mu-path", "--json", stdin=ROUND))
    (round_,) = found["rounds"]
    assert (round_["breakpoints"], round_["mu_path"]) == (None, None)
    assert all(client["stays_for_mu"] is None for client in round_["clients"])


def test_what_is_shown_of_a_breakpoint_is_true_of_the_decision_there(decided):
    """0.036 lies a hair below the exact breakpoint of these doubles; the sets tie within rounding, so C1 stays."""
    text = decided("-", "--mu", "0.036", stdin=ROUND).stdout
    row = next(line for line in text.splitlines() if line.strip().startswith("C1"))
    assert "retained" in row
    assert ">= 0.036" in row
    found = document(decided("-", "--mu", "0.036", "--json", stdin=ROUND))
    (range_,) = found["rounds"][0]["clients"][0]["stays_for_mu"]
    assert range_["lower"] <= 0.036 if range_["includes_lower"] else range_["lower"] < 0.036


@pytest.mark.slow
def test_an_unproven_hard_file_does_not_take_minutes(decided):
    rows = "".join(f"{t},c{i},{-2e-4 * (90 + 7 * i % 31)},{90 + 7 * i % 31}\n" for t in range(1, 9) for i in range(38))
    text = decided("-", "--mu", "inf", stdin="round,client,profit,contribution\n" + rows).stdout
    assert "the mu path stopped after 200 breakpoints" in text


def test_no_figure_is_cut_on_a_narrow_terminal(tmp_path):
    import os
    import pty

    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(COLUMNS="40", TERM="xterm")
        os.execv(str(COMMAND), [str(COMMAND), "decide", "--example"])
    shown = b""
    try:
        while chunk := os.read(terminal, 65536):
            shown += chunk
    except OSError:
        pass
    os.waitpid(pid, 0)
    text = shown.decode()
    assert "+0.0555556" in text
    assert "+0.105556" in text
    rows = [line for line in text.splitlines() if line.startswith(" C")]
    assert rows
    assert not any("…" in row for row in rows)


def test_every_eliminated_client_gets_a_sentence(decided):
    """Also where ranges are not made unasked: many loss-makers, or paths too long."""
    rows = "".join(f"c{i},{-0.5 - i / 1000},{(i * 37 % 11 + 1) / 100}\n" for i in range(60)) + "x,1,1\n"
    text = decided("-", "--mu", "1", stdin="client,profit,contribution\n" + rows).stdout
    sentences = [line for line in text.splitlines() if "is eliminated: eliminating it gains" in line]
    eliminated = [line for line in text.splitlines() if " eliminated " in line and "gains" not in line]
    assert len(sentences) == 40 <= len(eliminated)
    assert "... 20 more eliminated" in text


def test_names_with_markup_are_shown_as_they_are(decided):
    text = decided(
        "-", "--mu", "1", stdin="client,profit,contribution\n[red]x[/red],1,1\nβ-клиника,1,1\n:bank:,1,1\n"
    ).stdout
    assert "[red]x[/red]" in text
    assert ":bank:" in text
    assert "β-клиника" in text


def test_a_hundred_thousand_clients(decided, tmp_path):
    rows = "".join(f"c{i},{(i * 7919 % 1000 - 600) / 1000},{(i * 104729 % 997 + 1) / 997}\n" for i in range(100_000))
    (tmp_path / "round.csv").write_text("client,profit,contribution\n" + rows)
    text = decided("round.csv", "--mu", "100").stdout
    assert "of 100,000 clients retained" in text
    assert "... and 99,960 more clients: see --json" in text


def test_version_and_help(commonweal):
    assert commonweal("--version").stdout.startswith("commonweal 0.")
    text = commonweal("decide", "--help").stdout
    for option in ("--mu", "--mu-path", "--contribution-rule", "--loss-rule", "--liability-cap", "--grace-rounds",
                   "--json", "--plot", "--example", "--path-limit"):  # fmt: skip
        assert option in text
    assert "standard input" in text


def test_with_standard_errors_every_fate_has_a_stability(decided):
    rows = "client,utility,cost,contribution,utility_error,contribution_error\na,1,0,1,0.1,0.1\nb,0,0.05,0,0.05,0.1\n"
    text = decided("-", "--mu", "0", stdin=rows).stdout
    assert "stability" in text
    told = re.search(
        r"b contributed 0\.00 ± 0\.10 \(0 % of the total\), which cannot be told from nothing, and lost 0\.05 ± 0\.05; "
        r"in (\d+) of 100 draws",
        text,
    )
    found = document(decided("-", "--mu", "0", "--json", stdin=rows))["rounds"][0]
    assert found["draw_count"] == 100
    a, b = found["clients"]
    assert (a["stability"], b["stability"]) == (1.0, 1 - int(told[1]) / 100)
    assert b["stability"] == pytest.approx(0.84, abs=0.15)  # a normal profit of one standard error below zero
    assert b["sentence"] in text
    plain = document(decided("-", "--mu", "0", "--json", stdin="client,profit,contribution\na,1,1\nb,-1,0\n"))
    assert plain["rounds"][0]["draw_count"] is None
    assert [one["stability"] for one in plain["rounds"][0]["clients"]] == [None, None]
