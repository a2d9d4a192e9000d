"""What may stand in a data set's TOML file, and how such a file becomes one complete configuration.

A set is described, not programmed: which columns hold what, which spellings mean toxic and respectful, which rows
count. The sets of the study are described in the same words as a user's own (``configs/datasets``).
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct, field

from hatevolution.configs.load import find, load_toml
from hatevolution.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "STUDY",
    "Columns",
    "DatasetConfig",
    "FileFormat",
    "Labels",
    "Layout",
    "LoaderKind",
    "Size",
    "SourceFile",
    "format_of",
    "load_dataset",
    "spelling",
]

STUDY: Final = (
    "singapore-online-attacks",
    "neobench",
    "hatexplain",
    "implicit-hate",
    "hatecheck",
    "dynabench",
)
"""The six sets of the study, by name."""

FileFormat = Literal["csv", "jsonl", "parquet", "xlsx"]
LoaderKind = Literal["table", "pairs", "hatexplain-json"]
Value = str | int | float | bool
"""How a label may be spelled in TOML; ``1`` stands for the cells ``1`` and (in typed formats) ``1.0`` alike."""
PositiveInt = Annotated[int, Meta(ge=1)]
NonNegativeInt = Annotated[int, Meta(ge=0)]

_SUFFIXES: Final[dict[str, FileFormat]] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".xlsx": "xlsx",
}


class SourceFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One released file."""

    # No separators, since a download is written under this name.
    name: Annotated[str, Meta(pattern=r"^[^/\\\x00]*[^/\\\x00.][^/\\\x00]*$", max_length=200)]
    """The name it is known by; found at any depth below ``--data``, case as here."""
    url: str | None = None
    """Where the file itself can be downloaded; None: see the set's ``source``."""
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")] | None = None
    """Of the released file; None: not known to this project."""
    bytes: PositiveInt | None = None


