"""A column of a table: texts, and what they are as numbers and as labels. Each is computed once, when first needed."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from commonweal.tables.values import label_of, number_of


class Column:
    """One text per row; an empty one is a missing value."""

    def __init__(self, cells: list[str], *, decimal_comma: bool = False) -> None:
        self.cells = cells
        self.decimal_comma = decimal_comma

    @cached_property
    def is_missing(self) -> NDArray[np.bool_]:
        return np.array([not cell for cell in self.cells], dtype=bool)

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """nan for missing values and for texts."""
        values = {cell: number_of(cell, decimal_comma=self.decimal_comma) for cell in set(self.cells)}
        known = {cell: np.nan if value is None else value for cell, value in values.items()}
        return np.array([known[cell] for cell in self.cells], dtype=np.float64)

    @cached_property
    def is_text(self) -> NDArray[np.bool_]:
        """Where there is a value that is no number."""
        return np.isnan(self.numbers) & ~self.is_missing

    @cached_property
    def _labels_and_codes(self) -> tuple[list[str], NDArray[np.int64]]:
        texts = {cell: label_of(cell, decimal_comma=self.decimal_comma) for cell in set(self.cells) if cell}
        labels = sorted(set(texts.values()))
        numbers = {label: number for number, label in enumerate(labels)}
        code_of = {"": -1, **{cell: numbers[label] for cell, label in texts.items()}}
        return labels, np.array([code_of[cell] for cell in self.cells], dtype=np.int64)

    @property
    def labels(self) -> list[str]:
        """The different labels of the column."""
        return self._labels_and_codes[0]

    @property
    def codes(self) -> NDArray[np.int64]:
        """For each row the position of its label in `labels`; −1 where the value is missing."""
        return self._labels_and_codes[1]

    def label_counts(self, rows: NDArray[np.int64]) -> dict[str, int]:
        """The labels that occur in these rows, with their counts."""
        codes, counts = np.unique(self.codes[rows], return_counts=True)
        return {self.labels[code]: int(count) for code, count in zip(codes, counts, strict=True) if code >= 0}
