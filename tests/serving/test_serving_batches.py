"""Batches of prompts of similar length."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hatevolution.adapters.seq2seq_server.batches import batches
from hatevolution.adapters.seq2seq_server.options import read_options


def test_the_longest_go_first_and_together() -> None:
    assert batches([3, 9, 4, 8], rows=2, tokens=100) == [[1, 3], [2, 0]]


def test_padding_counts() -> None:
    # Three rows of 10 tokens are 30; a fourth row would be padded to 10 as well.
    assert batches([10, 1, 1, 1], rows=9, tokens=30) == [[0, 1, 2], [3]]


def test_a_prompt_above_the_bound_goes_alone() -> None:
    assert batches([50, 2, 2], rows=8, tokens=20) == [[0], [1, 2]]


@given(st.lists(st.integers(1, 600), max_size=80), st.integers(1, 16), st.integers(1, 2000))
def test_each_prompt_is_in_one_batch_within_the_bounds(lengths: list[int], rows: int, tokens: int) -> None:
    made = batches(lengths, rows=rows, tokens=tokens)
    assert sorted(index for batch in made for index in batch) == list(range(len(lengths)))
    for batch in made:
        longest = max(lengths[index] for index in batch)
        assert len(batch) <= rows
        assert len(batch) == 1 or len(batch) * longest <= tokens


def test_the_served_name_is_the_weights_by_default() -> None:
    options = read_options(["--model", "google/flan-t5-small"])
    assert (options.served_model_name, options.port, options.dtype) == ("google/flan-t5-small", 8000, "auto")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--dtype", "float16"], "invalid choice: 'float16'"),
        (["--port", "80"], "80 is not from 1024 to 65535"),
        (["--max-batch-rows", "0"], "0 is not at least 1"),
    ],
)
def test_wrong_options_are_told(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        read_options(["--model", "x", *arguments])
    assert left.value.code == 2
    assert complaint in capsys.readouterr().err
