"""``store import DIR``: what ``store export`` wrote, back into a store."""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hatevolution.errors import StoreError
from hatevolution.store.exchange.frames import columns_of, rows_of
from hatevolution.store.exchange.layout import FORMAT, MANIFEST, TABLES, VERSION
from hatevolution.store.exchange.merging import MergeReport, merge_stores
from hatevolution.store.exchange.scratch import scratch
from hatevolution.store.exchange.watch import interruptible, silent

if TYPE_CHECKING:
    from hatevolution.store.exchange.watch import Tell

__all__ = ["import_folder"]


class _File(msgspec.Struct, frozen=True):
    path: str
    table: str
    rows: int
    sha256: str


class _Manifest(msgspec.Struct, frozen=True):
    format: str
    version: int
    files: list[_File]


def import_folder(folder: Path, destination: Path, *, tell: Tell = silent) -> MergeReport:
    """Bring everything of an export into a store, as a merge does: the first answer of a key stays.

    Args:
        folder: What ``store export`` wrote.
        destination: The store; made where there is none.
        tell: Takes the progress, in files and then in sources.

    Raises:
        StoreError: It is no export, a file is missing or not as it was written, or it does not go with what the
            destination holds (see :func:`~hatevolution.store.exchange.merging.merge_stores`).
    """
    manifest = _manifest(folder)
    for done, file in enumerate(manifest.files):
        tell(f"checking {file.path}", done, len(manifest.files))
        _check(folder, file)
    order = list(TABLES)
    with scratch(destination) as made:
        files = sorted(manifest.files, key=lambda file: order.index(file.table))
        for done, file in enumerate(files):
            tell(f"reading {file.path}", done, len(files))
            with interruptible(made.connection):
                _read(made.connection, folder, file)
        path = made.finish(str(folder))
        return merge_stores([path], destination, tell=tell, names=[str(folder)])


def _manifest(folder: Path) -> _Manifest:
    path = folder / MANIFEST
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=_Manifest)
    except OSError as error:
        raise StoreError(f"{folder} is no export of a store: {path} can't be read ({error.strerror}).") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(f"{path} is not the manifest of an export: {error}.") from None
    if manifest.format != FORMAT:
        raise StoreError(f"{path} is not the manifest of an export of a store.")
    if manifest.version > VERSION:
        raise StoreError(f"{folder} was written by a newer version of hatevolution; update this installation.")
    unknown = sorted({file.table for file in manifest.files} - set(TABLES))
    if unknown:
        raise StoreError(f"{path} lists a table {unknown[0]!r}, which no store has.")
    return manifest


def _check(folder: Path, file: _File) -> None:
    path = folder / file.path
    if Path(file.path).is_absolute() or ".." in Path(file.path).parts:
        raise StoreError(f"The manifest of {folder} lists {file.path!r}, which is not inside it.")
    digest = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise StoreError(f"The export {folder} lacks {file.path} ({error.strerror}).") from None
    if digest.hexdigest() != file.sha256:
        raise StoreError(f"{path} is not the file that was written: its checksum is another one. Nothing was imported.")


def _read(connection: sqlite3.Connection, folder: Path, file: _File) -> None:
    import polars as pl

    table = TABLES[file.table]
    columns = columns_of(connection, table.name, table.columns)
    path = folder / file.path
    try:
        frame = pl.read_parquet(path, use_statistics=False, hive_partitioning=False, glob=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise StoreError(f"{path} can't be read as Parquet: {error}.") from None
    names = ", ".join(f'"{name}"' for name in table.columns)
    marks = ", ".join("?" * len(columns))
    # A response that two sets of answers came in stands in both of their files.
    guard = " WHERE NOT EXISTS (SELECT 1 FROM responses WHERE response = ?1)" if table.name == "responses" else ""
    statement = f"INSERT INTO {table.name} ({names}) SELECT {marks}{guard}"
    rows: Any = rows_of(columns, frame, str(path))
    try:
        connection.executemany(statement, rows)
    except (sqlite3.Error, OverflowError) as error:
        raise StoreError(f"{path} holds what a store can't hold: {error}.") from None
