"""From a data set's configuration to its files on this machine, and from those to sentences."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hatevolution.adapters.datasets.finding import LocatedFile, describe, find_files, pick
from hatevolution.configs.dataset_schema import format_of
from hatevolution.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hatevolution.configs.dataset_schema import DatasetConfig, Layout, SourceFile
    from hatevolution.domain import Sentence

__all__ = ["LocatedDataset", "MissingFileError", "locate"]

_LOADER_VERSION: Final = 1
"""Raised when a loader gives other sentences for the same files and the same configuration."""

_FORMAT_OPTIONS: Final = {"csv": ("encoding", "delimiter"), "xlsx": ("sheet",)}


class MissingFileError(DataError):
    """A data set's file is not where it was looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedDataset:
    """A data set whose files are there. Nothing of them has been read yet but their checksums."""

    config: DatasetConfig
    layout: Layout
    """The release that was found: the configuration itself, or one of its alternatives."""
    files: tuple[LocatedFile, ...]
    loader: dict[str, Any]
    """Plain JSON values that, together with the files' checksums, decide the sentences."""
    warnings: list[str] = field(default_factory=list)
    """One sentence each. Those about the files are there from the beginning, those about what is in them once
    :meth:`sentences` has been read to its end."""

    @property
    def name(self) -> str:
        """Key of its rows in the store."""
        return self.config.name

    @property
    def title(self) -> str:
        """How tables name it."""
        return self.config.label

    @property
    def source(self) -> str | None:
        """URL of the place that publishes it."""
        return self.config.source

    @property
    def licence(self) -> str | None:
        """As its authors state it."""
        return self.config.licence

    @property
    def expected_rows(self) -> int | None:
        """Number of sentences in the released files; None where unknown."""
        return self.config.expected.sentences

    def sentences(self) -> Iterator[Sentence]:
        """Yield the sentences in the source's order, checked; can be called again.

        Raises:
            DataError: While iterating: a row holds what it may not hold, or there is no row at all. The text names
                file, row and value.
        """
        config = self.config
        rows = self._rows()
        if config.expected.sentences is None and config.published.sentences is None and config.years is None:
            rows = self._not_empty(rows)
        else:
            rows = self._counted(rows)
        return rows

    def _rows(self) -> Iterator[Sentence]:
        path = self.files[0].path
        if self.layout.loader == "pairs":
            from hatevolution.adapters.datasets.pairs import pair_sentences

            return pair_sentences(path, self.layout, self._note)
        if self.layout.loader == "hatexplain-json":
            from hatevolution.adapters.datasets.hatexplain import hatexplain_sentences

            return hatexplain_sentences(path, self.files[1].path, self.layout)
        from hatevolution.adapters.datasets.table import table_sentences

        return table_sentences(path, self.layout)

    def _note(self, sentence: str) -> None:
        if sentence not in self.warnings:
            self.warnings.append(sentence)

    def _not_empty(self, rows: Iterator[Sentence]) -> Iterator[Sentence]:
        first = next(rows, None)
        if first is None:
            raise self._empty()
        yield first
        yield from rows

    def _counted(self, rows: Iterator[Sentence]) -> Iterator[Sentence]:
        labels: Counter[str | None] = Counter()
        years: Counter[int | None] = Counter()
        for sentence in rows:
            labels[sentence.gold] += 1
            years[sentence.year] += 1
            yield sentence
        count = labels.total()
        if not count:
            raise self._empty()
        for note in (*_size_notes(self.config, count, labels), *_year_notes(self.config, count, years)):
            self._note(note)

    def _empty(self) -> DataError:
        kept = " that its filters keep" if self.layout.filters else ""
        return DataError(f"{self.files[0].path} has no row{kept}, so {self.name} would be an empty data set.")


