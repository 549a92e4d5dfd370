"""Small tables, and a federation of their sites in a few lines."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np

from commonweal.seeds import stream
from commonweal.tables.task import TableTask
from commonweal.task.records import TaskContext, TaskMember


def write_csv(path, rows, *, delimiter=","):
    """Rows are dictionaries with the same keys; None is an empty field."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def patients(counts, seed=0):
    """Rows of patients, as many per site as `counts` says. `key` numbers the rows of the sites from 0, 1000, 2000..."""
    random = np.random.default_rng(seed)
    rows = []
    for number, (site, count) in enumerate(counts.items()):
        for key in range(1000 * number, 1000 * number + count):
            age, ward = round(float(random.normal(60, 15)), 2), str(random.choice(["heart", "lung", "bone"]))
            risk = 1 / (1 + np.exp(-(age - 60) / 8 - (ward == "heart")))
            rows.append(
                {
                    "hospital": site,
                    "key": key,
                    "age": age,
                    "ward": ward,
                    "died": "yes" if random.random() < risk else "no",
                }
            )
    return rows


PATIENTS = {"table": "patients.csv", "site": "hospital", "target": "died"}


def members(task, folder, *, names=None, round_count=1, seed=1, own_table=False):
    """The clients of a table with a site column, without an encoding."""
    return [
        TaskMember(
            name=name,
            settings={"table": f"{name}.csv"} if own_table else {},
            folder=folder,
            seed=seed,
            round_count=round_count,
        )
        for name in (names or task.sites(folder))
    ]


def agreed_members(task, folder, **options):
    """The clients, with the encoding that they agree on."""
    clients = members(task, folder, **options)
    agreed = task.agree({client.name: task.summarise(client) for client in clients})
    return [replace(client, agreed=agreed) for client in clients]


def made(tmp_path, rows, settings=None, **options):
    """The task of a table made of these rows, and its clients with their encoding."""
    write_csv(tmp_path / "patients.csv", rows)
    task = TableTask({**PATIENTS, **(settings or {})})
    return task, agreed_members(task, tmp_path, **options)


def context(member, round_number=1, iteration=1):
    random = stream(member.seed, "batches", member.name, round_number, iteration)
    return TaskContext(
        member=member, round_number=round_number, iteration=iteration, seed=member.seed, rng=random, memory={}
    )


def keys(features, agreed):
    """The numbers of a site's rows from 0, decoded from the column `key`."""
    position = 0
    for block in agreed["features"]:
        if block["column"] == "key" and block["kind"] == "number":
            break
        position += len(block["labels"]) + block["other"] if block["kind"] == "category" else 1
    return np.rint(features[:, position].astype(np.float64) * block["scale"] + block["mean"]).astype(int) % 1000


def joined(parts):
    """All rows that have arrived, from those of each round."""
    return tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))


def federated(task, clients, *, iteration_count):
    """Plain FedAvg over the planned rounds: the last model, and each client's training and validation rows."""
    agreed = clients[0].agreed
    model = task.initial_model(clients[0].seed, agreed)
    training = {client.name: [] for client in clients}
    validation = {client.name: [] for client in clients}
    for round_number in range(1, clients[0].round_count + 1):
        for client in clients:
            new = task.load(round_number, client)
            training[client.name].append(new.training)
            validation[client.name].append(new.validation)
        for iteration in range(1, iteration_count + 1):
            local = [
                task.train(model, joined(training[client.name]), context(client, round_number, iteration)).model
                for client in clients
            ]
            counts = np.array([sum(len(part[0]) for part in training[client.name]) for client in clients])
            weights = counts / counts.sum()
            model = {
                name: sum(weight * other[name] for weight, other in zip(weights, local, strict=True)).astype(np.float32)
                for name in model
            }
    return model, {name: joined(rows) for name, rows in training.items()}, {n: joined(r) for n, r in validation.items()}
