"""Every bad input, through the command: the rule, the place and the way out, exit code 2, no traceback."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.cli.conftest import COMMAND

HEADER = "client,profit,contribution\n"
GOOD = HEADER + "ann,0.1,0.5\nbob,-0.05,0.2\n"
FILES = {
    "missing column": ("client,profit\nann,0.1\n", ["no 'contribution' in", "Add it"]),
    "missing client column": ("profit,contribution\n1,2\n", ["no 'client' in", "Add it"]),
    "no profit at all": ("client,contribution\nann,1\n", ["no 'profit' in", "Add it"]),
    "utility without cost": ("client,contribution,utility\nann,1,1\n", ["no 'cost' in", "Add it"]),
    "unknown column": ("client,profit,contribution,colour\nann,1,1,red\n", ["got 'colour'", "Rename or remove it"]),
    "semicolons": ("client;profit;contribution\nann;1;1\n", ["got 'client;profit;contribution'", "by commas"]),
    "column twice": ("client,profit,profit,contribution\nann,1,1,1\n", ["got 'profit' twice", "Remove one"]),
    "duplicate client": (GOOD + "ann,0.2,0.3\n", ["once in a round", "client 'ann'", "line 4", "first in line 2"]),
    "NaN": (HEADER + "ann,nan,0.5\n", ["profit must be a finite number", "'nan'", "line 2", "client 'ann'"]),
    "infinity": (HEADER + "ann,0.1,inf\n", ["contribution must be a finite number", "'inf'", "line 2"]),
    "enormous": (HEADER + "ann,1e300,1\n", ["between 1e-50 and 1e+50", "'1e300'", "line 2"]),
    "negative cost": (
        "client,utility,cost,contribution\nann,0.1,-2.5,1\n",
        ["cost must be at least 0, got '-2.5' for client 'ann'", "line 2", "a gain belongs in utility"],
    ),
    "negative error": (
        "client,profit,profit_error,contribution\nann,0.1,-0.5,1\n",
        [
            "profit_error must be at least 0, got '-0.5' for client 'ann'",
            "line 2",
            "a standard error is never negative",
        ],
    ),
    "error of what is not given": (
        "client,profit,utility_error,contribution\nann,0.1,0.5,1\n",
        ["utility_error is the standard error of utility, got no 'utility'", "Add it, or remove utility_error"],
    ),
    "text in a number": (HEADER + "ann,0.1,much\n", ["contribution must be a number, got 'much'", "line 2"]),
    "underscore in a number": (HEADER + "ann,1_0,1\n", ["profit must be a number, got '1_0'", "line 2"]),
    "empty field": (HEADER + "ann,,1\n", ["profit must be a number, got ''", "line 2"]),
    "nameless client": (HEADER + " ,1,1\n", ["client must be a name", "line 2"]),
    "escape codes in a name": (HEADER + "\x1b[31mann,1,1\n", ["printable", "line 2", "remove U+001B"]),
    "empty file": ("", ["round.csv is empty", "a row for each client"]),
    "only blank lines": ("\n \n\n", ["round.csv is empty"]),
    "only a header": (HEADER, ["got none in", "Add a row"]),
    "profit and utility": (
        "client,profit,utility,cost,contribution\nann,1,1,1,1\n",
        ["got both profit and utility", "Remove one of them"],
    ),
    "row too short": (GOOD + "eve,0.1\n", ["each of the 3 columns, got 2", "line 4", "add the missing values"]),
    "row too long": (
        GOOD + "eve,0,1,0,2\n",
        ["each of the 3 columns, got 5", "line 4", "remove the extra values", "with a decimal point, not a comma"],
    ),
    "rounds out of order": (
        "round,client,profit,contribution\n2,ann,1,1\n1,ann,1,1\n",
        ["rounds must come in order, got round 1 after round 2", "line 3", "sort the rows"],
    ),
    "round not whole": ("round,client,profit,contribution\n1.5,ann,1,1\n", ["round must be a whole number", "'1.5'"]),
    "negative round": ("round,client,profit,contribution\n-1,ann,1,1\n", ["round must be a whole number", "'-1'"]),
    "unbalanced quote": (HEADER + 'ann,0.1,"0.5\n', ["balanced quotes", "line 2"]),
    "broken JSON": ('[{"client": "ann",', ["valid JSON", "Export it again"]),
    "JSON of another shape": ('{"client": "ann"}', ["array of objects", '"client": "ann"']),
    "JSON key twice": (
        '[{"client":"a","profit":1,"profit":-5,"contribution":1}]',
        ["once in an entry, got 'profit' twice"],
    ),
    "JSON enormous number": (
        f'[{{"client":"a","profit":{"9" * 400},"contribution":1}}]',
        ["finite number", "(400 characters)", "entry 1"],
    ),
    "JSON number of too many digits": (f'[{{"client":"a","profit":{"9" * 5000}}}]', ["at most 4,300 digits"]),
    "capital column": ("Client,profit,contribution\nann,1,1\n", ["got 'Client'", "did you mean 'client'?"]),
    "digits of another script": (HEADER + "ann,١,1\n", ["profit must be a number", "line 2"]),
    "one name in two spellings": (HEADER + "caf\u00e9,1,1\ncafe\u0301,1,1\n", ["once in a round", "first in line 2"]),
    "JSON list of numbers": ("[1, 2]", ["array of objects"]),
    "empty JSON": ("[]", ["got none in"]),
    "JSON text in a number": (
        json.dumps([{"client": "ann", "profit": "0.1", "contribution": 1}]),
        ["profit must be a number, got '0.1'", "entry 1"],
    ),
    "JSON truth in a number": (
        json.dumps([{"client": "ann", "profit": True, "contribution": 1}]),
        ["profit must be a number, got true"],
    ),
    "JSON NaN": ('[{"client": "ann", "profit": NaN, "contribution": 1}]', ["profit must be a finite number, 0", "NaN"]),
    "JSON number for a name": (
        json.dumps([{"client": 7, "profit": 1, "contribution": 1}]),
        ["client must be a name, got 7", "put it in quotes"],
    ),
    "JSON key missing": (
        json.dumps([{"client": "a", "profit": 1, "contribution": 1}, {"client": "b", "profit": 1}]),
        ["same keys, got no 'contribution'", "entry 2"],
    ),
    "JSON unknown key": (
        json.dumps([{"client": "a", "profit": 1, "contribution": 1, "mood": 1}]),
        ["A key must be one of", "got 'mood'"],
    ),
    "JSON too deep": ("[" * 100_000, ["deep nesting", "array of flat objects"]),
}


@pytest.mark.parametrize("name", FILES)
def test_a_bad_file_is_refused_with_rule_line_and_advice(name, refused, tmp_path):
    text, parts = FILES[name]
    (tmp_path / "round.csv").write_text(text)
    error = refused("decide", "round.csv", "--mu", "0.05")
    assert error.startswith("error: ")
    assert "round.csv" in error or "twice in" in error
    for part in parts:
        assert part in error, error


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n\x00\x00", b"client,profit\xff\n", b"client\x00profit\n"])
def test_a_file_that_is_not_text_is_refused(content, refused, tmp_path):
    (tmp_path / "round.csv").write_bytes(content)
    error = refused("decide", "round.csv", "--mu", "0.05")
    assert "must be text in UTF-8" in error
    assert "Export the figures as CSV or JSON" in error


OPTIONS = {
    "negative mu": (["--mu", "-0.1"], "mu must be a number >= 0 or infinity, got -0.1"),
    "mu nan": (["--mu", "nan"], "mu must be a number >= 0 or infinity, got nan"),
    "mu text": (["--mu", "lenient"], "--mu must be a number such as 0.05, got 'lenient'"),
    "no mu": ([], "needs --mu, e.g. --mu 0.05, or --mu-path"),
    "cap": (["--mu", "1", "--liability-cap", "-1"], "--liability-cap must be finite and at least 0, got -1"),
    "cap text": (["--mu", "1", "--liability-cap", "low"], "--liability-cap must be a number such as 0.05, got 'low'"),
    "grace": (["--mu", "1", "--grace-rounds", "-1"], "--grace-rounds must be at least 0, got -1"),
    "path limit": (["--mu", "1", "--path-limit", "0"], "--path-limit must be at least 1, got 0"),
    "cost rule without costs": (["--mu", "1", "--loss-rule", "cost"], "needs costs: add a column cost"),
    "unknown rule": (["--mu", "1", "--loss-rule", "luck"], "Invalid value for '--loss-rule'"),
    "pooling without errors": (
        ["--mu", "1", "--figures", "pooled"],
        "--figures pooled needs columns utility, cost and utility_error",
    ),
    "a forecast of figures": (["--mu", "1", "--figures", "forecast"], "Invalid value for '--figures'"),
    "unknown option": (["--mu", "1", "--lenient"], "No such option"),
    "picture format": (["--mu", "1", "--plot", "map.bmp"], "must end in .pdf, .png, .svg, got 'map.bmp'"),
    "picture folder": (["--mu", "1", "--plot", "nowhere/map.png"], "the folder 'nowhere' does not exist. Create it"),
    "example and file": (["--example"], "has its own figures and takes no file, got 'round.csv'"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_bad_option_is_refused(name, refused, tmp_path):
    arguments, sentence = OPTIONS[name]
    (tmp_path / "round.csv").write_text(GOOD)
    assert sentence in " ".join(refused("decide", "round.csv", *arguments).replace("│", " ").split())


def test_pooled_figures_are_not_settled(refused, tmp_path):
    (tmp_path / "round.csv").write_text("client,utility,utility_error,cost,contribution\nann,0.1,0.1,0,1\n")
    said = refused("decide", "round.csv", "--mu", "1", "--figures", "pooled", "--ledger", "ledger.db")
    assert "--ledger needs figures as measured" in said
    assert not (tmp_path / "ledger.db").exists()


def test_raw_refuses_more_than_twenty_candidates(refused, tmp_path):
    rows = "".join(f"c{i},-0.1,{i + 1}\n" for i in range(21))
    (tmp_path / "round.csv").write_text(HEADER + rows)
    error = refused("decide", "round.csv", "--mu", "1", "--contribution-rule", "raw")
    assert "at most 20 loss-making clients, got 21; use the contribution rule 'clip'" in error


def test_many_rounds_need_mu(refused, tmp_path):
    (tmp_path / "round.csv").write_text("round,client,profit,contribution\n1,a,1,1\n2,a,1,1\n")
    assert "A file of several rounds needs --mu" in refused("decide", "round.csv", "--mu-path")


@pytest.mark.parametrize("path", ["missing.csv", "."])
def test_an_unreadable_file_is_refused(path, refused):
    assert f"Cannot read {path}: " in refused("decide", path, "--mu", "1")


def test_no_file_is_refused(refused):
    assert "needs figures: name a CSV or JSON file, - for standard input, or try --example" in refused(
        "decide", "--mu", "1"
    )


def test_a_closed_input_and_a_full_disk_are_reported():
    script = f"{COMMAND} decide - --mu 1 <&-; echo $?; {COMMAND} decide --example > /dev/full; echo $?"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["2", "2"]
    assert "Standard input is closed" in done.stderr
    assert "Cannot write the output: no space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_all_errors_of_a_file_are_reported_at_once(refused, tmp_path):
    rows = "".join(f"c{i},x,1\n" for i in range(25))
    (tmp_path / "round.csv").write_text(HEADER + "ann,nan,1\n,1,1\n" + rows)
    error = refused("decide", "round.csv", "--mu", "1")
    assert "round.csv has 27 errors:" in error
    assert "... and 17 more" in error


def test_an_incomplete_path_is_not_drawn(refused, tmp_path):
    rows = "".join(f"c{i},-{0.3 * (i + 1.37):.6f},{i + 1.37}\n" for i in range(9))
    (tmp_path / "round.csv").write_text(HEADER + rows + "x,1,1\n")
    error = refused("decide", "round.csv", "--mu", "1", "--plot", "map.png", "--path-limit", "3")
    assert "needs a complete mu path, and none was complete within the limit. Raise --path-limit" in error


def test_json_needs_mu(refused, tmp_path):
    (tmp_path / "round.csv").write_text(GOOD)
    assert "--json needs --mu" in refused("decide", "round.csv", "--mu-path", "--json")
