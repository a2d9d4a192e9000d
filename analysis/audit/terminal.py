"""The views of the audit on a terminal: foreign text on one line, inert, cut with a note."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from hatevolution.analysis.audit.terminal_tables import agreement_table, kinds_tables
from hatevolution.inert import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console, RenderableType

    from hatevolution.analysis.audit.comparing import Disagreement, TwoReadings
    from hatevolution.analysis.audit.pairs import PairRow
    from hatevolution.analysis.audit.records import AnswerRow
    from hatevolution.analysis.audit.views import Page, ViewName
    from hatevolution.analysis.audit.words import Piece

__all__ = ["agreement_table", "render"]

_NAME: Final = 80
_NOTHING: Final = "(no text)"
_COLOURS: Final = {"toxic": "red", "respectful": "green", "invalid": "yellow", "ambiguous": "yellow"}


def render(name: ViewName, page: Page, cut: int, console: Console) -> Iterator[RenderableType]:
    """Yield what to print for a page.

    Args:
        name: Of the view.
        page: Its rows.
        cut: Characters of a sentence or answer that are shown; the number of those left out is told.
        console: Where it will be printed.
    """
    if name == "kinds":
        yield from kinds_tables(page.rows, cut, console)
        return
    show = {"answers": _answer, "pairs": _pair, "disagreements": _disagreement, "differ": _readings}[name]
    for number, row in enumerate(page.rows, page.first):
        yield _joined(show(row, number, cut))  # type: ignore[operator]


def _joined(lines: Sequence[Text]) -> Text:
    return Text("\n").join([*lines, Text()])


def _head(number: int, *parts: object) -> Text:
    shown = " · ".join(one_line(str(part), _NAME) for part in parts if part is not None)
    return Text.assemble((f"{number:>5}  ", "dim"), (shown, "bold"))


def _said(label: str, text: str | None, cut: int) -> Text:
    shown = Text(_NOTHING, style="dim") if text is None else Text(one_line(text, cut) or '""')
    return Text.assemble(("       " + f"{label:<10}", "dim"), shown)


def _outcome(row: AnswerRow) -> Text:
    text = Text(row.outcome, style=_COLOURS.get(row.outcome, "magenta"))
    if row.kinds:
        text.append(f" ({', '.join(row.kinds)})")
    return text


def _scores(row: AnswerRow, cut: int) -> list[Text]:
    return [] if row.scores is None else [_said("scores", row.scores, cut)]


def _answer(row: AnswerRow, number: int, cut: int) -> list[Text]:
    head = _head(number, row.model, row.dataset, row.sentence, row.year, row.role)
    head.append_text(Text.assemble("   gold ", row.gold or "none", ", read as ")).append_text(_outcome(row))
    if row.finish_reason not in (None, "stop"):
        head.append(f", ended by {one_line(str(row.finish_reason), _NAME)}", style="dim")
    return [head, _said("sentence", row.text, cut), _said("answer", row.raw_text, cut), *_scores(row, cut)]


def _pieces(label: str, pieces: Sequence[Piece], cut: int) -> Text:
    line = Text("       " + f"{label:<10}", style="dim")
    left = cut
    for index, piece in enumerate(pieces):
        if left <= 0:
            missing = sum(len(rest.text) for rest in pieces[index:])
            line.append(f" ... ({missing} more characters)")
            break
        shown = one_line(piece.text, left)
        # Brackets as well as colour, for pipes, colour-blind readers and screen readers.
        line.append(f"[{shown}]" if piece.differs else shown, style="bold reverse" if piece.differs else "not dim")
        left -= len(piece.text)
    return line


def _pair(row: PairRow, number: int, cut: int) -> list[Text]:
    head = _head(number, row.model, row.dataset, row.pair, row.type, row.year)
    head.append(f"   gold {row.gold or 'none'}, {row.change}")
    lines = [head]
    for name, pieces, answer in zip(("original", "neologism"), row.pieces, (row.original, row.neologism), strict=True):
        lines.append(_pieces(name, pieces, cut))
        if answer is None:
            lines.append(_said("", "(never asked)", cut))
        else:
            said = _said("  answer", answer.raw_text, cut)
            lines.append(said.append("   read as ").append_text(_outcome(answer)))
            lines += _scores(answer, cut)
    return lines


def _disagreement(row: Disagreement, number: int, cut: int) -> list[Text]:
    head = _head(number, row.dataset, row.sentence)
    head.append(f"   gold {row.gold or 'none'}; {len(row.toxic)} toxic, {len(row.respectful)} respectful")
    lines = [head, _said("sentence", row.text, cut)]
    for label, models in (("toxic", row.toxic), ("respectful", row.respectful), ("broken", row.broken)):
        if models:
            names = ", ".join(one_line(model, _NAME) for model in models)
            lines.append(Text.assemble((f"       {label:<10}", _COLOURS.get(label, "dim")), f"  {names}"))
    return lines


def _readings(row: TwoReadings, number: int, cut: int) -> list[Text]:
    answer = row.answer
    head = _head(number, answer.model, answer.dataset, answer.sentence)
    head.append(f"   gold {answer.gold or 'none'}; ")
    head.append(
        f"{one_line(row.first_policy, _NAME)}: {row.first_outcome}, "
        f"{one_line(row.second_policy, _NAME)}: {row.second_outcome}"
    )
    return [head, _said("sentence", answer.text, cut), _said("answer", answer.raw_text, cut), *_scores(answer, cut)]
