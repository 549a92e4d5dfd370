"""What a benchmark promises, what it found, and its exit code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A bound on something measured."""

    text: str
    found: float
    at_least: float | None = None
    less_than: float | None = None
    known_miss: str | None = None  # why the target is out of reach today: reported, but not a failure

    @property
    def holds(self) -> bool:
        return (self.at_least is None or self.found >= self.at_least) and (
            self.less_than is None or self.found < self.less_than
        )

    @property
    def target(self) -> str:
        return f"≥ {self.at_least:g}" if self.at_least is not None else f"< {self.less_than:g}"


def conclude(promises: list[Promise]) -> int:
    """Print each promise; return 1 if one is broken that is not a known miss."""
    print(f"\n{'promise':66s} {'target':>7s} {'found':>7s}")
    for promise in promises:
        verdict = "holds" if promise.holds else f"MISSED: {promise.known_miss}" if promise.known_miss else "BROKEN"
        print(f"{promise.text:66s} {promise.target:>7s} {promise.found:7.2f}  {verdict}")
    return 0 if all(promise.holds or promise.known_miss for promise in promises) else 1
