"""Tables of the audit on terminals of several widths: no cell lost, no word broken."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from rich.console import Console
from store_maker import MadePrediction, MadeSentence, Maker

from hatevolution.analysis.audit.agreement import Agreement, wilson
from hatevolution.analysis.audit.kinds import KindCount, count_kinds
from hatevolution.analysis.audit.selection import Selection
from hatevolution.analysis.audit.store_view import StoreView
from hatevolution.analysis.audit.terminal_tables import agreement_table, kinds_tables

if TYPE_CHECKING:
    from pathlib import Path

POLICIES = ("paper", "paper-exact@1", "paper-exact-stripped@1", "paper-contains@1", "strict@1", "lenient@1")


def console(width: int) -> Console:
    return Console(file=io.StringIO(), width=width, highlight=False, markup=False, color_system=None)


def text(made: Console) -> str:
    assert isinstance(made.file, io.StringIO)
    return made.file.getvalue()


@pytest.mark.parametrize("width", [80, 100, 200])
def test_every_policy_stands_on_a_line_with_its_numbers(width: int) -> None:
    confusion = {said: dict.fromkeys(("toxic", "respectful", "invalid"), 1) for said in ("toxic", "respectful")}
    confusion["invalid"] = {"toxic": 7, "respectful": 0, "invalid": 33}
    shown = console(width)
    found = [Agreement(name, 100, 33, wilson(33, 100), confusion) for name in POLICIES]
    shown.print(agreement_table(found, shown))
    lines = text(shown).splitlines()
    for name in POLICIES:
        (line,) = (line.split() for line in lines if name in line.split())
        assert line == [name, "100", "33", "33.0", "24.6", "to", "42.7", "2", "7", "2"]
    assert "…" not in text(shown) and max(map(len, lines)) <= width
    assert all(word in text(shown) for word in ("Policy", "Judged", "Agree", "95 % interval", "lost", "invented"))


@pytest.fixture
def kinds(tmp_path: Path) -> list[KindCount]:
    maker = Maker(tmp_path / "s.db")
    said = ("I believe that this is respectful towards everyone", "No, I can't help with that request, sorry", "")
    for dataset in ("sample-of-sentences-over-years", "another-sample"):
        maker.dataset(dataset, [MadeSentence(id=str(n)) for n in range(len(said))])
    for model in ("a-model-with-a-longer-name-7b", "m"):
        maker.model(model)
        maker.predictions(
            MadePrediction(model=model, dataset=dataset, sentence=str(n), outcome="invalid", raw_text=answer)
            for dataset in ("sample-of-sentences-over-years", "another-sample")
            for n, answer in enumerate(said)
        )
    with StoreView(maker.done().path, Selection()) as view:
        return count_kinds(view)


@pytest.mark.parametrize("width", [80, 100, 140, 200])
def test_no_word_of_the_kinds_is_broken(kinds: list[KindCount], width: int) -> None:
    shown = console(width)
    for part in kinds_tables(kinds, 400, shown):
        shown.print(part)
    words = text(shown).split()
    assert kinds and max(map(len, text(shown).splitlines())) <= width
    for row in kinds:
        assert {row.model, row.dataset, row.kind} <= set(words)
        assert set((row.examples[0].raw_text or "").split() if row.examples else ()) <= set(words)


def test_no_kinds_are_no_table() -> None:
    assert list(kinds_tables([], 400, console(80))) == []
