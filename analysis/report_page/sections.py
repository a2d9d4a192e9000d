"""The sections of the page: which figures and tables stand where, and the sentences around them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from hatevolution.analysis.report_page.answers import broken_answers
from hatevolution.analysis.report_page.overview import coverage, runs, summary
from hatevolution.analysis.report_page.published import published
from hatevolution.analysis.report_page.rank_tables import correlation_table, rank_table
from hatevolution.analysis.report_page.section import Section, Text
from hatevolution.analysis.report_page.tables import plain_table, study_table
from hatevolution.analysis.report_page.trend_table import trend_tables

if TYPE_CHECKING:
    from hatevolution.analysis.report_page.content import Content
    from hatevolution.analysis.report_page.figures import Figure
    from hatevolution.analysis.report_page.tables import PageTable
    from hatevolution.analysis.tables import Table

__all__ = ["sections"]


_REST: Final = "more"
_PLACES: Final = {
    "experiment-1": ("3", "A1"),
    "experiment-2": ("4", "A2", "A3", "A4", "A5", "A6"),
    "static": ("A7", "A8", "A9", "A10", "static"),
    "ranks": ("5", "A11", "A12", "A13"),
    "groups": ("functionality", "target"),
    "provenance": ("2",),
}
"""Which of the study's tables stand where; all others stand in the section ``more``."""


def sections(content: Content) -> list[Section]:
    """Return the sections that a store has something for, in the order of the page."""
    made = (
        summary(content),
        runs(content),
        coverage(content),
        _study(
            content,
            "experiment-1",
            "Experiment 1: sentences over the years",
            content.year_figures,
            trend_tables(content),
        ),
        _study(content, "experiment-2", "Experiment 2: pairs with neologisms", content.pair_figures),
        _study(content, "static", "Static sets"),
        _ranks(content),
        broken_answers(content),
        published(content),
        _study(content, "groups", "By functionality and target"),
        _study(content, "more", "Further tables"),
        _provenance(content),
    )
    return [section for section in made if section is not None]


def _study(
    content: Content, id: str, title: str, figures: tuple[Figure, ...] = (), more: tuple[PageTable, ...] = ()
) -> Section | None:
    tables = (*_tables_of(content, id), *more)
    return Section(id=id, title=title, figures=figures, tables=tables) if tables or figures else None


def _tables_of(content: Content, section: str) -> tuple[PageTable, ...]:
    """Return the study's tables that stand in a section, in its order."""
    keys = _PLACES.get(section, ())
    placed = {key for found in _PLACES.values() for key in found}
    bases = [(table.key.partition(":")[0], table) for table in content.report.tables]
    if section == _REST:
        return tuple(study_table(table) for base, table in bases if base not in placed)
    own = [(keys.index(base), table) for base, table in bases if base in keys and _says_something(table)]
    return tuple(study_table(table) for _, table in sorted(own, key=lambda pair: pair[0]))


def _says_something(table: Table) -> bool:
    """Whether a table is of scores, or has the correlation of any two different rankings."""
    return table.key not in _PLACES["ranks"] or any(
        any(map(str.isdigit, cell.text))
        for row in table.rows
        for column, cell in zip(table.columns, row.cells, strict=True)
        if column.full_name != row.name
    )


def _ranks(content: Content) -> Section | None:
    more = (rank_table(content), correlation_table(content))
    tables = (*_tables_of(content, "ranks"), *(table for table in more if table is not None))
    if not tables and not content.rank_figures:
        return None
    return Section(
        id="ranks", title="Static and time-sensitive rankings", figures=content.rank_figures, tables=tables
    )  # fmt: skip


def _provenance(content: Content) -> Section:
    records, options = content.provenance, content.options
    how = {
        "parser": options.parser,
        "policies": sorted({model.policy.identity for model in content.report.study.models}),
        "invalid": options.invalid,
        "seed": options.seed,
        "resamples": options.resamples,
        "samples": options.samples,
        "models": None if options.models is None else list(options.models),
        "datasets": None if options.datasets is None else list(options.datasets),
        "versions": content.versions,
        "schema": list(records.schema),
    }
    datasets = plain_table(
        "table-datasets",
        "Data sets",
        ("Data set", "Title", "Sentences", "Source", "Licence", "sha256 of ids and texts", "Files (sha256)"),
        [(d.dataset, d.title, d.sentences, d.source, d.licence, d.content_sha256, d.files) for d in records.datasets],
    )
    models = plain_table(
        "table-models",
        "Models",
        ("Model", "Title", "Served as", "Fingerprint of the specification"),
        [(m.model, m.title, m.served, m.fingerprint) for m in records.models],
    )
    texts = [Text("How this page was made", json.dumps(how, indent=1, ensure_ascii=False))]
    texts += [Text(f"Model {m.model}: specification", m.specification) for m in records.models]
    texts += [
        Text(f"Model {m.model}: whole configuration, as of its last run", m.configuration) for m in records.models
    ]
    texts += [Text(f"Configuration of {_short(runs)}", text) for runs, text in records.configurations]
    texts += [Text(f"Run {run.run}: versions", f"{run.command}\n{run.versions}") for run in records.runs[-8:]]
    return Section(
        id="provenance",
        title="Provenance",
        tables=(*_tables_of(content, "provenance"), datasets, models),
        texts=tuple(texts),
    )


def _short(runs: str) -> str:
    names = runs.split(", ")
    return runs if len(names) <= 3 else f"{names[0]}, ..., {names[-1]} ({len(names)} runs)"
