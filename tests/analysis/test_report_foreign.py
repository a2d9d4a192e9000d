"""Text of unknown origin on a page: complete, visible, and harmless."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hatevolution.analysis.report_page.foreign import shown

ANY_TEXT = st.text(st.characters(codec=None, categories=None), max_size=60)


def original(text: str, limit: int) -> str:
    """Read back what is shown."""
    parts = []
    for piece in shown(text, limit).pieces:
        if not piece.escape:
            parts.append(piece.text)
        else:
            parts.append(
                "".join(
                    " " if part == "␣" else codecs.decode(part, "unicode_escape")
                    for part in piece.text.replace("␣", "|␣|").split("|")
                )
            )
    return "".join(parts)


@given(ANY_TEXT, st.integers(0, 70))
@example("\ud800\x00\x1b[31m\u202e \n", 60)
@example(" \u200d\u200c a\u200db ", 60)
def test_nothing_is_lost_and_nothing_is_hidden(text: str, limit: int) -> None:
    made = shown(text, limit)
    assert original(text, limit) == text[:limit]
    assert made.left_out == max(0, len(text) - limit)
    for piece in made.pieces:
        assert piece.text
        visible = piece.text.replace("\u200c", "").replace("\u200d", "")
        assert visible.isprintable()
        if piece.escape:
            assert piece.text.isascii() or set(piece.text) - {"␣"} <= set(map(chr, range(128)))


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("toxic", [("toxic", False)]),
        (" toxic ", [("␣", True), ("toxic", False), ("␣", True)]),
        ("a b", [("a b", False)]),
        ("   ", [("␣␣␣", True)]),
        ("a\x00\x1bb", [("a", False), ("\\x00\\x1b", True), ("b", False)]),
        ("a\n\nb", [("a", False), ("\\n", True), ("\\n", True), ("b", False)]),
        ("\u202eabc", [("\\u202e", True), ("abc", False)]),
        ("\ud800", [("\\ud800", True)]),
        ("نمی\u200cخواهم", [("نمی\u200cخواهم", False)]),
        ("a\u200cb", [("a", False), ("\\u200c", True), ("b", False)]),
        ("👩\u200d👧", [("👩\u200d👧", False)]),
        ("", []),
    ],
)
def test_what_is_shown(text: str, pieces: list[tuple[str, bool]]) -> None:
    assert [(piece.text, piece.escape) for piece in shown(text, 100).pieces] == pieces


def test_a_blank_at_the_cut_is_no_blank_at_the_end() -> None:
    made = shown("ab  cd", 4)
    assert [piece.text for piece in made.pieces] == ["ab  "]
    assert made.left_out == 2


def test_a_line_ends_after_its_escape() -> None:
    assert [(piece.text, piece.breaks) for piece in shown("a\r\nb", 9).pieces] == [
        ("a", False),
        ("\\r\\n", True),
        ("b", False),
    ]


def test_many_escapes_are_few_elements() -> None:
    assert len(shown("\0" * 10_000, 10_000).pieces) == 1