class Columns(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which column holds what; names exactly as in the file's header."""

    id: str | None = None
    """None: ids are made of the row number, ``row-2`` for the first row below the header."""
    text: str | None = None
    label: str | None = None
    year: str | None = None
    """A number such as 2021."""
    date: str | None = None
    """A date that begins as ISO 8601 does, ``2021-05-30``; its year is taken. Instead of ``year``."""
    pair: str | None = None
    role: str | None = None
    """Holds ``original`` or ``neologism``."""
    type: str | None = None
    functionality: str | None = None
    target: str | None = None
    meta: tuple[str, ...] = ()
    """Further columns to keep with each sentence, under their own names; empty cells are left out."""
    original: str | None = None
    """Loader ``pairs``: the sentence without the neologism."""
    neologism: str | None = None
    """Loader ``pairs``: the sentence with it."""
    annotators: tuple[str, ...] = ()
    """Loader ``pairs``: columns with one vote each; the gold label is what most of them say."""


class Labels(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The closed map of label spellings: any other one is an error that names the row."""

    toxic: Annotated[tuple[Value, ...], Meta(min_length=1)]
    respectful: Annotated[tuple[Value, ...], Meta(min_length=1)]


class Size(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Counts of sentences; None where unknown."""

    sentences: NonNegativeInt | None = None
    pairs: NonNegativeInt | None = None
    toxic: NonNegativeInt | None = None
    respectful: NonNegativeInt | None = None


class Layout(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the rows of some files become sentences."""

    loader: LoaderKind | None = None
    """``table``: a sentence per row (the default). ``pairs``: two sentences per row. ``hatexplain-json``: HateXplain's
    original pair of JSON files."""
    format: FileFormat | None = None
    """None: as the file's ending says."""
    files: tuple[SourceFile, ...] = ()
    """The released file; two for ``hatexplain-json``."""
    columns: Columns = Columns()
    labels: Labels | None = None
    """None: a set without gold labels."""
    filters: dict[str, Annotated[tuple[Value, ...], Meta(min_length=1)]] = field(default_factory=dict)
    """Column -> values; rows with another value are left out."""
    replace: dict[str, dict[str, str]] = field(default_factory=dict)
    """Column -> spelling in the file -> spelling to use."""
    no_year: tuple[str, ...] = ()
    """Cells of the year or date column that say there is none; an empty cell always does."""
    sheet: str | None = None
    """Of a workbook; None: the only one."""
    encoding: str | None = None
    """Of a CSV file; None: UTF-8, with or without byte order mark."""
    delimiter: Annotated[str, Meta(min_length=1, max_length=1)] | None = None
    """Of a CSV file; None: a comma, or a tab where the file's name ends in ``.tsv``."""


class DatasetConfig(Layout, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One data set."""

    name: Annotated[str, Meta(pattern=r"^\w[\w.+-]*$", max_length=200)]
    """Key of its rows in the store."""
    title: str | None = None
    """How tables name it; None: its name."""
    path: str | None = None
    """The file, relative to this TOML file; for sets that are found at a place, not by a name."""
    like: str | None = None
    """A set (name in configs/datasets, or path relative to this file) whose layout holds for this one too, except for
    what this file says itself."""
    alternatives: tuple[Layout, ...] = ()
    """Other releases of the same sentences, tried in this order where the first one's files are not there."""
    licence: str | None = None
    """As its authors state it; None: they state none, or it is a user's own."""
    source: str | None = None
    """URL of the place that publishes it."""
    citation: str | None = None
    note: str = ""
    """What a user has to know; shown by ``data list``."""
    expected: Size = Size()
    """As counted in the released files."""
    published: Size = Size()
    """As the study's paper says."""
    years: tuple[int, int] | None = None
    """First and last year of the study; sentences outside are kept, and counted in a warning."""

    @property
    def label(self) -> str:
        """The name that tables show."""
        return self.title or self.name


_INHERITED: Final = {item.name for item in msgspec.structs.fields(Layout)} - {"files"} | {"years"}
"""What ``like`` hands on: how rows are read, and nothing about where they come from."""


def load_dataset(reference: str, relative_to: Path | None = None) -> tuple[DatasetConfig, Path]:
    """Return a set's configuration, with what ``like`` hands on filled in, and the file it came from.

    Args:
        reference: A name in configs/datasets, or a path ending in ``.toml``.
        relative_to: Folder of the file that holds the reference; None for the working directory.

    Raises:
        ConfigError: There is no such file, or it does not describe a set that can be read.
    """
    path = find(reference, "datasets", relative_to)
    config = _with_inheritance(path, ())
    _validate(config, path)
    return config, path


def format_of(layout: Layout, path: PurePath) -> FileFormat | None:
    """Return a file's format: as the layout says, else as its ending says; None where neither does."""
    return layout.format or _SUFFIXES.get(path.suffix.lower())


def spelling(value: Value) -> str:
    """Return the text that a cell with this value is taken for: ``1`` for 1 and 1.0, ``true`` for a true boolean."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _with_inheritance(path: Path, below: tuple[Path, ...]) -> DatasetConfig:
    config = load_toml(path, DatasetConfig)
    if config.like is None:
        return config
    if path.resolve() in below:
        raise ConfigError(f"{path}: like = {config.like!r} leads back to this file.")
    try:
        base_path = find(config.like, "datasets", path.parent)
    except ConfigError as error:
        raise ConfigError(f"{path}, key 'like': {error}") from None
    base = _with_inheritance(base_path, (*below, path.resolve()))
    defaults = {item.name: _default(item) for item in msgspec.structs.fields(DatasetConfig)}
    unsaid = {name: getattr(base, name) for name in _INHERITED if getattr(config, name) == defaults[name]}
    return msgspec.structs.replace(config, **unsaid)


def _default(item: msgspec.structs.FieldInfo) -> object:
    return item.default_factory() if item.default_factory is not msgspec.NODEFAULT else item.default


def _validate(config: DatasetConfig, path: Path) -> None:
    if (config.path is None) == (not config.files):
        raise ConfigError(
            f"{path}: a data set needs either path (its file, relative to this one) or [[files]] "
            f"(the names that its files are known by), {'not both' if config.files else 'and has neither'}."
        )
    if config.path is not None and config.loader == "hatexplain-json":
        raise ConfigError(f"{path}: the loader hatexplain-json reads two files, so it needs [[files]] and not path.")
    place = PurePath(config.path) if config.path is not None else None
    for layout in (config, *config.alternatives):
        problem = _problem(layout, place)
        if problem is not None:
            raise ConfigError(f"{path}: {problem}.")


def _problem(layout: Layout, place: PurePath | None) -> str | None:
    """Return what makes a layout unreadable, or None."""
    if layout.loader == "hatexplain-json":
        if len(layout.files) != 2 or layout.labels is None:
            return "the loader hatexplain-json needs [labels] and two [[files]], the posts and the divisions"
        return None
    names = [PurePath(source.name) for source in layout.files] if place is None else [place]
    if len(names) != 1:
        return f"the loader {layout.loader or 'table'} reads one file, and [[files]] has {len(names)}"
    if format_of(layout, names[0]) is None:
        return (
            f"the ending of {names[0].name} does not tell its format; say it with format = csv, jsonl, parquet or xlsx"
        )
    return _columns_problem(layout) or _labels_problem(layout)


def _columns_problem(layout: Layout) -> str | None:
    columns = layout.columns
    if columns.year is not None and columns.date is not None:
        return "[columns] has both year and date; give the one to take the year from"
    if layout.loader == "pairs":
        if columns.original is None or columns.neologism is None:
            return "[columns] needs original and neologism (the two sentences of a row) for the loader pairs"
        extra = [name for name in ("text", "pair", "role") if getattr(columns, name) is not None]
        return f"[columns] can't have {extra[0]} with the loader pairs, which makes it" if extra else None
    if columns.text is None:
        return "[columns] needs text, the column with the sentences"
    extra = [name for name in ("original", "neologism", "annotators") if getattr(columns, name)]
    return f'[columns] has {extra[0]}, which only loader = "pairs" knows' if extra else None


def _labels_problem(layout: Layout) -> str | None:
    columns, labels = layout.columns, layout.labels
    judged = columns.label is not None or bool(columns.annotators)
    if judged and labels is None:
        return "[columns] names a label, so [labels] has to say which of its values are toxic and which respectful"
    if labels is None:
        return None
    if not judged:
        return "[labels] stands for nothing, as [columns] names no label"
    both = set(map(spelling, labels.toxic)) & set(map(spelling, labels.respectful))
    return f"[labels] has {sorted(both)[0]!r} as toxic and as respectful" if both else None
