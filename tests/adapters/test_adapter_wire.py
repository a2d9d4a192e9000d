from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hatevolution.adapters.models.said import Said, json_string, utf8_length
from hatevolution.adapters.models.wire import Unreadable, decoder, kept
from hatevolution.configs.prompts import Prompt

ANY_TEXT = st.text(st.characters())  # surrogates included
PROMPT = Prompt("p", 1, 'Say {"a": %s}\n', " é\0.\n", "Be kind.")


class Row(msgspec.Struct):
    text: str
    number: float = 0.0


read = decoder(Row)


@given(ANY_TEXT)
def test_every_text_survives_the_way_there_and_back(text: str) -> None:
    raw = f'{{"text": {json_string(text)}, "unknown": [1]}}'.encode("ascii")
    assert read(raw).text == text


@given(st.lists(st.sampled_from([r"\ud83d", r"\ude00", "x", "abcdefgh", r"A", r"\n", "é", r"\u0000"]), max_size=6))
def test_whatever_escapes_stand_side_by_side_the_text_is_that_of_the_standard_library(pieces: list[str]) -> None:
    raw = ('{"text": "' + "".join(pieces) + '"}').encode()
    assert read(raw).text == json.loads(raw)["text"]


def test_surrogates_that_came_as_bytes_survive_too() -> None:
    assert read(b'{"text": "\xed\xa0\x80"}').text == "\ud800"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b'{"text": "cut of',
        b'{"text": null}',
        b'{"text": 1}',
        b"{}",
        b"[]",
        b"null",
        b'"text"',
        b"<html>502</html>",
        b'{"text": "\xff"}',
        b'{"text": "a", "number": NaN}',
        b'{"text": "a", "number": Infinity}',
        b'{"text": "a", "number": "1"}',
        b"[" * 100_000,
        b'{"text": ' + b"[" * 100_000,
    ],
)
def test_what_is_no_row_is_unreadable(raw: bytes) -> None:
    with pytest.raises(Unreadable):
        read(raw)


def test_bodies_are_kept_as_text_where_they_are_text() -> None:
    assert kept("é\0\n".encode()) == "é\0\n"
    assert kept(b"\xff\xfe") == b"\xff\xfe"


@given(ANY_TEXT)
def test_what_is_sent_is_what_the_prompt_says(text: str) -> None:
    said = Said(PROMPT)
    assert json.loads(said.json(text)) == said.text(text) == PROMPT.render(text)
    assert said.json(text).isascii()
    assert said.sha256(text) == PROMPT.sha256(text)
    assert json.loads(Said(None).json(text)) == text


def test_a_sentence_is_never_interpreted() -> None:
    text = "{text} {0} %s %(x)s {{}} \\n $a"
    assert Said(PROMPT).text(text) == PROMPT.before + text + PROMPT.after


@given(ANY_TEXT)
def test_estimates_bound_the_bytes(text: str) -> None:
    estimate = Said(PROMPT).estimate(text, overhead=7, completion=20)
    whole = f"{PROMPT.system}{PROMPT.render(text)}".encode("utf-8", "surrogatepass")
    assert estimate.prompt_most == len(whole) + 7
    assert estimate.prompt_likely <= estimate.prompt_most
    assert estimate.completion_most == 20


@given(ANY_TEXT)
def test_utf8_length(text: str) -> None:
    assert utf8_length(text) == len(text.encode("utf-8", "surrogatepass"))
