"""The task for tables: the protocol of `commonweal.task` on the rows of CSV and Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from commonweal.errors import FederationError, InputError
from commonweal.tables import models
from commonweal.tables.agreement import agree
from commonweal.tables.describing import describe
from commonweal.tables.encoding import encode, encode_target, feature_count
from commonweal.tables.notes import notes_on
from commonweal.tables.packaged import is_packaged, path_of, read_packaged
from commonweal.tables.reading import Table, read_table
from commonweal.tables.settings import OWN_KEYS, TableSettings, checked_settings
from commonweal.tables.site_rows import SiteRows, SitesRows, rows_per_site, site_rows, target_counts
from commonweal.tables.summary import summarise
from commonweal.tables.values import label_order
from commonweal.task.records import Model, NewData, Predictions, Rows, TaskContext, TaskMember, Trained


class TableTask:
    """One table with a site column, or one table for each client."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._given = dict(settings)
        self._settings = checked_settings(settings, "[task]")
        self._tables: dict[Path, _OpenTable] = {}
        self._sites: dict[tuple[str, Path, int], tuple[_OpenTable, SiteRows]] = {}

    @property
    def settings(self) -> TableSettings:
        return self._settings

    def sites(self, folder: Path) -> dict[str, int]:
        """The clients of a table with a site column, in order, each with its number of rows with a target.

        Sites with fewer than `minimum_rows` are left out. Without a site column there are none here: the clients name
        their own files.
        """
        if self._settings.site is None:
            return {}
        table, counts = self._rows_with_target(folder)
        least = self._settings.minimum_rows
        kept = {site: count for site, count in counts.items() if count >= least}
        if len(kept) < 2:
            raise InputError(
                f"{table.name} has {_counted(len(kept), 'site')} with at least {least} rows in column "
                f"{self._settings.site!r}, but a federation needs at least two. As site, name the column that tells "
                "which client a row belongs to."
            )
        return kept

    def table_notes(self, folder: Path) -> list[str]:
        """What whoever has the whole table would want to know about it; for a table with a site column."""
        if self._settings.site is None:
            return []
        table, counts = self._rows_with_target(folder)
        small = [site for site, count in counts.items() if count < self._settings.minimum_rows]
        nowhere = table.row_count - sum(map(len, (self._open(self._settings, folder).rows_per_site or {}).values()))
        notes = []
        if small:
            notes.append(
                f"{_counted(len(small), 'site')} left out, with fewer than {self._settings.minimum_rows} rows: "
                f"{', '.join(map(repr, small))}."
            )
        if nowhere:
            notes.append(f"{_counted(nowhere, 'row')} left out, with nothing in column {self._settings.site!r}.")
        if table.unnamed_count:
            notes.append(f"{_counted(table.unnamed_count, 'column')} without a name left out.")
        return notes

    def notes(self, member: TaskMember) -> list[str]:
        """What the member would want to know about its own rows. They stay at its site."""
        return notes_on(self._site(member), member.name, member.round_count, member.agreed)

    def describe(self, agreed: Mapping[str, Any]) -> dict[str, str]:
        """The task in words: what -> how."""
        return describe(self._settings, agreed)

    def summarise(self, member: TaskMember) -> dict[str, Any]:
        """All that leaves the member's site, beside models and metrics; see the package's docstring."""
        return summarise(self._site(member), member.round_count)

    def agree(self, summaries: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """The common encoding, from all members' summaries."""
        return agree(self._settings, summaries)

    def initial_model(self, seed: int, agreed: Mapping[str, Any]) -> Model:
        """The model that the first round starts from."""
        classes = agreed["classes"]
        output_count = len(classes) if classes is not None and len(classes) > 2 else 1
        hidden = self._settings.hidden if self._settings.model == "mlp" else ()
        return models.initial_model([feature_count(agreed), *hidden, output_count], seed)

    def load(self, round_number: int, member: TaskMember) -> NewData:
        """The rows that arrive in this round, encoded: features (float32), and classes (int64) or numbers (float64)."""
        site, dates = self._site(member), member.agreed["dates"] or {}
        arrives = site.rounds(member.round_count, dates.get("first"), dates.get("last")) == round_number

        def encoded(is_chosen: Any) -> Rows:
            rows = site.rows[arrives & is_chosen]
            return encode(site, rows, member.agreed), encode_target(site, rows, member.agreed)

        return NewData(training=encoded(~site.is_validation), validation=encoded(site.is_validation))

    def train(self, model: Model, training: Rows, context: TaskContext) -> Trained:
        """Mini-batch gradient descent. `context.correct_gradients`, if there is one, is called before every step."""
        settings = self._settings
        learning_rate = context.learning_rate if settings.learning_rate is None else settings.learning_rate
        parameters = models.parameters_of(model)
        features, targets = _tensors(training, context)
        batches = models.make_batches(len(features), settings.batch_size, settings.local_epochs, context.rng)
        loss = models.descend(
            parameters,
            features,
            targets,
            loss_of=models.regression_loss if _is_regression(context) else models.classification_loss,
            batches=batches,
            learning_rate=learning_rate,
            l2=settings.l2,
            correct=getattr(context, "correct_gradients", None),
        )
        trained = models.model_of(parameters)
        if not (np.isfinite(loss) and all(np.isfinite(array).all() for array in trained.values())):
            raise FederationError(
                f"Training diverged: client {context.member.name!r} has a loss of {loss} in round "
                f"{context.round_number}, iteration {context.iteration}. Nothing in this round was settled. Lower "
                f"learning_rate (now {learning_rate:g})."
            )
        return Trained(model=trained, step_count=len(batches), loss=loss)

    def evaluate(self, model: Model, validation: Rows, context: TaskContext) -> Predictions:
        """Probabilities of the classes, or predicted numbers in the target's own unit."""
        features = torch.from_numpy(np.asarray(validation[0], dtype=np.float32))
        with torch.no_grad():
            outputs = models.forward(models.parameters_of(model), features)
        if _is_regression(context):
            target = context.member.agreed["target"]
            values = outputs[:, 0].double().numpy() * target["scale"] + target["mean"]
            return Predictions(targets=np.asarray(validation[1]), values=values, scale=target["scale"])
        return Predictions(targets=np.asarray(validation[1]), values=models.probabilities(outputs))

    def gradient(self, model: Model, validation: Rows, context: TaskContext) -> Model:
        """The gradient of the mean smooth score at the model.

        The score of a row is the probability of its true class; in regression exp(−(error/scale)²/2), where scale is
        the agreed standard deviation of the target.
        """
        parameters = models.parameters_of(model)
        features, targets = _tensors(validation, context)
        score: Callable[[Tensor, Tensor], Tensor] = (
            models.closeness if _is_regression(context) else models.true_class_probabilities
        )
        mean = score(models.forward(parameters, features), targets).mean()
        gradients = torch.autograd.grad(mean, list(parameters.values()))
        return {name: part.numpy().copy() for name, part in zip(parameters, gradients, strict=True)}

    def _site(self, member: TaskMember) -> SiteRows:
        settings = self._settings_of(member)
        opened = self._open(settings, member.folder)
        key = (member.name, member.folder, member.seed)
        known = self._sites.get(key)
        if known is None or known[0] is not opened:
            rows = site_rows(opened.table, settings, member, opened.rows_per_site)
            known = self._sites[key] = (opened, rows)
        return known[1]

    def _rows_with_target(self, folder: Path) -> tuple[Table, dict[str, int]]:
        opened = self._open(self._settings, folder)
        assert opened.rows_per_site is not None
        counts = target_counts(opened.table, self._settings, opened.rows_per_site)
        return opened.table, {site: counts[site] for site in sorted(counts, key=label_order)}

    def _settings_of(self, member: TaskMember) -> TableSettings:
        changed = {key: value for key, value in member.settings.items() if self._given.get(key) != value}
        if not changed:
            return self._settings
        common = [key for key in changed if key not in OWN_KEYS]
        if common:
            raise InputError(
                f"[task] of client {member.name!r} sets {common[0]}, but only {', '.join(OWN_KEYS)} may differ between "
                "clients. Move it to the common [task]."
            )
        return checked_settings({**self._given, **changed}, f"[task] of client {member.name!r}")

    def _open(self, settings: TableSettings, folder: Path) -> _OpenTable:
        """The table; the file is read again only if it changed."""
        if settings.table is None:
            raise InputError('There is no table: add table = "FILE" to the common [task], or to each client.')
        packaged = is_packaged(settings.table)
        path = path_of(settings.table) if packaged else folder / settings.table
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
        except OSError:
            stamp = (0, 0)  # the reader tells why
        known = self._tables.get(path)
        if known is None or known.stamp != stamp:
            read = read_packaged(settings.table, settings.missing) if packaged else read_table(path, settings.missing)
            rows = None if settings.site is None else rows_per_site(read, settings)
            known = self._tables[path] = _OpenTable(stamp=stamp, table=read, rows_per_site=rows)
        return known


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenTable:
    stamp: tuple[int, int]  # when the file was written, and its size
    table: Table
    rows_per_site: SitesRows | None


def _is_regression(context: TaskContext) -> bool:
    return bool(context.member.agreed["kind"] == "regression")


def _tensors(rows: Rows, context: TaskContext) -> tuple[Tensor, Tensor]:
    """Features, and classes or standardised numbers."""
    features = torch.from_numpy(np.asarray(rows[0], dtype=np.float32))
    if not _is_regression(context):
        return features, torch.from_numpy(np.asarray(rows[1], dtype=np.int64))
    target = context.member.agreed["target"]
    return features, torch.from_numpy(((rows[1] - target["mean"]) / target["scale"]).astype(np.float32))


def _counted(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"
