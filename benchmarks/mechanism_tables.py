"""The tables of docs/results/mechanisms.md, from what `commonweal compare` wrote.

    python -m benchmarks.mechanism_tables [FOLDER ...]

copies comparison.json of each folder to docs/results/mechanisms, and writes the tables of all that are there into the
page.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.results_page import FOLDER, update

from commonweal.report.text import number

COMPARISONS = FOLDER / "mechanisms"
_NONE = "–"
_TICKS = ("isi", "ns", "fairness", "ir", "bb", "dh")


def comparisons() -> dict[str, dict[str, Any]]:
    """What was compared, by scenario."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(COMPARISONS.glob("*.json"))}


def tables(compared: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Markdown by name: for each scenario the paper's Table 1 as measured, and welfare."""
    made = {}
    for scenario, comparison in compared.items():
        made[f"table-1/{scenario}"] = _table_1(comparison)
        made[f"welfare/{scenario}"] = _welfare(comparison)
    return made


def _table_1(comparison: Mapping[str, Any]) -> str:
    """Measured, with the paper's ticks beside."""
    rows = []
    for one in comparison["mechanisms"]:
        ticks = one["ticks"] or dict.fromkeys(_TICKS)
        cells = {
            "isi": ", ".join(one["private_reads"]) or "none",
            "ns": _percent(one, "selection"),
            "fairness": f"{_number(one, 'fairness', 2)}; {_percent(one, 'deviation')}",
            "ir": f"{_percent(one, 'rational_rounds')}; {_percent(one, 'rational_clients')}",
            "bb": _balance(one),
            "dh": _percent(one, "heterogeneity") if comparison["is_heterogeneous"] else "not testable",
        }
        rows.append([_name(one), *(f"{text}{_tick(ticks[column])}" for column, text in cells.items())])
    return _markdown(
        ["mechanism", "private figures read (ISI)", "rounds with a selection (NS)",
         "fairness: correlation; largest deviation", "IR: payoffs in a round; clients in the end", "BB",
         "holds on different data (DH)"],
        rows,
    )  # fmt: skip


def _welfare(comparison: Mapping[str, Any]) -> str:
    rows = [
        [_name(one), _interval(one, "welfare"), _number(one, "stayed_welfare", 2), _percent(one, "tsfi"),
         _number(one, "duration", 1), _number(one, "money_moved", 2), _number(one, "models_sent", 0), _simple_lie(one),
         _best_reply(one)]
        for one in comparison["mechanisms"]
    ]  # fmt: skip
    return _markdown(
        ["mechanism", "true welfare of all" if comparison["truth"] is None else "welfare of all, as measured",
         "of those who stayed", "TSFI", "rounds per client", "money moved", "models sent",
         "best simple lie, gain per round", "best reply, gain per round"],
        rows,
    )  # fmt: skip


def _name(one: Mapping[str, Any]) -> str:
    return f"{one['name']} ({one['fidelity']})"


def _value(one: Mapping[str, Any], figure: str) -> float | None:
    known = one["figures"][figure]
    return None if known is None else float(known["mean"]["value"])


def _number(one: Mapping[str, Any], figure: str, decimals: int) -> str:
    value = _value(one, figure)
    return _NONE if value is None else _minus(f"{value:.{decimals}f}")


def _percent(one: Mapping[str, Any], figure: str) -> str:
    value = _value(one, figure)
    return _NONE if value is None else f"{100 * value:.0f} %"


def _interval(one: Mapping[str, Any], figure: str) -> str:
    mean = one["figures"][figure]["mean"]
    return _minus(f"{mean['value']:.2f} ({mean['lower']:.2f} to {mean['upper']:.2f})")


def _minus(text: str) -> str:
    return text.replace("-", "−")


def _balance(one: Mapping[str, Any]) -> str:
    if _value(one, "balanced_rounds") == 1:
        return "strict"
    return "weak" if _value(one, "funded_rounds") == 1 else f"no: {_number(one, 'external', 2)}"


def _simple_lie(one: Mapping[str, Any]) -> str:
    """Of the lies that need no knowledge of what the others report, the one that gains most on average."""
    paying = [lie for lie in one["lies"] if _pays(lie) and lie["name"] not in ("best-reply", "exit")]
    if not paying:
        if one["decides"]:
            return "none in money"
        return "none pays" if {lie["name"] for lie in one["lies"]} > {"silence"} else "only silence was tried"
    best = max(paying, key=lambda lie: float(lie["gain"]["value"]))
    return f"{_gain(best)}: {best['title']}"


def _best_reply(one: Mapping[str, Any]) -> str:
    """With the rounds in which it was looked for; a dash if the mechanism reads no profits."""
    found = next((lie for lie in one["lies"] if lie["name"] == "best-reply"), None)
    if found is None:
        return _NONE
    rounds = f"{found['round_count']} round{'s' if found['round_count'] > 1 else ''}"
    return f"{_gain(found) if _pays(found) else '0'} in {rounds}"


def _pays(lie: Mapping[str, Any]) -> bool:
    """As the command itself counts it."""
    return bool(lie["gain"]["value"] > 0 and lie["pays_share"] > 0)


def _gain(lie: Mapping[str, Any]) -> str:
    return number(float(f"{lie['gain']['value']:.2g}"), signed=True)


def _tick(has: bool | None) -> str:
    return "" if has is None else " ✓" if has else " ✗"


def _markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def main(folders: Sequence[Path]) -> None:
    COMPARISONS.mkdir(exist_ok=True)
    for folder in folders:
        document = json.loads((folder / "comparison.json").read_text(encoding="utf-8"))
        shutil.copy(folder / "comparison.json", COMPARISONS / f"{document['scenario']}.json")
    update(FOLDER / "mechanisms.md", tables(comparisons()))


if __name__ == "__main__":
    main([Path(folder) for folder in sys.argv[1:]])
