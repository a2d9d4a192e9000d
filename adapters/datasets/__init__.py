"""Data sets: found on the disk, checked, read as a stream of sentences; and downloaded.

``locate`` is the way in: it finds a set's files and returns a :class:`LocatedDataset`, whose ``sentences()`` reads
them. A set is described by its TOML file alone; there are three loaders (a table with one sentence per row, a table
with a pair per row, HateXplain's original JSON) and four formats of tables.
"""

from __future__ import annotations

from hatevolution.adapters.datasets.finding import LocatedFile
from hatevolution.adapters.datasets.located import LocatedDataset, MissingFileError, locate

__all__ = ["LocatedDataset", "LocatedFile", "MissingFileError", "locate"]
