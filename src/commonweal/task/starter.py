"""A task to start from: one file of Python, a small CSV file for each client, and a scenario. It runs as it is."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from importlib.resources import files

import numpy as np

from commonweal.seeds import stream

NAMES = ("north", "south", "east", "west")
_ROWS = (320, 240, 80, 160)  # of the first clients; the others have as many as the last one
_COLUMNS = ("age", "blood_pressure", "previous_stays", "lives_alone", "readmitted")
_FILES = files("commonweal.task") / "starter_files"


def task_text() -> str:
    """The functions, with comments that explain them."""
    return (_FILES / "task.py").read_text(encoding="utf-8")


def scenario_text(name: str, clients: Sequence[str] = NAMES) -> str:
    """A scenario for the task; `name` is written in TOML, and client X has the file data/X.csv."""
    text = (_FILES / "scenario.toml").read_text(encoding="utf-8").replace("$name", name)
    listed = [f'[[clients]]\nname = "{one}"\nsettings = {{ data = "data/{one}.csv" }}\n' for one in clients]
    return text + "\n".join(listed)


def patients_csv(position: int) -> str:
    """Invented patients of the client at this position; those of the fourth are partly mislabelled."""
    rng = stream(1, "starter", str(position))
    count = _ROWS[min(position, len(_ROWS) - 1)]
    age = rng.normal(65, 12, count).clip(20, 99).round()
    pressure = rng.normal(140, 20, count).clip(80, 220).round()
    stays = rng.poisson(1.5, count)
    alone = rng.random(count) < 0.3
    tendency = 0.9 * (age - 65) / 12 + 0.5 * (pressure - 140) / 20 + 0.8 * (stays - 1.5) / 1.5 + 0.7 * alone - 0.5
    returned = rng.random(count) < 1 / (1 + np.exp(-1.5 * tendency))
    if position == 3:
        returned ^= rng.random(count) < 0.25
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows(
        zip(*(column.astype(int).tolist() for column in (age, pressure, stays, alone, returned)), strict=True)
    )
    return text.getvalue()
