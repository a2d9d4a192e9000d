"""Which years of a set the tables have.

A set's configuration says so (``years``); sentences outside are kept in the store. Like a model's parser, that is the
analysis' business alone and no part of what identifies the rows. The newest run that used the set knows it; for sets of
stores whose runs do not say, the shipped configuration of that name does.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hatevolution.configs.dataset_schema import load_dataset
from hatevolution.configs.load import shipped_names

if TYPE_CHECKING:
    import sqlite3

__all__ = ["study_years"]


def study_years(connection: sqlite3.Connection) -> dict[str, tuple[int, int]]:
    """Return first and last year of each set that has such a range; of the others every year counts."""
    found: dict[str, tuple[int, int] | None] = {}
    for (configuration,) in connection.execute("SELECT configuration FROM runs ORDER BY run"):
        for entry in json.loads(configuration).get("datasets", ()):
            if "years" in entry:
                found[entry["name"]] = (entry["years"][0], entry["years"][1]) if entry["years"] else None
    dated = connection.execute("SELECT DISTINCT dataset FROM sentences WHERE year IS NOT NULL")
    unsaid = [name for (name,) in dated if name not in found]
    for name in set(unsaid) & set(shipped_names("datasets")):
        found[name] = load_dataset(name)[0].years
    return {name: years for name, years in found.items() if years is not None}
