"""Kinds of broken answers."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hatevolution.analysis.audit.rules import KIND_NAMES, KINDS, RULE_INPUTS, with_kinds

SENTENCE = "you people are like bad weather"
INSTRUCTION = "Classify the input text as 'respectful' or 'toxic'."


def kinds_of(answer: str, *, text: str = SENTENCE, finish: str | None = "stop", classifier: bool = False) -> list[str]:
    frame = pl.DataFrame(
        {
            "raw_text": [answer],
            "text": [text],
            "instruction": [INSTRUCTION],
            "finish_reason": [finish],
            "classifier": [classifier],
        },
        schema=RULE_INPUTS,
    )
    found: list[str] = with_kinds(frame)["kinds"][0].to_list()
    return found


@pytest.mark.parametrize(
    ("answer", "kinds"),
    [
        ("", ["empty"]),
        (" \n\t", ["empty"]),
        ("\u200b\u2060", ["empty"]),
        ("\0", ["empty"]),
        ("...", ["punctuation"]),
        ("'", ["punctuation"]),
        ("👍", ["punctuation"]),
        ("I cannot help with that request.", ["refusal"]),
        ("I’m sorry, but as an AI I won't say.", ["refusal"]),
        ("I'm  sorry", ["refusal"]),
        (
            f"{INSTRUCTION}\nInput text: {SENTENCE}.\nAnswer: ",
            ["echo", "echo-sentence", "made-up-example", "both-labels"],
        ),
        (f"He said: {SENTENCE.upper()}", ["echo-sentence"]),
        ("toxic\nInput text: more of it.\nAnswer: toxic", ["made-up-example", "label-in-sentence"]),
        ("toxic or respectful", ["both-labels"]),
        ("not toxic", ["negated-label"]),
        ("It isn't really toxic", ["negated-label"]),
        ("non-toxic", ["negated-label"]),
        ("disrespectful", ["negated-label"]),
        ("Toxic.", ["label-marked"]),
        ("**respectful**", ["label-marked"]),
        ("Answer: toxic", ["label-marked"]),
        ("The final answer is: 'Toxic'", ["label-marked"]),
        ("This text is toxic because it demeans.", ["label-in-sentence"]),
        ("tóxico", ["other-language"]),
        ("有毒", ["other-language"]),
        ("токсично", ["other-language"]),
        ("hateful", ["other-words"]),
        ("Not hate", ["other-words"]),
        ("neutral", ["other-words"]),
        ("1", ["choice"]),
        ("(b)", ["choice"]),
        ("Yes.", ["choice"]),
        ("<think>hm</think>", ["reasoning", "code"]),
        ('{"answer": 1}', ["code"]),
        ("```x```", ["code"]),
        ("very very very very very very", ["repetition", "continuation"]),
        ("and then she went home", ["continuation"]),
        ("no idea", ["other"]),
        ("Error", ["other"]),
    ],
)
def test_kinds_by_hand(answer: str, kinds: list[str]) -> None:
    assert kinds_of(answer) == kinds


def test_truncated_is_told_by_the_finish_reason_beside_other_kinds() -> None:
    assert kinds_of("and then she went home", finish="length") == ["continuation", "truncated"]
    assert kinds_of("hm", finish="length") == ["truncated"]
    assert kinds_of("hm", finish=None) == ["other"]


def test_a_classifier_has_no_instruction_to_break() -> None:
    assert kinds_of("other", classifier=True)[0] == "unmapped"


@pytest.mark.parametrize("text", ["", "no", "hm."])
def test_a_short_sentence_is_no_echo(text: str) -> None:
    assert "echo-sentence" not in kinds_of("no idea", text=text)


def test_a_sentence_is_found_letter_by_letter_not_as_a_pattern() -> None:
    assert "echo-sentence" in kinds_of("said: (what) [a] day.*", text="(what) [a] day.*")
    assert "echo-sentence" not in kinds_of("said: what a day of it", text="(what) [a] day.*")


def test_a_model_without_a_prompt_echoes_none() -> None:
    frame = pl.DataFrame(
        {"raw_text": ["hm"], "text": ["x"], "instruction": [None], "finish_reason": [None], "classifier": [False]},
        schema=RULE_INPUTS,
    )
    assert with_kinds(frame)["kind"].to_list() == ["other"]
    assert with_kinds(frame.clear()).height == 0


def test_every_kind_is_described_once() -> None:
    assert len(set(KIND_NAMES)) == len(KINDS)
    for kind in KINDS:
        assert kind.version >= 1
        assert kind.description
        assert kind.identity == f"{kind.name}@{kind.version}"


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=60), min_size=1, max_size=6))
@settings(max_examples=25, deadline=None)
def test_every_answer_has_a_kind_and_the_first_is_the_primary_one(answers: list[str]) -> None:
    count = len(answers)
    frame = pl.DataFrame(
        {
            "raw_text": answers,
            "text": answers[::-1],
            "instruction": [INSTRUCTION] * count,
            "finish_reason": ["length"] * count,
            "classifier": [False] * count,
        },
        schema=RULE_INPUTS,
    )
    found = with_kinds(frame)
    assert found["raw_text"].to_list() == answers
    for kinds, kind in found.select("kinds", "kind").iter_rows():
        assert kinds[0] == kind
        assert kinds == [name for name in KIND_NAMES if name in kinds]
        assert "other" not in kinds or kinds == ["other"]
    alone = [with_kinds(frame[index : index + 1])["kinds"][0].to_list() for index in range(count)]
    assert alone == found["kinds"].to_list()
