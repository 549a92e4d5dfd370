"""The table [rates], and the class of each client: what was agreed on where profits follow from rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from commonweal.records import AgreedRates, Rates
from commonweal.records.rates import CLASSES
from commonweal.scenario.faults import shown
from commonweal.scenario.keys import RATES_KEYS
from commonweal.scenario.kinds import name
from commonweal.scenario.toml_table import TomlTable, present

CLASS = "class"
_CLASS_NAME = name(60, "hospital")


def read_rates(table: TomlTable, mechanism: TomlTable, profits: str) -> AgreedRates | None:
    """The rates of a table [rates], without the classes of clients; None if profits are private, or nothing is valid.

    `profits` is the value of that key in the table [mechanism].
    """
    if profits != "rates":
        if table.given:
            problem = f'[rates] has no effect with profits = "{profits}"'
            table.faults.add(table.path, problem, 'Write profits = "rates" in [mechanism], or remove [rates]')
        return None
    if not table.given:
        problem = 'profits = "rates" needs a table [rates] that says what a gain is worth'
        mechanism.faults.add((*mechanism.path, "profits"), problem, "Add [rates], then e.g. gain = 1.0, sample = 2e-4")
        return None
    if CLASSES not in table.given:
        values = table.read(RATES_KEYS, needed=("gain",))
        return AgreedRates(common=Rates(**values)) if "gain" in values else None
    table.read(RATES_KEYS, tables=(CLASSES,))
    for key in RATES_KEYS:
        if key in table.given:
            problem = f"{key} is for all clients, and [rates.{CLASSES}] has rates for each class"
            table.faults.add((*table.path, key), problem, "Remove one of them")
    return _by_class(table)


def _by_class(table: TomlTable) -> AgreedRates | None:
    given, path = table.given[CLASSES], (*table.path, CLASSES)
    if not isinstance(given, Mapping) or not given or not all(isinstance(one, Mapping) for one in given.values()):
        way_out = f"Write e.g. [rates.{CLASSES}.hospital], then gain = 1.0"
        table.faults.add(path, f"{CLASSES} must be a table with a table for each class, got {shown(given)}", way_out)
        return None
    by_class = {}
    for title, rates in given.items():
        try:
            _CLASS_NAME.read(title)
        except ValueError:
            table.faults.add((*path, title), f"the name of a class must be {_CLASS_NAME.rule}, got {shown(title)}")
        one = TomlTable(
            given=present(rates), path=(*path, title), title=f"[rates.{CLASSES}.{title}]", faults=table.faults
        )
        values = one.read(RATES_KEYS, needed=("gain",))
        if "gain" in values:
            by_class[title] = Rates(**values)
    return AgreedRates(by_class=by_class) if by_class else None


def take_classes(rates: AgreedRates | None, clients: Sequence[dict[str, Any]], root: TomlTable) -> AgreedRates | None:
    """The rates with the class of each client, which is taken out of the clients' values; problems are faults."""
    classes = {}
    for position, client in enumerate(clients):
        own, path = client.pop(CLASS, None), ("clients", position)
        whose = f"for client {shown(client.get('name', f'number {position + 1}'))}"
        if rates is None or not rates.by_class:
            if own is not None and rates is not None:
                root.faults.add((*path, CLASS), f"{CLASS} has no effect {whose}: [rates] is for all", "Remove it")
            elif own is not None and "rates" not in root.given:
                problem = f"{CLASS} has no effect {whose}: profits do not follow from rates"
                root.faults.add((*path, CLASS), problem, "Remove it")
            continue
        known = ", ".join(map(shown, rates.by_class))
        if own is None:
            problem = f"{CLASS} is missing {whose}: rates differ by class"
            root.faults.add(path, problem, f"Write {CLASS} = one of {known}")
        elif own not in rates.by_class:
            root.faults.add((*path, CLASS), f"{CLASS} must be one of {known}, got {shown(own)} {whose}")
        elif "name" in client:
            classes[client["name"]] = own
    return None if rates is None else replace(rates, classes=classes)
