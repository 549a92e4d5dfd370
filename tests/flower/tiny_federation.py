"""A federation without learning: its app is plain Flower, so what fails with it is the rehearsal."""

from __future__ import annotations

from pathlib import Path

PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "0.0.1"
description = "For tests"
license = "Apache-2.0"
dependencies = []

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "nobody"

[tool.flwr.app.components]
serverapp = "{name}.server_app:app"
clientapp = "{name}.client_app:app"

[tool.flwr.app.config]
federation = ""
out = ""
"""

CONFIG = """
questions = 1
expected = 2
enough = 0
seconds = 0.0
fails = false
"""

CLIENT_APP = """
import time
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.query()
def answer(message, context):
    member = Path(context.node_config["member"])
    home = member.parent / "home"
    home.mkdir(exist_ok=True)
    with (home / "log.txt").open("a") as log:
        log.write("asked\\n")
    time.sleep(context.run_config["seconds"])
    vector = message.content["vector"]["x"].numpy() * 2
    content = RecordDict({
        "vector": ArrayRecord({"x": Array(vector)}),
        "who": ConfigRecord({"name": member.parent.name}),
    })
    return Message(content, reply_to=message)
"""

SERVER_APP = """
import json
import time
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()


@app.main()
def main(grid, context):
    config = context.run_config
    if config["fails"]:
        raise ValueError("this one was to fail")
    assert Path(config["federation"]).name == "federation.toml"
    while len(list(grid.get_node_ids())) < config["expected"]:
        time.sleep(0.1)
    seconds = []
    for question in range(config["questions"]):
        start = time.monotonic()
        content = RecordDict({"vector": ArrayRecord({"x": Array(np.arange(3.0))})})
        awaited = set(grid.push_messages([
            Message(content, dst_node_id=node, message_type="query") for node in grid.get_node_ids()
        ]))
        replies = []
        while awaited and not 0 < config["enough"] <= len(replies):
            for reply in grid.pull_messages(awaited):
                replies.append(reply)
                awaited.discard(reply.metadata.reply_to_message_id)
            time.sleep(0.05)
        answered = [reply for reply in replies if not reply.has_error()]
        assert all(reply.content["vector"]["x"].numpy().tolist() == [0.0, 2.0, 4.0] for reply in answered)
        seconds.append(time.monotonic() - start)
    out = {
        "seconds": seconds,
        "answered": sorted(reply.content["who"]["name"] for reply in answered),
        "errors": [reply.error.code for reply in replies if reply.has_error()],
    }
    (Path(config["out"]) / "result.json").write_text(json.dumps(out))
    print("the answers are in", flush=True)
"""


def write_tiny_federation(folder: Path, members: tuple[str, ...] = ("north", "south")) -> Path:
    """Its folder, without any keys."""
    package = folder / "app" / "tiny"
    package.mkdir(parents=True)
    (folder / "app" / "pyproject.toml").write_text(PYPROJECT.format(name="tiny") + CONFIG)
    for name, text in [("__init__", ""), ("client_app", CLIENT_APP), ("server_app", SERVER_APP)]:
        (package / f"{name}.py").write_text(text)
    terms = ['name = "tiny"\nrounds = 1\n\n[mechanism]\nmu = 0.3\n']
    for name in members:
        (folder / "members" / name).mkdir(parents=True)
        (folder / "members" / name / "member.toml").write_text(
            f'name = "{name}"\nkey_file = "node-key"\nhome = "home"\n'
        )
        terms.append(f'[[clients]]\nname = "{name}"\nkey_file = "members/{name}/node-key.pub"\n')
    (folder / "federation.toml").write_text("\n".join(terms))
    return folder
