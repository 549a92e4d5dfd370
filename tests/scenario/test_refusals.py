"""What is wrong is refused with the file, the line and a way out."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.errors import CommonwealError, ScenarioError, StorageError
from commonweal.scenario.shipped import shipped_names, shipped_text
from commonweal.scenario.toml_file import SIZE_LIMIT, parse_scenario, read_scenario
from tests.scenario.small import DEFAULTS, MECHANISM, SMALL, TOP, client, clients, in_table, top


def refusal(text):
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text, "my.toml")
    return str(caught.value)


# Each text has one error, on the line that ends in #! (or on none), and what the message must contain.
REFUSALS = {
    # whole numbers
    "rounds zero": (
        SMALL.replace("rounds = 8", "rounds = 0 #!"),
        "rounds must be a whole number from 1 to 10000, got 0",
    ),
    "rounds many": (SMALL.replace("= 8", "= 10001 #!"), "from 1 to 10000, got 10001"),
    "rounds 3.0": (SMALL.replace("= 8", "= 3.0 #!"), "rounds must be a whole number", "got 3.0", "Write e.g. 8."),
    "rounds true": (SMALL.replace("= 8", "= true #!"), "rounds must be a whole number", "got true"),
    "rounds text": (SMALL.replace("= 8", '= "8" #!'), "got '8'"),
    "rounds enormous": (SMALL.replace("= 8", f"= {'9' * 400} #!"), "(400 characters)"),
    "rounds missing": (
        SMALL.replace("rounds = 8\n", ""),
        "my.toml: rounds is missing. Add e.g. rounds = 8.",
    ),
    "seed negative": (top("seed = -1 #!"), "seed must be a whole number from 0 to 9223372036854775807, got -1"),
    "seed too large": (top(f"seed = {2**63} #!"), "seed must be a whole number"),
    "grace": (in_table("mechanism", "grace_rounds = -1 #!"), "grace_rounds must be a whole number from 0"),
    "batch of two": (in_table("learning", "batch_size = 2 #!"), "batch_size must be a whole number from 3"),
    "no iteration": (in_table("learning", "iteration_limit = 0 #!"), "iteration_limit must be a whole number from 1"),
    "no epoch": (in_table("learning", "local_epochs = 0 #!"), "local_epochs must be a whole number from 1"),
    "figures that pool what is not a gain": (
        in_table("mechanism", 'utility = "advantage"\nfigures = "pooled" #!'),
        'figures = "pooled" pools gains over the last round',
        'Write figures = "measured", or remove utility = "advantage".',
    ),
    "harm that too few could see": (
        in_table("mechanism", 'contribution = "path"\nharm = "advise" #!'),
        'harm = "advise" needs at least 4 clients, got 2',
        "Remove harm.",
    ),
    "unknown figures": (
        in_table("mechanism", 'figures = "guessed" #!'),
        "figures must be one of measured, paired, pooled, forecast",
    ),
    # names and texts
    "name missing": (
        SMALL.replace('name = "trial"\n', ""),
        "my.toml: name is missing",
        'Add e.g. name = "my-federation".',
    ),
    "name empty": (
        SMALL.replace('"trial"', '"  " #!'),
        "name must be 1 to 60 printable characters in quotes, got '  '",
    ),
    "name long": (SMALL.replace('"trial"', f'"{"x" * 61}" #!'), "1 to 60 printable"),
    "name with an escape code": (SMALL.replace('"trial"', '"\\u001b[31m" #!'), "printable", r"got '\x1b[31m'"),
    "name a number": (SMALL.replace('"trial"', "7 #!"), "printable characters in quotes, got 7"),
    "description odd": (top('description = "\\u202e" #!'), "description must be at most 1000 printable"),
    "client nameless": (
        TOP + MECHANISM + DEFAULTS + "[[clients]] #!\n[[clients]]\nname = 's'\n",
        "for client number 1",
    ),
    "client's name invisible": (SMALL.replace('"north"', '"\\u200b" #!'), "name must be 1 to 60 printable"),
    "client's name a date": (SMALL.replace('"north"', "1979-05-27 #!"), "got 1979-05-27"),
    "same names": (
        SMALL.replace('"south"', '"north" #!'),
        "clients 1 and 2 have the same name 'north'",
        "Rename one",
    ),
    "same names in two spellings": (
        SMALL.replace('"north"', '"caf\\u00e9"').replace('"south"', '"cafe\\u0301" #!'),
        "have the same name",
    ),
    "names that look the same": (
        SMALL.replace('"south"', '"n\\u043erth" #!'),
        "clients 1 and 2 have names that look the same, 'north' and 'n\\u043erth'",
        "Rename one",
    ),
    "source empty": (client('source = "" #!'), "source must be 1 to 200 printable characters", "for client 'north'"),
    "source missing": (
        SMALL.replace('source = "mnist-5k"\n', "").replace(
            '[[clients]]\nname = "north"', '[[clients]] #!\nname = "north"'
        )
        + 'source = "usps"',
        "source is missing for client 'north'",
        'Add e.g. source = "mnist-5k".',
    ),
    "samples missing": (
        SMALL.replace("samples_per_round = 100\n", "").replace('[[clients]]\nname = "n', '[[clients]] #!\nname = "n')
        + "samples_per_round = 7",
        "samples_per_round is missing for client 'north'",
        "Add e.g. samples_per_round = 100.",
    ),
    # numbers
    "samples negative": (
        client("samples_per_round = -5 #!"),
        "my.toml, line 10: samples_per_round must be a number above 0, at most 1000000, got -5 for client 'north'. "
        "Write e.g. 100.",
    ),
    "samples none": (client("samples_per_round = 0 #!"), "samples_per_round must be a number above 0"),
    "samples nan": (client("samples_per_round = nan #!"), "got nan"),
    "samples infinite": (client("samples_per_round = inf #!"), "got inf"),
    "samples an array": (client("samples_per_round = [ #!\n1]"), "got an array"),
    "samples a table": (client("samples_per_round = {} #!"), "got a table"),
    "samples true": (client("samples_per_round = true #!"), "got true for client 'north'"),
    "default samples": (SMALL.replace("= 100", "= -5 #!"), "samples_per_round must be a number above 0"),
    "cost negative": (
        client("cost_per_sample = -1 #!"),
        "cost_per_sample must be 0 or a number from 1e-30",
        "Write e.g. 2e-4.",
    ),
    "cost infinite": (client("cost_per_round = inf #!"), "cost_per_round must be 0 or a number"),
    "cost tiny": (client("cost_per_step = 1e-31 #!"), "0 or a number from 1e-30 to 1e+30, got 1e-31"),
    "cost in words": (client('cost_per_step = "1" #!'), "got '1'"),
    "value negative": (client("unit_value = -1 #!"), "unit_value must be 0 or a number"),
    "value beyond floats": (client(f"unit_value = {'9' * 400} #!"), "unit_value must be 0 or a number"),
    "cap": (in_table("mechanism", "liability_cap = -1 #!"), "liability_cap must be", "leave it out for no cap"),
    "learning rate": (in_table("learning", "learning_rate = 0.0 #!"), "learning_rate must be a number above 0"),
    "learning rate infinite": (
        in_table("learning", "learning_rate = inf #!"),
        "must be a number above 0, at most 1e30, got inf",
    ),
    "stop": (in_table("learning", "stop_below = 1.5 #!"), "stop_below must be a number from 0 to 1"),
    "share 0": (in_table("data", "validation_share = 0 #!"), "validation_share must be a number between 0 and 1"),
    "share 1": (in_table("data", "validation_share = 1 #!"), "validation_share must be a number between 0 and 1"),
    "skew": (
        in_table("data", "label_skew = 0 #!"),
        "label_skew must be a number from 0.001",
        "leave it out for no skew",
    ),
    "mu negative": (
        SMALL.replace("0.05", "-0.05 #!"),
        'mu must be 0, a number from 1e-50 to 1e+50, or "inf", got -0.05',
    ),
    "mu minus infinity": (SMALL.replace("0.05", "-inf #!"), "got -inf", "inf retains everybody"),
    "mu nan": (SMALL.replace("0.05", "nan #!"), "got nan"),
    "mu tiny": (SMALL.replace("0.05", "1e-51 #!"), "got 1e-51"),
    "mu text": (SMALL.replace("0.05", '"0.05" #!'), "got '0.05'"),
    "mu true": (SMALL.replace("0.05", "true #!"), "got true"),
    "mu missing": (SMALL.replace("[mechanism]\nmu = 0.05", "[mechanism] #!"), "mu is missing in [mechanism]"),
    "no mechanism": (SMALL.replace(MECHANISM, ""), "my.toml: mu is missing in [mechanism]. Add e.g. mu = 0.05."),
    # choices
    "measure": (in_table("mechanism", 'contribution = "shaply" #!'), "contribution must be one of quantity, marginal"),
    "contribution rule": (in_table("mechanism", 'contribution_rule = "x" #!'), "must be one of clip, raw, got 'x'"),
    "loss rule": (
        in_table("mechanism", "loss_rule = 1 #!"),
        "loss_rule must be one of contribution, equal, cost, loss, got 1",
    ),
    "model": (in_table("learning", 'model = "resnet" #!'), "model must be one of compact, fedbn-digits"),
    "algorithm": (in_table("learning", 'algorithm = "fedsgd" #!'), "algorithm must be one of fedavg, fedbn"),
    "score": (in_table("learning", "score = [] #!"), "score must be one of hit, probability, got an array"),
    # defects
    "defect no table": (
        client('defect = "untrained" #!'),
        "defect must be a table, got 'untrained' for client 'north'",
    ),
    "defect kind": (
        client('defect = { kind = "lazy" } #!'),
        "kind must be one of label-noise, label-flip, duplicates",
        "got 'lazy'",
    ),
    "defect without kind": (client("defect = { probability = 1 } #!"), "kind is missing in the defect for client"),
    "noise 1.5": (
        client('defect = { kind = "label-noise", probability = 1.5 } #!'),
        "probability must be a number from 0",
    ),
    "noise without": (
        client('defect = { kind = "label-noise" } #!'),
        "probability is missing in the defect label-noise",
    ),
    "noise true": (client('defect = { kind = "label-noise", probability = true } #!'), "got true for client 'north'"),
    "training only": (
        client('defect.kind = "label-noise"\ndefect.probability = 0.1\ndefect.training_only = 1 #!'),
        "training_only must be true or false, got 1",
    ),
    "fraction 1": (
        client('[clients.defect]\nkind = "duplicates"\nfraction = 1 #!'),
        "fraction must be a number from 0 to 1, 1 excluded",
    ),
    "deviation": (client('defect = { kind = "noised", deviation = 0 } #!'), "deviation must be a number above 0"),
    "factor": (client('defect = { kind = "scaled", factor = nan } #!'), "factor must be a number from -1e+06 to 1e+06"),
    "flipped fraction": (
        client('defect = { kind = "label-flip", fraction = 1.1 } #!'),
        "fraction must be a number from 0 to 1, got 1.1 for client 'north'",
    ),
    "sign-flip backward": (
        client('defect = { kind = "sign-flip", factor = -1 } #!'),
        "factor must be a number above 0, at most 1e+06, got -1 for client 'north'",
    ),
    "noised-update without": (
        client('defect = { kind = "noised-update" } #!'),
        "ratio is missing in the defect noised-update for client 'north'",
    ),
    "reported profit": (
        client('reported_profit = "none" #!'),
        "reported_profit must be 0, or a number from 1e-30 to 1e+30 in size, got 'none' for client 'north'",
        "Write e.g. 0.0, or leave it out for the truth.",
    ),
    "reported profit nan": (client("reported_profit = nan #!"), "reported_profit must be 0, or a number"),
    "reported profit tiny": (client("reported_profit = -1e-31 #!"), "in size, got -1e-31"),
    "reported profit of all": (
        SMALL.replace(DEFAULTS, DEFAULTS + "reported_profit = 0.0 #!\n"),
        "unknown key 'reported_profit' in [defaults]",
        "Move it below the [[clients]] of the client that has it",
    ),
    "key of another defect": (
        client('defect = { kind = "untrained", factor = 1 } #!'),
        "unknown key 'factor' in the defect untrained for client 'north'",
        "Remove it. Known keys: kind.",
    ),
    # unknown keys
    "unknown": (
        top("colour = 1 #!"),
        "unknown key 'colour'. Remove it. Known keys: name, description",
    ),
    "misspelt": (
        client("sampels_per_round = 1 #!"),
        "unknown key 'sampels_per_round' for client 'north'",
        "Did you mean 'samples_per_round'?",
    ),
    "hyphens": (client("cost-per-step = 1 #!"), "Did you mean 'cost_per_step'?"),
    "capitals": (top("Seed = 1 #!"), "Did you mean 'seed'?"),
    "table misspelt": (f"{SMALL}[learnin] #!\n", "Did you mean 'learning'?"),
    "client instead of clients": (SMALL + "[[client]] #!\nname = 'x'\n", "Did you mean 'clients'?"),
    "in the wrong table": (
        in_table("data", "mu = 1 #!"),
        "unknown key 'mu' in [data]",
        "Move it below [mechanism]",
    ),
    "below a table": (in_table("mechanism", "seed = 1 #!"), "Move it to the top of the file, above the first [table]"),
    "below a defect": (
        client('[clients.defect]\nkind = "untrained"\nunit_value = 2 #!'),
        "unknown key 'unit_value' in the defect untrained",
        "Move it to its client's keys, above the defect",
    ),
    "defect of all": (
        SMALL.replace(DEFAULTS, DEFAULTS + 'defect = { kind = "untrained" } #!\n'),
        "unknown key 'defect' in [defaults]",
        "Move it below the [[clients]]",
    ),
    # tables
    "clients one table": (
        TOP + MECHANISM + "[clients] #!\nname = 'a'\n",
        "clients must be an array of tables, got a table",
        "[[clients]]",
    ),
    "clients a number": (TOP + "clients = 3 #!\n" + MECHANISM, "clients must be an array of tables, got 3"),
    "clients of names": (TOP + 'clients = ["a", "b"] #!\n' + MECHANISM, "got an array of other values"),
    "mechanism an array": (
        SMALL.replace("[mechanism]", "[[mechanism]] #!"),
        "mechanism must be a table, got an array",
        "single",
    ),
    "learning a number": (top("learning = 3 #!"), "learning must be a table, got 3", "Write [learning]"),
    # how many
    "no clients": (
        TOP + MECHANISM,
        "my.toml: a federation needs at least 2 clients, got none. Add a [[clients]] table for each.",
    ),
    "empty clients": (TOP + "clients = [] #!\n" + MECHANISM, "at least 2 clients, got none"),
    "one client": (
        TOP + MECHANISM + DEFAULTS + "[[clients]] #!\nname = 'a'\n",
        "at least 2 clients, got only this one",
        "Add another",
    ),
    "too many": (
        TOP + MECHANISM + DEFAULTS + clients(1000) + "[[clients]] #!\nname = 'a'\n",
        "at most 1000 clients, got 1001",
    ),
    # keys that depend on each other
    "exact Shapley": (
        TOP + MECHANISM + 'contribution = "shapley" #!\n' + DEFAULTS + clients(13),
        "allows at most 12 clients, got 13",
        'contribution = "adaptive"',
    ),
    "raw": (
        TOP + MECHANISM + 'contribution_rule = "raw" #!\n' + DEFAULTS + clients(21),
        "allows at most 20 clients, got 21",
        '"clip"',
    ),
    **{
        f"{key} without effect": (
            SMALL.replace("mu = 0.05", f'kind = "fli"\n{key} = {value} #!'),
            f'kind = "fli" has no {key}. Remove it.',
        )
        for key, value in {
            "mu": "0.05",
            "contribution_rule": '"clip"',
            "loss_rule": '"equal"',
            "liability_cap": "-0.1",
        }.items()
    },
    "limit missing": (in_table("mechanism", 'contribution = "gtg" #!'), "needs evaluation_limit", "= 64"),
    "limit for marginal": (
        in_table("mechanism", "evaluation_limit = 64 #!"),
        'not for contribution = "marginal"',
        "Remove it",
    ),
    "limit too low": (
        TOP + MECHANISM + 'contribution = "leverage"\nevaluation_limit = 9 #!\n' + DEFAULTS + clients(5),
        "evaluation_limit must be at least 10",
    ),
    "limit none": (in_table("mechanism", 'contribution = "tmc"\nevaluation_limit = 0 #!'), "whole number from 1"),
    "proximal": (
        in_table("learning", "proximal_weight = 0.1 #!"),
        "proximal_weight is only for the algorithm fedprox or fedamp, not for fedavg",
    ),
    "proximal negative": (
        in_table("learning", 'algorithm = "fedprox"\nproximal_weight = -1 #!'),
        "proximal_weight must be a number from 0 to 1e6",
    ),
    # no TOML
    "no value": (top("seed = #!"), "not valid TOML: invalid value"),
    "no quotes": (top("description = a trial #!"), "invalid value", "texts need quotes"),
    "key twice": (top("seed = 1\nseed = 2 #!"), "already given", "Remove one"),
    "table twice": (
        SMALL + "[mechanism] #!\nmu = 1\n",
        "already given",
        "[[clients]] in double brackets",
    ),
    "colon": (top("seed: 1 #!"), "not valid TOML"),
    "unfinished": (SMALL + 'x = """\n\ny #!\n\n', "unterminated", "at the end of the file"),
    "empty": ("", "my.toml is empty; it should contain a scenario", "commonweal init"),
    "blank": (" \n\n", "is empty"),
    "deep": (top("x = " + "[" * 5000 + "]" * 5000), "my.toml: the values are nested too deeply"),
    "long number": (top(f"seed = {'9' * 5000}"), "my.toml: a number has more than 4,300 digits"),
}


