"""``store export``: a store as Parquet files, for other programs and for a way back."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import hatevolution
from hatevolution.errors import StoreError
from hatevolution.store.exchange import export_sql as sql
from hatevolution.store.exchange.card import card
from hatevolution.store.exchange.frames import Column, columns_of, frame_of, parts_of
from hatevolution.store.exchange.layout import CARD, FORMAT, MANIFEST, TABLES, VERSION, Names
from hatevolution.store.exchange.unfinished import unfinished_folder
from hatevolution.store.exchange.watch import interruptible, silent
from hatevolution.store.migrations import applied
from hatevolution.store.reader import connect
from hatevolution.store.tables import has_table

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from pathlib import Path

    from hatevolution.store.exchange.layout import Table
    from hatevolution.store.exchange.watch import Tell

__all__ = ["Exported", "export_store"]

_CONVENIENCE: Final = ("text", "gold")
"""Columns of the sentence that stand in the answers' files too."""


class Exported(NamedTuple):
    """What was written."""

    folder: Path
    files: int
    bytes: int
    rows: dict[str, int]
    """Table -> rows."""


def export_store(
    store: Path,
    out: Path,
    *,
    models: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    tell: Tell = silent,
) -> Exported:
    """Write a store as Parquet files into a new folder, which appears only when all is written.

    Args:
        store: Which store; a run may be writing to it, and one moment of it is seen.
        out: The folder; may exist if it is empty.
        models: Only these models; None for all. Verdicts of people go along only where everything does.
        datasets: Only these data sets; None for all.
        tell: Takes the progress, in pairs of model and data set.

    Raises:
        StoreError: The folder holds something, or can't be written to; or the store has no such model or data set.
    """
    if out.is_symlink() or (out.exists() and (not out.is_dir() or any(out.iterdir()))):
        raise StoreError(f"{out} exists already and is not empty; choose another --out.")
    if not out.parent.is_dir():
        raise StoreError(f"The folder {out.parent} does not exist; make it first.")
    with closing(connect(store)) as connection, interruptible(connection):
        connection.execute("BEGIN")
        chosen = _chosen(connection, store, models, datasets)
        try:
            with unfinished_folder(out.parent, f".{out.name}.", ".partial") as partial:
                result = _Export(connection, partial, chosen, store.name, tell).write()
                partial.chmod(0o755)
                partial.rename(out)  # over an empty folder, or over nothing
        except OSError as error:
            raise StoreError(f"The export to {out} can't be written: {error.strerror or error}.") from None
    return result._replace(folder=out)


class _Chosen(NamedTuple):
    models: list[str]
    datasets: list[str]
    everything: bool


def _chosen(
    connection: sqlite3.Connection, store: Path, models: Sequence[str] | None, datasets: Sequence[str] | None
) -> _Chosen:
    found = []
    for kind, word, asked in (("model", "model", models), ("dataset", "data set", datasets)):
        known = [row[0] for row in connection.execute(f"SELECT {kind} FROM {kind}s ORDER BY position")]  # noqa: S608 - constants only
        missing = [name for name in asked or () if name not in known]
        if missing:
            shown = ", ".join(known) or "none"
            raise StoreError(f"{store} has no {word} named {missing[0]!r}; it has: {shown}.")
        found.append([name for name in known if asked is None or name in asked])
    return _Chosen(found[0], found[1], models is None and datasets is None)