def locate(config: DatasetConfig, config_path: Path, data: Path | None) -> LocatedDataset:
    """Find a data set's files.

    Args:
        config: The set.
        config_path: Its TOML file; a ``path`` in it is relative to this file's folder.
        data: Folder below which released files are looked for by their names.

    Raises:
        MissingFileError: A file is not there; the text says where it was looked for and where to get it.
        DataError: A file can't be read, or several differ.
    """
    if config.path is not None:
        path = config_path.parent / Path(config.path).expanduser()
        if not path.is_file():
            raise MissingFileError(f"The data set {config.name} needs {path}, and there is no such file.")
        return _located(config, config, (describe(path),))
    if data is None:
        raise MissingFileError(_missing(config, None))
    layouts: tuple[Layout, ...] = (config, *config.alternatives)
    paths = find_files({source.name for layout in layouts for source in layout.files}, data)
    for layout in layouts:
        found = [pick(source, paths[source.name], data) for source in layout.files]
        files = tuple(file for file in found if file is not None)
        if len(files) == len(found):
            return _located(config, layout, files)
    raise MissingFileError(_missing(config, data))


def _located(config: DatasetConfig, layout: Layout, files: tuple[LocatedFile, ...]) -> LocatedDataset:
    return LocatedDataset(
        config=config,
        layout=layout,
        files=files,
        loader=_loader(layout, files[0].path),
        warnings=list(_file_notes(layout.files, files)),
    )


def _loader(layout: Layout, path: Path) -> dict[str, Any]:
    """Return what decides the sentences besides the files; where they came from and what is known of them does not."""
    kind = format_of(layout, path)
    names = ["columns", "labels", "filters", "replace", "no_year", *_FORMAT_OPTIONS.get(kind or "", ())]
    said: dict[str, Any] = json.loads(msgspec.json.encode({name: getattr(layout, name) for name in names}))
    said["columns"] = {name: value for name, value in said["columns"].items() if value}
    return {
        "loader": layout.loader or "table",
        "version": _LOADER_VERSION,
        "format": kind,
        **{name: value for name, value in said.items() if value},
    }


def _missing(config: DatasetConfig, data: Path | None) -> str:
    names = " or ".join(
        " and ".join(repr(source.name) for source in layout.files) for layout in (config, *config.alternatives)
    )
    where = "and no folder to look in was given with --data" if data is None else f"which is not below {data}"
    urls = [source.url for source in config.files if source.url is not None]
    folder = "DIR" if data is None else shlex.quote(str(data))
    if urls:
        place = f"get it with `hatevolution data fetch {config.name} --data {folder}`, or from {urls[0]}"
    else:
        place = f"get it from {config.source}" if config.source else "its configuration does not say where to get it"
    return f"The data set {config.name} needs the file {names}, {where}; {place}"


def _file_notes(sources: Sequence[SourceFile], files: Sequence[LocatedFile]) -> Iterator[str]:
    for source, file in zip(sources, files, strict=False):  # a set that is found by its path has no released files
        if source.sha256 is not None and source.sha256 != file.sha256:
            yield (
                f"{file.path} is not the released file: its sha256 begins {file.sha256[:12]} and it has "
                f"{file.bytes:,} bytes, the released one's {source.sha256[:12]}"
                + (f" and {source.bytes:,} bytes." if source.bytes else ".")
            )
        elif source.bytes is not None and source.bytes != file.bytes:
            yield f"{file.path} has {file.bytes:,} bytes, the released file {source.bytes:,}."


def _size_notes(config: DatasetConfig, count: int, labels: Counter[str | None]) -> Iterator[str]:
    expected, published = config.expected, config.published
    if expected.sentences is not None and expected.sentences != count:
        yield f"{config.name} has {count:,} sentences here, and {expected.sentences:,} as released."
    elif expected.sentences is None and published.sentences is not None and published.sentences != count:
        yield f"{config.name} has {count:,} sentences here, and {published.sentences:,} in the paper."
    for label, number in (("toxic", expected.toxic), ("respectful", expected.respectful)):
        if number is not None and labels[label] != number:
            yield f"{config.name} has {labels[label]:,} {label} sentences here, and {number:,} as released."


def _year_notes(config: DatasetConfig, count: int, years: Counter[int | None]) -> Iterator[str]:
    if config.years is None:
        return
    first, last = config.years
    outside = sum(number for year, number in years.items() if year is not None and not first <= year <= last)
    if outside:
        yield (
            f"{outside:,} of the {count:,} sentences of {config.name} are outside {first} to {last}, the years of the "
            "study; they are kept, and asked about too."
        )