@pytest.mark.parametrize(("text", "parts"), [(case[0], case[1:]) for case in REFUSALS.values()], ids=REFUSALS)
def test_an_error_is_reported_with_its_line(text, parts):
    sentence = refusal(text)
    assert "\n" not in sentence, "one error, one line"
    for part in parts:
        assert part in sentence, sentence
    assert re.fullmatch(r"my\.toml(, line \d+:|:| is) .*[.?] .*[.?]", sentence), "place, what is wrong, what to do"
    marked = [number for number, line in enumerate(text.split("\n"), start=1) if "#!" in line]
    named = [int(number) for number in re.findall(r"^my\.toml, line (\d+):", sentence)]
    assert named == marked, sentence


def test_windows_line_ends_do_not_move_lines():
    text, *_ = REFUSALS["samples negative"]
    assert "my.toml, line 10: " in refusal(text.replace("\n", "\r\n"))


def test_all_errors_are_reported_together_in_the_order_of_the_file():
    text = client("cost_per_step = -1\ncolour = 3").replace("mu = 0.05", "mu = -1").replace("rounds = 8", "rounds = 0")
    headline, *sentences = refusal(text).split("\n  ")
    assert headline == "my.toml has 4 errors:"
    assert [int(re.search(r"line (\d+):", sentence)[1]) for sentence in sentences] == [2, 4, 10, 11]


