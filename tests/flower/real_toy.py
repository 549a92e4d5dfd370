"""The toy federation as a folder that real SuperNodes run: the same three functions, in an app of their own."""

from __future__ import annotations

import inspect

from tests.flower.tiny_federation import PYPROJECT
from tests.remote import toy

TASK = """
import numpy as np
from commonweal.flower import NewData, Trained
from commonweal.seeds import stream

NAMES = {names!r}

{functions}
"""


def write_real_toy(folder, *, answer_seconds, **options):
    """The folder of a federation; `options` as for `write_toy`."""
    toy.write_toy(folder, **options)
    terms = folder / "federation.toml"
    terms.write_text(
        terms.read_text()
        .replace("answer_seconds = 5", f"answer_seconds = {answer_seconds}")
        .replace("join_seconds = 1", "join_seconds = 120")
    )
    package = folder / "app" / "toyapp"
    package.mkdir(parents=True)
    functions = "\n\n".join(inspect.getsource(function) for function in (toy.load, toy.train, toy.evaluate))
    (folder / "app" / "pyproject.toml").write_text(PYPROJECT.format(name="toyapp") + 'ledger = ""\nkeys = ""\n')
    (package / "__init__.py").write_text("")
    (package / "task.py").write_text(TASK.format(names=toy.NAMES, functions=functions))
    (package / "client_app.py").write_text(
        "from commonweal.flower import client_app\nfrom toyapp.task import evaluate, load, train\n"
        "app = client_app(load=load, train=train, evaluate=evaluate)\n"
    )
    (package / "server_app.py").write_text(
        "import numpy as np\nfrom commonweal.flower import server_app\n"
        "app = server_app(initial_model=lambda federation: {'w': np.zeros(2)})\n"
    )
