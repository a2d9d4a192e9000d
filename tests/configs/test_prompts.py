"""Prompts are added and never edited: each shipped text is pinned here by its hash."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hatevolution.configs.load import shipped, shipped_names
from hatevolution.configs.prompts import load_prompt
from hatevolution.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

# Of what is said for the sentence "x". A new prompt gets a new line; a line here is never changed.
PINNED = {
    "paper-chat": "97982e9827039c37c753e5e54018de8b01f73bba97faa4aaf44c2062d42ca0b9",
    "paper-moderation": "e9678dff8a8bf368a0ee85c4fc7125c891ddf9d04514ff38711a87a5080b5a1f",
    "paper-open": "f38653bff92d51f6a1d7929eaf9a5d1acae0616e0bb98b610e9490314f959335",
}

STUDY_OPEN = "Classify the input text as 'respectful' or 'toxic'.\nInput text: x.\nAnswer: "
STUDY_CHAT = (
    "Classify the input text as 'respectful' or 'toxic'.\nInput text: x.\n"
    "Answer with only one word, 'respectful' or 'toxic': "
)
STUDY_SYSTEM = "You are a helpful assistant specialized in text classification."


def test_every_prompt_is_pinned() -> None:
    assert {name: load_prompt(name).sha256("x") for name in shipped_names("prompts")} == PINNED


def test_prompts_are_what_the_study_sent() -> None:
    assert load_prompt("paper-open").render("x") == STUDY_OPEN
    assert load_prompt("paper-open").system is None
    assert load_prompt("paper-chat").render("x") == STUDY_CHAT
    assert load_prompt("paper-chat").system == STUDY_SYSTEM
    assert load_prompt("paper-moderation").render("x") == STUDY_CHAT
    assert load_prompt("paper-moderation").system is None


def test_hashes_are_those_of_the_texts_themselves() -> None:
    assert PINNED["paper-open"] == hashlib.sha256(STUDY_OPEN.encode()).hexdigest()
    assert PINNED["paper-chat"] == hashlib.sha256(f"{STUDY_SYSTEM}\0{STUDY_CHAT}".encode()).hexdigest()
    assert PINNED["paper-moderation"] == hashlib.sha256(STUDY_CHAT.encode()).hexdigest()


@pytest.mark.parametrize("name", shipped_names("prompts"))
def test_names_are_those_of_the_files(name: str) -> None:
    assert load_prompt(name).name == name
    assert (shipped("prompts") / f"{name}.toml").read_text(encoding="utf-8").startswith("# ")


@given(st.text(st.characters()))
def test_a_sentence_is_put_in_as_it_is(text: str) -> None:
    prompt = load_prompt("paper-open")
    rendered = prompt.render(text)
    assert rendered == prompt.before + text + prompt.after
    assert rendered[len(prompt.before) : len(rendered) - len(prompt.after)] == text


def written(folder: Path, user: str) -> str:
    path = folder / "mine.toml"
    path.write_text(f"name = 'mine'\nversion = 1\nuser = '{user}'\n", encoding="utf-8")
    return str(path)


def test_a_prompt_of_ones_own_by_path(tmp_path: Path) -> None:
    assert load_prompt(written(tmp_path, "{{x}} %s {text}?")).render("{text}") == "{{x}} %s {text}?"
    assert load_prompt("./mine.toml", tmp_path).name == "mine"


@pytest.mark.parametrize("user", ["no place", "{text} and {text}", "{ text }"])
def test_the_place_of_the_sentence_stands_there_once(tmp_path: Path, user: str) -> None:
    with pytest.raises(ConfigError, match="exactly once"):
        load_prompt(written(tmp_path, user))


def test_an_unknown_prompt_is_told_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'paper-open'"):
        load_prompt("paper-opne")