def test_of_many_errors_ten_are_shown():
    headline, *sentences, tail = refusal(TOP + MECHANISM + clients(20)).split("\n  ")
    assert headline == "my.toml has 40 errors:"
    assert len(sentences) == 10
    assert tail == "... and 30 more"


def test_an_invalid_default_is_reported_once():
    assert refusal(SMALL.replace("= 100", "= 0")).count("samples_per_round must be") == 1


def test_an_invalid_choice_makes_no_other_key_an_error():
    for lines in ('contribution = "tcm"\nevaluation_limit = 64', 'contribution = "tmc"\nevaluation_limit = 0'):
        assert "errors" not in refusal(in_table("mechanism", lines))
    assert "errors" not in refusal(in_table("learning", 'algorithm = "fedprx"\nproximal_weight = 0.1'))


def test_a_client_without_a_name_is_reported_by_number():
    text = TOP + MECHANISM + DEFAULTS + "[[clients]]\nname = 'a'\n[[clients]]\nname = 3\nunit_value = -1\n"
    assert (
        "my.toml, line 12: unit_value must be 0 or a number from 1e-30 to 1e+30, got -1 for client number 2."
        in refusal(text)
    )


FILES = {
    "not UTF-8": (
        TOP.encode() + "# é\n".encode("latin-1"),
        [", line 3: the byte 0xe9 is not valid UTF-8", "Save the file"],
    ),
    "UTF-16": (SMALL.encode("utf-16"), [", line 1: the byte 0xff"]),
    "zero bytes": (TOP.encode() + b"\0", [", line 3: the byte 0x00"]),
    "too large": (b"#" * (SIZE_LIMIT + 1), ["larger than 1000000 bytes", "Check that it is a scenario"]),
    "empty": (b"", ["is empty"]),
}


