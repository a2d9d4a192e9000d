"""The study's published figures, and the rankings released with it, as shipped (``analysis/published``).

Source: Di Bonaventura, McGillivray, He, Meroño-Peñuela (2025), *Hatevolution: What Static Benchmarks Don't Tell Us*,
Findings of ACL, 17695-17707 (arXiv 2506.12148). ``counted.csv`` is no table of the paper: it holds what the released
files hold, counted.
"""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "BASELINE",
    "PAIRS_SET",
    "STATIC",
    "TYPES",
    "YEARS",
    "count",
    "decimals",
    "number",
    "places",
    "released_columns",
    "table",
]

FILES: Final = {
    "2": "table2_datasets.csv",
    "3": "table3_time_sensitive_f1.csv",
    "4": "table4_counterfactual.csv",
    "5": "table5_spearman_static_vs_time.csv",
    "A1": "tableA1_f1_std.csv",
    "A2": "tableA2_flip_by_year.csv",
    "A3": "tableA3_hallucination_by_year.csv",
    "A4": "tableA4_flip_by_type.csv",
    "A5": "tableA5_hallucination_by_type.csv",
    "A6": "tableA6_hallucination_variants.csv",
    "A7": "tableA7_hatecheck.csv",
    "A8": "tableA8_dynabench.csv",
    "A9": "tableA9_hatexplain.csv",
    "A10": "tableA10_implicit_hate.csv",
    "A11": "tableA11_spearman_static.csv",
    "A12": "tableA12_ci_static_vs_time.csv",
    "A13": "tableA13_ci_static.csv",
}

STATIC: Final = {"HateCheck": "A7", "Dynabench": "A8", "HateXplain": "A9", "Implicit Hate": "A10"}
"""Name in the correlation tables -> table of its scores."""
BASELINE: Final = "TimeLMs"
"""The composite baseline, no model of its own: not ranked."""
PAIRS_SET: Final = "NeoBench"
YEARS: Final = tuple(range(2017, 2023))
TYPES: Final = ("Lexical", "Morphological", "Semantic")


@cache
def table(key: str) -> Mapping[str, Mapping[str, str]]:
    """Return a published table: row -> column -> text, without the column of the rows' names.

    Raises:
        KeyError: The study has no such table.
    """
    rows = _read(FILES[key])
    corner = next(iter(rows[0]))
    return {row[corner]: {name: text for name, text in row.items() if name != corner} for row in rows}


def _read(name: str) -> list[dict[str, str]]:
    text = (files("hatevolution.analysis") / "published" / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def number(text: str) -> float | None:
    """Return a published figure; None for ``-`` and for what is no number.

    >>> number(".5176"), number("-"), number("$3000$")
    (0.5176, None, 3000.0)
    """
    try:
        return float(text.strip("$"))
    except ValueError:
        return None


def decimals(text: str) -> int:
    """Return how many decimals a figure was published with.

    >>> decimals(".5176"), decimals("3.98"), decimals("$3000$")
    (4, 2, 0)
    """
    return len(text.strip("$").partition(".")[2])


@cache
def places() -> Mapping[str, tuple[str, ...]]:
    """Return the released rankings: column -> models, by their published names, best first."""
    names = {row["released"]: row["published"] for row in _read("released_names.csv")}
    return {column: tuple(names[name] for name in order) for column, order in released_columns().items()}


@cache
def released_columns() -> Mapping[str, tuple[str, ...]]:
    """Return the released rankings as released: column -> names in order of rank.

    Columns are named ``Experiment 1``, ``Experiment 2`` or after the static set.
    """
    rows = _read("released_rankings.csv")
    return {
        (name[:12] if name.startswith("Experiment") else name): tuple(row[name] for row in rows) for name in rows[0]
    }


@cache
def count(dataset: str, what: str) -> int:
    """Return a count of the released files."""
    known = {(row["dataset"], row["what"]): int(row["count"]) for row in _read("counted.csv")}
    return known[dataset, what]
