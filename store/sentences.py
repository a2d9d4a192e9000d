"""Sentences into the store, in a stream; and the check that a stored set is still the same."""

from __future__ import annotations

import json
import sqlite3
from itertools import count, islice, repeat, zip_longest
from typing import TYPE_CHECKING, Any

from hatevolution.domain import Label, Role, Sentence
from hatevolution.errors import DataError, StoreError
from hatevolution.store.rows import without_nulls
from hatevolution.store.text import encode

if TYPE_CHECKING:
    import hashlib
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

__all__ = ["compare_sentences", "content_bytes", "first_difference", "insert_sentences", "sentence_rows"]

_BLOCK = 5_000

_COLUMNS = "dataset, position, sentence, text, gold, gold_raw, year, pair, role, type, functionality, target, meta"

Row = tuple[Any, ...]


_LABELS: dict[Label | None, str | None] = {None: None, **{label: label.value for label in Label}}
_ROLES: dict[Role | None, str | None] = {None: None, **{role: role.value for role in Role}}


def _rows(dataset: str, position: int, block: Sequence[Sentence]) -> list[Row]:
    """Return the rows of sentences that follow each other; column by column, since there may be millions."""
    fields = dict(zip(Sentence._fields, zip(*block, strict=True), strict=True))
    fields["gold"] = tuple(map(_LABELS.__getitem__, fields["gold"]))
    fields["role"] = tuple(map(_ROLES.__getitem__, fields["role"]))
    fields["meta"] = tuple(json.dumps(dict(meta), ensure_ascii=True) if meta else None for meta in fields["meta"])
    columns = (fields["id" if name == "sentence" else name] for name in _COLUMNS.split(", ")[2:])
    # The columns of the sentences end it; the first two have no end.
    return list(zip(repeat(dataset), count(position), *columns, strict=False))


def _encoded(row: Row) -> Row:
    return tuple(encode(value) if isinstance(value, str) else value for value in row)


def content_bytes(sentence_id: str, text: str) -> bytes:
    """Return what a set's content hash takes in of a sentence; lengths keep id and text apart."""
    encoded = text.encode("utf-8", "surrogatepass")
    return b"%d:%s%d:%s" % (len(sentence_id), sentence_id.encode(), len(encoded), encoded)


def insert_sentences(
    connection: sqlite3.Connection, dataset: str, sentences: Iterable[Sentence], digest: hashlib._Hash
) -> int:
    """Insert all sentences of a set, in their order, and return their number.

    Raises:
        DataError: An id occurs twice, or holds an unpaired surrogate.
    """
    position = 0
    stream = iter(sentences)
    while block := list(islice(stream, _BLOCK)):
        try:
            digest.update(b"".join([content_bytes(sentence.id, sentence.text) for sentence in block]))
        except UnicodeEncodeError:
            raise DataError(f"The data set {dataset} has an id that is not valid Unicode; ids have to be.") from None
        _insert_block(connection, dataset, _rows(dataset, position, block))
        position += len(block)
    return position


def _insert_block(connection: sqlite3.Connection, dataset: str, rows: list[Row]) -> None:
    names, filled = without_nulls(_COLUMNS.split(", "), rows)
    statement = f"INSERT INTO sentences ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"  # noqa: S608 - constants only
    connection.execute("SAVEPOINT block")
    try:
        try:
            connection.executemany(statement, filled)
        except UnicodeEncodeError:
            connection.execute("ROLLBACK TO block")
            connection.executemany(statement, map(_encoded, filled))
    except sqlite3.IntegrityError as error:
        connection.execute("ROLLBACK TO block")
        raise DataError(_why(connection, dataset, rows, error)) from None
    connection.execute("RELEASE block")


def _why(connection: sqlite3.Connection, dataset: str, rows: list[Row], error: sqlite3.IntegrityError) -> str:
    seen: set[str] = set()
    for row in rows:
        known = (
            row[2] in seen
            or connection.execute(
                "SELECT 1 FROM sentences WHERE dataset = ? AND sentence = ?", [dataset, row[2]]
            ).fetchone()
        )
        if known:
            return (
                f"The data set {dataset} has the id {row[2]!r} twice (the second time as its sentence number "
                f"{row[1] + 1}); every sentence needs an id of its own."
            )
        seen.add(row[2])
    return f"The data set {dataset} can't be stored: {error}."


def compare_sentences(connection: sqlite3.Connection, path: Path, dataset: str, sentences: Iterable[Sentence]) -> int:
    """Check that a set's sentences are those in the store, in the same order, and return their number.

    Raises:
        StoreError: One differs, is missing, or is new; the text names the first.
    """
    stored = sentence_rows(connection, dataset)
    number = 0
    for number, (old, new) in enumerate(_side_by_side(stored, dataset, sentences), 1):
        if old is not None and new is not None and _essence(old) == _essence(new):
            continue
        raise StoreError(
            f"The data set {dataset} is no longer the one in {path}: sentence number {number} "
            f"({_difference(old, new)}); give the changed set a new name, or use another --store."
        )
    return number


def _essence(row: Row) -> Row:
    """Return what answers and numbers depend on.

    The spelling of the label, the target and the notes may differ between two releases of one set (HateXplain's
    spreadsheet and its JSON); the stored ones stay.
    """
    return row[:5] + row[6:11]


def sentence_rows(connection: sqlite3.Connection, dataset: str) -> Iterator[Row]:
    """Return a set's rows as they are stored, in their order."""
    return connection.execute(
        f"SELECT {_COLUMNS} FROM sentences WHERE dataset = ? ORDER BY position",  # noqa: S608 - constants only
        [dataset],
    )


def first_difference(stored: Iterable[Row], other: Iterable[Row]) -> str | None:
    """Return what the first difference of two stored sets is, such as ``sentence number 3 (id '3', changed: text)``."""
    for number, (old, new) in enumerate(zip_longest(stored, other), 1):
        if old != new:
            return f"sentence number {number} ({_difference(old, new)})"
    return None


def _side_by_side(
    stored: Iterator[Row], dataset: str, sentences: Iterable[Sentence]
) -> Iterator[tuple[Row | None, Row | None]]:
    position, stream = 0, iter(sentences)
    while block := list(islice(stream, _BLOCK)):
        for row in _rows(dataset, position, block):
            yield next(stored, None), _encoded(row)
        position += len(block)
    rest = next(stored, None)
    if rest is not None:
        yield rest, None


def _difference(old: Row | None, new: Row | None) -> str:
    if old is None and new is not None:
        return f"id {new[2]!r} is not in the store"
    if new is None and old is not None:
        return f"id {old[2]!r} is no longer in the set"
    if old is None or new is None:
        return "missing"
    if old[2] != new[2]:
        return f"id {old[2]!r} in the store, {new[2]!r} now"
    names = _COLUMNS.split(", ")
    changed = [name for name, before, after in zip(names, old, new, strict=True) if before != after]
    return f"id {old[2]!r}, changed: {', '.join(changed)}"
