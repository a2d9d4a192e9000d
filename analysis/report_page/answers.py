"""The section on broken answers: their kinds, and samples behind a content warning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hatevolution.analysis.report_page.foreign import shown
from hatevolution.analysis.report_page.section import Sample, Samples, Section
from hatevolution.analysis.report_page.tables import plain_table

if TYPE_CHECKING:
    from hatevolution.analysis.audit.records import AnswerRow
    from hatevolution.analysis.report_page.content import Content

__all__ = ["broken_answers"]

_SENTENCE_LIMIT: Final = 1000
_ANSWER_LIMIT: Final = 1500
"""Characters of a sample that are shown."""
_KEY_LIMIT: Final = 200


def broken_answers(content: Content) -> Section:
    """Return the section on answers that broke the instruction."""
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
    return Sample(
        model=titles[row.model],
        dataset=sets[row.dataset],
        sentence=row.sentence[:_KEY_LIMIT],
        kind=row.kind or "",
        kinds=row.kinds,
        gold=row.gold,
        finish_reason=None if row.finish_reason is None else row.finish_reason[:_KEY_LIMIT],
        text=shown(row.text, _SENTENCE_LIMIT),
        answer=None if row.raw_text is None else shown(row.raw_text, _ANSWER_LIMIT),
        scores=(row.scores or "")[:_ANSWER_LIMIT],
    )
