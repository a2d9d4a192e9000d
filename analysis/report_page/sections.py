"""The sections of the page: which figures and tables stand where, and the sentences around them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from hatevolution.analysis.report_page.foreign import Shown, shown
from hatevolution.analysis.report_page.rank_tables import correlation_table, rank_table
from hatevolution.analysis.report_page.tables import Heading, PageCell, PageTable, plain_table, study_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from hatevolution.analysis.audit.records import AnswerRow
    from hatevolution.analysis.report_page.content import Content
    from hatevolution.analysis.report_page.figures import Figure

__all__ = ["Fact", "Sample", "Samples", "Section", "Text", "sections"]

_SENTENCE_LIMIT: Final = 1000
_ANSWER_LIMIT: Final = 1500
"""Characters of a sample that are shown."""
_KEY_LIMIT: Final = 200

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


class Fact(NamedTuple):
    """A number worth seeing first."""

    name: str
    value: str
    more: str = ""


class Text(NamedTuple):
    """A long text that is folded away."""

    title: str
    text: str
    note: str = ""


class Sample(NamedTuple):
    """One broken answer, ready to be shown."""

    model: str
    dataset: str
    sentence: str
    kind: str
    kinds: tuple[str, ...]
    gold: str | None
    finish_reason: str | None
    text: Shown
    answer: Shown | None
    """None where the endpoint gives scores and no text."""
    scores: str


class Samples(NamedTuple):
    """Samples of broken answers."""

    rows: tuple[Sample, ...]
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One section."""

    id: str
    title: str
    intro: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """Smaller, and below the facts."""
    facts: tuple[Fact, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[PageTable, ...] = ()
    samples: Samples | None = None
    texts: tuple[Text, ...] = ()


def sections(content: Content) -> list[Section]:
    """Return the sections that a store has something for, in the order of the page."""
    made = (
        _summary(content),
        _runs(content),
        _coverage(content),
        _study(content, "experiment-1", "Experiment 1: sentences over the years", content.year_figures),
        _study(content, "experiment-2", "Experiment 2: pairs with neologisms", content.pair_figures),
        _study(content, "static", "Static sets"),
        _ranks(content),
        _broken(content),
        _study(content, "groups", "By functionality and target"),
        _study(content, "more", "Further tables"),
        _provenance(content),
    )
    return [section for section in made if section is not None]


def _summary(content: Content) -> Section:
    study, cells = content.report.study, content.provenance.cells
    total = sum(cell.total for cell in cells)
    answered = sum(cell.answered for cell in cells)
    broken = sum(row.answers for row in content.broken.kinds)
    facts = [
        Fact("Models", f"{len(study.models)}"),
        Fact("Data sets", f"{len(study.datasets)}", f"{sum(item.sentences for item in study.datasets):,} sentences"),
        Fact("Answers", f"{answered:,}", f"of {total:,} that were asked for"),
        Fact("Broken answers", f"{broken:,}", f"{100 * broken / answered:.2f} % of the answers" if answered else ""),
        Fact("Refused", f"{sum(cell.refused for cell in cells):,}"),
        Fact("Rejected", f"{sum(cell.rejected for cell in cells):,}"),
        Fact("Missing", f"{sum(cell.pending for cell in cells):,}"),
    ]
    cost = sum(item.cost_usd for item in content.provenance.spend)
    if cost:
        facts.append(Fact("Spent", f"${cost:,.2f}"))
    for ranking in content.report.rankings:
        ranked = {name: value for name, value in ranking.goodness.items() if value != float("-inf")}
        if len(ranked) > 1:
            best = max(ranked, key=lambda name: ranked[name])
            title = next(model.title for model in study.models if model.name == best)
            facts.append(Fact(f"Best in {ranking.name}", title, _measure(ranking.measure, ranked[best])))
    return Section(id="summary", title="At a glance", notes=tuple(content.report.footer()), facts=tuple(facts))


def _measure(measure: str, value: float) -> str:
    if measure == "label_flip":
        return f"label flips {100 * abs(value):.2f} %"
    return f"{measure.replace('_', ' ').replace('f1', 'F1')} {value:.4f}"


def _runs(content: Content) -> Section:
    rows = [
        (run.run, run.started_at, run.ended_at, run.outcome or "no end recorded", run.answers, run.git_revision)
        for run in content.provenance.runs
    ]
    table = plain_table(
        "table-runs",
        "Runs, oldest first (times in UTC)",
        ("Run", "Started", "Ended", "Outcome", "Answers", "Revision of the program"),
        rows,
    )
    return Section(id="runs", title="What ran and when", tables=(table,))


def _coverage(content: Content) -> Section:
    study, cells = content.report.study, content.provenance.cells
    known = {(cell.model, cell.dataset): cell for cell in cells}
    rows = []
    for model in study.models:
        row = []
        for item in study.datasets:
            cell = known.get((model.name, item.name))
            if cell is None:
                row.append(PageCell("not asked"))
                continue
            done = cell.total - cell.pending
            share = done / cell.total if cell.total else 1.0
            # 99.996 % is not everything.
            percent = "100 %" if done == cell.total else f"{min(99.99, 100 * share):.2f} %"
            row.append(PageCell(percent, share, "" if done == cell.total else f"{done}/{cell.total}"))
        rows.append((model.title, tuple(row)))
    matrix = PageTable(
        id="table-coverage",
        caption="Sentences with a prediction (answered, refused or rejected)",
        corner="Model",
        over=(),
        headings=tuple(Heading(item.title, item.sentences, number=True) for item in study.datasets),
        rows=tuple(rows),
    )
    titles = {model.name: model.title for model in study.models}
    sets = {item.name: item.title for item in study.datasets}
    short = [cell for cell in cells if cell.answered != cell.total or cell.failed_attempts]
    rest = plain_table(
        "table-not-answered",
        "Where not everything was answered at the first attempt",
        ("Model", "Data set", "Sentences", "Answered", "Refused", "Rejected", "Missing", "Failed attempts"),
        [(titles[cell.model], sets[cell.dataset], *cell[2:]) for cell in short],
        notes=("A refusal is the provider’s; a rejected sentence can’t be sent to that model. Neither is an answer.",),
    )
    tables = (matrix, *([rest] if short else []), *_spend(content, titles))
    return Section(id="coverage", title="Coverage", tables=tables)


def _spend(content: Content, titles: dict[str, str]) -> list[PageTable]:
    rows = [
        (titles[item.model], item.requests, item.prompt_tokens, item.completion_tokens, item.cost_usd)
        for item in content.provenance.spend
    ]
    if not rows:
        return []
    headings = ("Model", "Responses", "Prompt tokens", "Completion tokens", "US dollars")
    return [plain_table("table-spend", "What the answers took", headings, rows)]


def _study(content: Content, id: str, title: str, figures: tuple[Figure, ...] = ()) -> Section | None:
    tables = _tables_of(content, id)
    return Section(id=id, title=title, figures=figures, tables=tables) if tables or figures else None


def _tables_of(content: Content, section: str) -> tuple[PageTable, ...]:
    """Return the study's tables that stand in a section, in its order."""
    keys = _PLACES.get(section, ())
    placed = {key for found in _PLACES.values() for key in found}
    bases = [(table.key.partition(":")[0], table) for table in content.report.tables]
    if section == _REST:
        return tuple(study_table(table) for base, table in bases if base not in placed)
    own = [(keys.index(base), table) for base, table in bases if base in keys]
    return tuple(study_table(table) for _, table in sorted(own, key=lambda pair: pair[0]))


def _ranks(content: Content) -> Section | None:
    more = (rank_table(content), correlation_table(content))
    tables = (*_tables_of(content, "ranks"), *(table for table in more if table is not None))
    if not tables and not content.rank_figures:
        return None
    return Section(
        id="ranks", title="Static and time-sensitive rankings", figures=content.rank_figures, tables=tables
    )  # fmt: skip


def _broken(content: Content) -> Section:
    found = content.broken
    titles = {model.name: model.title for model in content.report.study.models}
    sets = {item.name: item.title for item in content.report.study.datasets}
    if not found.kinds:
        return Section(id="broken", title="Broken answers", intro=("No answer broke the instruction.",))
    kinds = plain_table(
        "table-kinds",
        "Kinds of broken answers, each answer counted by its first kind",
        ("Kind", "What it is", "Answers", "Models"),
        [(row.kind, row.description, row.answers, row.models) for row in found.kinds],
    )
    rows = found.samples
    note = f"Seed {content.options.seed}; at most {content.options.samples} of each model and kind."
    if found.wanted > len(rows):
        note += f" The first {len(rows):,} of {found.wanted:,}; `hatevolution audit` shows all."
    return Section(
        id="broken",
        title="Broken answers",
        figures=content.broken_figures,
        tables=(kinds,),
        samples=Samples(tuple(_sample(row, titles, sets) for row in rows), note) if rows else None,
    )


def _sample(row: AnswerRow, titles: dict[str, str], sets: dict[str, str]) -> Sample:
    cut: Callable[[str | None], str | None] = lambda text: None if text is None else text[:_KEY_LIMIT]  # noqa: E731
    return Sample(
        model=titles[row.model],
        dataset=sets[row.dataset],
        sentence=row.sentence[:_KEY_LIMIT],
        kind=row.kind or "",
        kinds=row.kinds,
        gold=row.gold,
        finish_reason=cut(row.finish_reason),
        text=shown(row.text, _SENTENCE_LIMIT),
        answer=None if row.raw_text is None else shown(row.raw_text, _ANSWER_LIMIT),
        scores=(row.scores or "")[:_ANSWER_LIMIT],
    )


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
