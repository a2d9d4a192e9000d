"""What has to be true of stores before anything of one goes into another; checked before anything is written."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from hatevolution.configs.fingerprint import differences
from hatevolution.errors import StoreError
from hatevolution.store.reader import connect
from hatevolution.store.sentences import first_difference, sentence_rows

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

__all__ = ["Guard"]

_RUN = "started_at, who, command, configuration, git_revision"


class _Model(NamedTuple):
    holder: str
    fingerprint: str
    specification: str


class _Dataset(NamedTuple):
    holder: str
    path: Path
    content_sha256: str
    sentences: int
    files: str
    loader: str

    def surely_same(self, other: _Dataset) -> bool:
        """Same text under the same ids, read from the same bytes by the same loader: the same rows, labels included."""
        files = json.loads(self.files)
        return self[2:] == other[2:] and bool(files) and all(file.get("sha256") for file in files)


class Guard:
    """Holds each store against those seen before it.

    One name stands for one specification and one text, in all of them together.
    """

    def __init__(self) -> None:
        self._models: dict[str, _Model] = {}
        self._datasets: dict[str, _Dataset] = {}
        self._runs: dict[str, tuple[str, tuple[str, ...]]] = {}

    def add(self, path: Path, connection: sqlite3.Connection, holder: str) -> None:
        """Check a store, which error texts call ``holder``, and remember what it holds.

        Raises:
            StoreError: A model of its has another specification, a data set other rows, or a run another beginning than
                that of the same name in a store seen before; the text names both stores and what differs.
        """
        for name, *row in connection.execute("SELECT model, fingerprint, specification FROM models ORDER BY position"):
            self._model(name, _Model(holder, *row))
        columns = "dataset, content_sha256, sentences, files, loader"
        for name, *row in connection.execute(f"SELECT {columns} FROM datasets ORDER BY position"):  # noqa: S608 - constants only
            self._dataset(name, _Dataset(holder, path, *row), connection)
        for name, *row in connection.execute(f"SELECT run, {_RUN} FROM runs"):  # noqa: S608 - constants only
            self._run(name, holder, tuple(row))

    def _model(self, name: str, new: _Model) -> None:
        old = self._models.setdefault(name, new)
        if old.fingerprint == new.fingerprint:
            return
        changed = "; ".join(differences(json.loads(old.specification), json.loads(new.specification)))
        raise StoreError(
            f"{new.holder} holds answers of another specification under the model name {name!r} than {old.holder} "
            f"({changed or 'their fingerprints differ'}); nothing was merged. Leave it out, or merge it into another "
            f"--store."
        )

    def _dataset(self, name: str, new: _Dataset, connection: sqlite3.Connection) -> None:
        old = self._datasets.setdefault(name, new)
        if old is new or old.surely_same(new):
            return
        with closing(connect(old.path)) as stored:
            found = first_difference(sentence_rows(stored, name), sentence_rows(connection, name))
        if found is not None:
            raise StoreError(
                f"The data set {name} of {new.holder} is not the one of {old.holder}: {found}; nothing was merged. "
                f"Leave it out, or merge it into another --store."
            )

    def _run(self, name: str, path: str, beginning: tuple[str, ...]) -> None:
        holder, known = self._runs.setdefault(name, (path, beginning))
        if known != beginning:
            raise StoreError(
                f"{path} has a run {name} that began otherwise than the run of that name in {holder} (time, person, "
                f"command or configuration differ), so one of the two is not what it says; nothing was merged."
            )
