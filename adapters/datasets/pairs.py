"""Two sentences per row, one with a neologism and one without: the loader of NeoBench and of sets like it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hatevolution.adapters.datasets.rows import Block, Wanted, bad_row, read_blocks
from hatevolution.adapters.datasets.table import Ids, golds_of, years_of
from hatevolution.adapters.datasets.values import Years, gold_labels
from hatevolution.domain import Label, Role, Sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from hatevolution.configs.dataset_schema import Layout

__all__ = ["IDENTICAL", "pair_sentences"]

IDENTICAL: Final = "identical_pair"
"""Key of the meta data of pairs whose two sentences are the same text, with the value ``true``: no deterministic model
can flip them."""
_ROWS_NAMED: Final = 12
_FIELDS: Final = ("id", "original", "neologism", "label", "year", "date", "type", "functionality", "target")

Gold = tuple[Label | None, str | None]


def pair_sentences(path: Path, layout: Layout, note: Callable[[str], None]) -> Iterator[Sentence]:
    """Yield for each row the original and then the sentence with the neologism, under ids such as ``row-2-original``.

    The gold label is what most annotators say; a label column beside them is not believed, only compared.

    Args:
        path: The file.
        layout: How it is to be read.
        note: Takes one-sentence remarks about the set; called after the last sentence.

    Raises:
        DataError: A row holds what it may not hold; the text names file, row and value.
    """
    columns = layout.columns
    used = {name: column for name in _FIELDS if (column := getattr(columns, name)) is not None}
    names = (*used.values(), *columns.annotators, *columns.meta)
    required = frozenset(column for name, column in used.items() if name in ("id", "original", "neologism"))
    wanted = Wanted(names=names, required=required | {*columns.annotators}, exact=columns.id)
    ids = Ids(path, columns.id)
    years = Years(dates=columns.date is not None, none=layout.no_year)
    doubtful: list[int] = []
    for block in read_blocks(path, layout, wanted):
        cells = dict(zip(used, block.columns, strict=False))
        rest = block.columns[len(used) :]
        votes, meta = rest[: len(columns.annotators)], rest[len(columns.annotators) :]
        kept = _by_row((*columns.annotators, *columns.meta), [*votes, *meta], len(block.numbers))
        rows = zip(
            block.numbers,
            ids.of(block, cells.get("id")),
            cells["original"],
            cells["neologism"],
            _golds(path, layout, block, votes, cells.get("label"), doubtful),
            years_of(path, block, years, cells.get("year", cells.get("date"))),
            _by_row(("type", "functionality", "target"), _given(cells), len(block.numbers)),
            kept,
            strict=False,  # years of a set without any repeat without end
        )
        for number, pair, original, neologism, gold, year, known, extra in rows:
            if original is None or neologism is None:
                lacking = columns.original if original is None else columns.neologism
                raise bad_row(path, number, f"there is no text in {lacking!r}")
            yield from _both(pair, original, neologism, gold, year, known, extra)
    if doubtful:
        note(_disagreement(path, columns.label, doubtful))


def _both(
    pair: str,
    original: str,
    neologism: str,
    gold: Gold,
    year: int | None,
    known: Mapping[str, str],
    meta: dict[str, str],
) -> Iterator[Sentence]:
    """Yield the two sentences of a pair, which differ in text and role alone."""
    marked = {**meta, IDENTICAL: "true"} if original == neologism else meta
    for role, text in ((Role.ORIGINAL, original), (Role.NEOLOGISM, neologism)):
        yield Sentence(
            id=f"{pair}-{role}",
            text=text,
            gold=gold[0],
            gold_raw=gold[1],
            year=year,
            pair=pair,
            role=role,
            type=known.get("type"),
            functionality=known.get("functionality"),
            target=known.get("target"),
            meta=marked,
        )


def _given(cells: Mapping[str, Sequence[str | None]]) -> list[Sequence[str | None]]:
    return [cells.get(name, ()) for name in ("type", "functionality", "target")]


def _by_row(names: Sequence[str], columns: Sequence[Sequence[str | None]], height: int) -> list[dict[str, str]]:
    """Return for each row what its cells say, by name; empty cells and absent columns are left out."""
    present = [(name, column) for name, column in zip(names, columns, strict=True) if column]
    return [{name: cell for name, column in present if (cell := column[at])} for at in range(height)]


def _golds(
    path: Path,
    layout: Layout,
    block: Block,
    votes: Sequence[Sequence[str | None]],
    label: Sequence[str | None] | None,
    doubtful: list[int],
) -> list[Gold]:
    """Return gold label and its spelling for each row, and note the rows whose label column says something else."""
    golds, columns = gold_labels(layout.labels), layout.columns
    if not votes:
        if label is None:
            return [(None, None)] * len(block.numbers)
        return list(zip(golds_of(path, block, columns.label, label, golds), label, strict=True))
    judged = [golds_of(path, block, name, cells, golds) for name, cells in zip(columns.annotators, votes, strict=True)]
    found: list[Gold] = []
    for at, number in enumerate(block.numbers):
        row = [column[at] for column in judged]
        toxic = row.count(Label.TOXIC)
        if 2 * toxic == len(row):
            raise bad_row(path, number, f"{toxic} of {len(row)} annotators say toxic, so there is no majority")
        gold = Label.TOXIC if 2 * toxic > len(row) else Label.RESPECTFUL
        found.append((gold, votes[row.index(gold)][at]))
        if label is not None and golds.get(label[at]) is not gold:
            doubtful.append(number)
    return found


def _disagreement(path: Path, column: str | None, rows: Sequence[int]) -> str:
    named = ", ".join(map(str, rows[:_ROWS_NAMED])) + (", ..." if len(rows) > _ROWS_NAMED else "")
    where = f"row {named}" if len(rows) == 1 else f"{len(rows)} rows ({named})"
    return f"In {where} of {path.name}, {column!r} is not what most annotators say; the majority is used."