class _Export:
    """One export on its way."""

    def __init__(self, connection: sqlite3.Connection, root: Path, chosen: _Chosen, store: str, tell: Tell) -> None:
        self._connection = connection
        self._root = root
        self._chosen = chosen
        self._store = store
        self._tell = tell
        self._models, self._datasets = Names("sentences"), Names()
        self._files: list[dict[str, Any]] = []
        self._rows = dict.fromkeys(TABLES, 0)
        self._runs: set[str] = set()
        self._answered: dict[str, list[str]] = {}

    def write(self) -> Exported:
        chosen = self._chosen
        cells = [(model, dataset) for model in chosen.models for dataset in chosen.datasets]
        for dataset in chosen.datasets:
            self._tell(f"sentences of {dataset}", 0, len(cells))
            self._put(TABLES["sentences"], sql.SENTENCES, {"dataset": dataset}, None, dataset)
        for done, (model, dataset) in enumerate(cells):
            self._tell(f"{model}, {dataset}", done, len(cells))
            self._cell(model, dataset)
        self._tell("everything else", len(cells), len(cells))
        for name, table in TABLES.items():
            if table.by == "all" and name != "runs" and self._wanted(name):
                self._put(table, *sql.selected(table, chosen.models, chosen.datasets))
        if chosen.everything:
            self._put(TABLES["responses"], sql.orphans(has_table(self._connection, "main", "second_answers")), {})
        # Last: by now it is known which runs something points at.
        self._put(TABLES["runs"], *sql.runs(None if chosen.everything else self._runs))
        self._texts()
        return Exported(self._root, len(self._files), sum(file["bytes"] for file in self._files), self._rows)

    def _wanted(self, name: str) -> bool:
        """Return whether a table is there, and whole: a part of a sample would be another sample."""
        people = name in ("samples", "sampled", "verdicts", "second_verdicts")
        return has_table(self._connection, "main", name) and (self._chosen.everything or not people)

    def _cell(self, model: str, dataset: str) -> None:
        values = {"model": model, "dataset": dataset}
        second = has_table(self._connection, "main", "second_answers")
        any_answer = self._connection.execute(sql.ANY_ANSWER, values).fetchone()
        if any_answer is None:
            return
        self._answered.setdefault(self._models.of(model), []).append(self._datasets.of(dataset))
        self._put(TABLES["predictions"], sql.ANSWERS, values, model, dataset)
        self._put(TABLES["responses"], sql.responses(second), values, model, dataset)

    def _put(
        self,
        table: Table,
        statement: str,
        values: dict[str, Any],
        model: str | None = None,
        dataset: str | None = None,
    ) -> None:
        """Write what a statement finds into files of a bounded size."""
        columns = columns_of(self._connection, table.name, table.columns)
        if table.name == "predictions":
            columns += columns_of(self._connection, "sentences", _CONVENIENCE)
        folder = self._root / self._folder(table, model, dataset)
        folder.mkdir(parents=True, exist_ok=True)
        runs = [at for at, column in enumerate(columns) if column.name == "run"]
        about = json.dumps(self._about(table, columns, model, dataset), ensure_ascii=True)
        for number, part in enumerate(parts_of(self._connection.execute(statement, values))):
            for at in runs:
                self._runs.update(row[at] for row in part)
            path = folder / f"{number:05d}.parquet"
            frame_of(columns, part).write_parquet(path, metadata={"hatevolution": about})
            self._rows[table.name] += len(part)
            self._files.append(
                {
                    "path": path.relative_to(self._root).as_posix(),
                    "table": table.name,
                    "model": model,
                    "dataset": dataset,
                    "rows": len(part),
                    **_measured(path),
                }
            )

    def _folder(self, table: Table, model: str | None, dataset: str | None) -> str:
        parts = [table.folder]
        if table.by == "cell" and model is None:
            parts = ["store", table.name]  # of no model: responses that no answer points at
        if model is not None:
            parts.append(self._models.of(model))
        if dataset is not None:
            parts.append(self._datasets.of(dataset))
        return "/".join(parts)

    def _about(self, table: Table, columns: Sequence[Column], model: str | None, dataset: str | None) -> dict[str, Any]:
        """Return what a file says of itself."""
        about: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "hatevolution": hatevolution.__version__,
            "table": table.name,
            "columns": {column.name: column.kind for column in columns},
        }
        if model is not None:
            row = self._connection.execute(sql.ABOUT_MODEL, [model]).fetchone()
            about["model"] = {"name": model, "fingerprint": row[0], "specification": json.loads(row[1])}
            about["versions"] = [
                json.loads(text) for (text,) in self._connection.execute(sql.VERSIONS, [model, dataset])
            ]
        if dataset is not None:
            row = self._connection.execute(sql.ABOUT_DATASET, [dataset]).fetchone()
            named = ("content_sha256", "sentences", "source", "licence")
            about["dataset"] = {"name": dataset, **dict(zip(named, row[:4], strict=True))}
            about["dataset"] |= {"files": json.loads(row[4]), "loader": json.loads(row[5])}
        return about

    def _texts(self) -> None:
        licences = [
            (name, licence, source)
            for name, licence, source in self._connection.execute(sql.LICENCES)
            if name in self._chosen.datasets
        ]
        # A split without rows can't be loaded by `datasets`, and then none of its configuration can.
        filled = {file["dataset"] for file in self._files if file["table"] == "sentences" and file["rows"]}
        folders = [self._datasets.of(name) for name in self._chosen.datasets if name in filled]
        page = card(self._answered, folders, licences)
        (self._root / CARD).write_text(page, encoding="utf-8")
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "hatevolution": hatevolution.__version__,
            "made_at": dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
            "store": self._store,
            "migrations": applied(self._connection),
            "everything": self._chosen.everything,
            "models": {name: self._models.of(name) for name in self._chosen.models},
            "datasets": {name: self._datasets.of(name) for name in self._chosen.datasets},
            "rows": self._rows,
            "files": self._files,
        }
        (self._root / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def _measured(path: Path) -> dict[str, Any]:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}