@pytest.mark.parametrize(("content", "parts"), FILES.values(), ids=FILES)
def test_bad_files_are_refused(tmp_path, content, parts):
    path = tmp_path / "my.toml"
    path.write_bytes(content)
    with pytest.raises(ScenarioError) as caught:
        read_scenario(path)
    for part in [*parts, str(path)]:
        assert part in str(caught.value)


def test_unreadable_files_are_refused(tmp_path):
    (tmp_path / "locked.toml").write_text(SMALL)
    for path, part in [
        (tmp_path, "is a folder. Name a TOML file in it"),
        (tmp_path / "none.toml", r"none\.toml: no such file\. Check the path\. Write one with `commonweal init`\."),
        (tmp_path / "locked.toml" / "x.toml", "Cannot read .*: not a directory"),
        (tmp_path / "a\0b.toml", "Cannot read "),
        (tmp_path / ("x" * 300), "Cannot read "),
    ]:
        with pytest.raises(StorageError, match=part):
            read_scenario(path)


TEXTS = [shipped_text(name) for name in shipped_names()]
SNIPPETS = [
    "",
    "\n",
    "[",
    "]]",
    '"',
    "'''",
    "=",
    "-1",
    "inf",
    "nan",
    "true",
    "[[clients]]",
    "{",
    "}",
    "é",
    "\0",
    "mu = 1\n",
]


@given(
    text=st.sampled_from(TEXTS),
    cuts=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 30), st.sampled_from(SNIPPETS) | st.text()), max_size=4),
)
def test_a_damaged_file_is_read_or_refused_but_never_crashes(text, cuts):
    for where, length, inserted in cuts:
        start = int(where * len(text))
        text = text[:start] + inserted + text[start + length :]
    with suppress(CommonwealError):
        parse_scenario(text, "my.toml")
