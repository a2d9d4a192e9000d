"""Stores for tests of the audit: hostile texts in every place, and answers of known kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store_maker import Made, MadePrediction, MadeSentence, Maker

from hatevolution.store import migrations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pytest

HUGE = "a" * 1_000_000

HOSTILE: Mapping[str, str] = {
    "script": "<script>document.title='owned'</script>",
    "attribute": '"><img src=x onerror="document.title=\'owned\'">',
    "link": "javascript:document.title='owned'",
    "ansi": "\x1b[31mred\x1b[0m",
    "osc": "\x1b]0;owned\x07",
    "c1": "\x9b31mred",
    "markup": "[bold]x[/bold] [link=http://e.example]y[/link] [/",
    "formula": "=1+1",
    "formula after blanks": " \t=1+1",
    "plus": "+1",
    "minus": "-1+1",
    "at": "@SUM(A1)",
    "pipe": "|calc",
    "tab": "\t=1+1",
    "return": "\r=1+1",
    "wide": "＝1+1",
    "apostrophe": "'toxic'?",
    "quotes": 'a "quoted", text; with\nlines\r\nand \\n',
    "nul": "before\0after",
    "surrogate": "broken \ud800 here",
    "rtl": "abc\u202edef\u202c\u2066x",
    "zero width": "a\u200bb",
    "escape": "literal _x0041_ and \\x41",
    "latex": r"\input{/etc/passwd} $x$ & % _",
    "noncharacter": "\ufffe\uffff",
    "astral": "\U0001f600" * 20,
    "empty": "",
    "blank": "  ",
    "huge": HUGE,
}


def hostile_store(path: Path) -> Made:
    """One model that says each hostile text to a sentence that is the same text; and one that is well-behaved."""
    maker = Maker(path)
    maker.dataset(
        "odd",
        [MadeSentence(id=name, text=text or "-", gold="toxic", target=text) for name, text in HOSTILE.items()],
    )
    maker.model("hostile", title="<b>hostile</b>")
    maker.model("tame")
    maker.predictions(
        MadePrediction(model="hostile", dataset="odd", sentence=name, outcome="invalid", raw_text=text)
        for name, text in HOSTILE.items()
    )
    maker.answers("tame", "odd", ["toxic"] * len(HOSTILE))
    return maker.done()


def spoken_store(path: Path, said: Mapping[str, Sequence[str | None]], *, sentences: Sequence[MadeSentence]) -> Made:
    """A store with one set, "set", in which each model said something to each sentence; None: never asked."""
    maker = Maker(path)
    maker.dataset("set", sentences)
    for model, texts in said.items():
        maker.model(model)
        maker.predictions(
            MadePrediction(model=model, dataset="set", sentence=sentence.id, outcome="answered", raw_text=text)
            for sentence, text in zip(sentences, texts, strict=True)
            if text is not None
        )
    return maker.done()


def old_store(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store as the first version of this program made it: without the tables of verdicts."""
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "MIGRATIONS", {"m001_initial": migrations.MIGRATIONS["m001_initial"]})
        sentences = [MadeSentence(id="a"), MadeSentence(id="b")]
        return spoken_store(path, {"m": ["toxic", "hm"]}, sentences=sentences).path
