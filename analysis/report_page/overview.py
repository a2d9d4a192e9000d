"""The first sections: what a store holds, what ran, and what was answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hatevolution.analysis.report_page.section import Fact, Section
from hatevolution.analysis.report_page.tables import Heading, PageCell, PageTable, plain_table

if TYPE_CHECKING:
    from hatevolution.analysis.rankings import Ranking
    from hatevolution.analysis.report_page.content import Content

__all__ = ["coverage", "runs", "summary"]


def summary(content: Content) -> Section:
    """Return the numbers worth seeing first, and how answers were read."""
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
    titles = {model.name: model.title for model in study.models}
    facts += [_best(ranking, titles) for ranking in content.report.rankings if len(ranking.goodness) > 1]
    return Section(id="summary", title="At a glance", notes=tuple(content.report.footer()), facts=tuple(facts))


def _best(ranking: Ranking, titles: dict[str, str]) -> Fact:
    value = max(ranking.goodness.values())
    names = [titles[name] for name, own in ranking.goodness.items() if own == value]
    told = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    if value == float("-inf"):
        return Fact(f"Best in {ranking.name}", "none", "all models give one label throughout")
    return Fact(f"Best in {ranking.name}", told, _measure(ranking.measure, value))


def _measure(measure: str, value: float) -> str:
    if measure == "label_flip":
        return f"label flips {100 * abs(value):.2f} %"
    return f"{measure.replace('_', ' ').replace('f1', 'F1')} {value:.4f}"


def runs(content: Content) -> Section:
    """Return what ran and when."""
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
    writing = ("A run was writing to the store while this page was made; a later page will have more.",)
    return Section(
        id="runs", title="What ran and when", tables=(table,), intro=writing if content.provenance.writing else ()
    )


def coverage(content: Content) -> Section:
    """Return how much of each set each model answered."""
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
