"""Small scenarios to vary."""

from __future__ import annotations

TOP = 'name = "trial"\nrounds = 8\n'
MECHANISM = "[mechanism]\nmu = 0.05\n"
DEFAULTS = '[defaults]\nsource = "mnist-5k"\nsamples_per_round = 100\n'
TWO = '[[clients]]\nname = "north"\n[[clients]]\nname = "south"\n'
SMALL = TOP + MECHANISM + DEFAULTS + TWO


def clients(count):
    return "".join(f'[[clients]]\nname = "c{number}"\n' for number in range(count))


def client(lines):
    """A scenario whose first client has these further lines."""
    return TOP + MECHANISM + DEFAULTS + TWO.replace('name = "north"\n', f'name = "north"\n{lines}\n')


def in_table(table, lines):
    return SMALL.replace(MECHANISM, f"{MECHANISM}{lines}\n") if table == "mechanism" else f"{SMALL}[{table}]\n{lines}\n"


def top(lines):
    return f"{lines}\n{SMALL}"
