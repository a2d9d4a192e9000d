"""What `serve --check` makes of two answers, and the command's own manners."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from fake_serving import fake_python

from hatevolution.adapters.serving.check import Told, checked_model, compare
from hatevolution.configs.schema import ModelConfig

if TYPE_CHECKING:
    from pathlib import Path


def model(adapter: str = "vllm-completions", **fields: Any) -> ModelConfig:
    given = {"name": "m", "adapter": adapter, "model": "org/m", "server": {"dtype": "float32"}, **fields}
    return msgspec.convert(given, ModelConfig)


def told(**fields: Any) -> Told:
    given = {
        "text": "a sentence", "raw_text": "toxic", "scores": None, "prompt_token_ids": [1, 2], "token_ids": [7, 8, 2],
        "rejected": None, **fields,
    }  # fmt: skip
    return Told(**given)


def answer(**fields: Any) -> dict[str, Any]:
    return {
        "prompt_token_ids": [1, 2], "token_ids": [7, 8, 2], "text": "toxic", "ends": [2], "differs_at": None,
        "gap": None, **fields,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other", "verdict", "detail"),
    [
        (told(), answer(), "equal", "2 tokens"),
        (told(token_ids=[7, 8]), answer(), "equal", "2 tokens"),  # the end of sequence is not always shown
        (told(raw_text=" toxic"), answer(), "equal", "2 tokens"),
        (told(raw_text="toxic"), answer(text="toxic\ufffd\ufffd"), "equal", "2 tokens"),
        (told(raw_text="tox ic"), answer(), "differs", "the same tokens, but another text"),
        (told(prompt_token_ids=[1, 3]), answer(), "differs", "the prompts' tokens differ at 1 (2 here, 2 there)"),
        (told(prompt_token_ids=[1, 2, 2]), answer(), "differs", "the prompts' tokens differ at 2 (3 here, 2 there)"),
        (told(token_ids=[7]), answer(), "differs", "1 tokens here, 2 there"),
        (told(), answer(differs_at=1, gap=0.0005), "tie", "token 1 is another one; log probabilities 0.0005 apart"),
        (told(), answer(differs_at=1, gap=0.2), "differs", "token 1 is another one; log probabilities 0.2000 apart"),
        (told(token_ids=None), answer(), "differs", "the server gives no token ids"),
    ],
)
def test_tokens(one: Told, other: dict[str, Any], verdict: str, detail: str) -> None:
    (compared,) = compare(model(), [one], [other])
    assert compared.verdict == verdict
    assert detail in compared.detail


def test_what_a_tie_is_depends_on_the_number_format() -> None:
    verdicts = {
        dtype: compare(model(server={"dtype": dtype}), [told()], [answer(differs_at=0, gap=0.2)])[0].verdict
        for dtype in ("float32", "float16", "bfloat16", "auto")
    }
    assert verdicts == {"float32": "differs", "float16": "differs", "bfloat16": "tie", "auto": "tie"}
    eight = model("seq2seq", server={"quantization": "int8"})
    assert compare(eight, [told()], [answer(differs_at=0, gap=0.45)])[0].verdict == "tie"


def test_rejected_sentences_are_left_out_of_the_comparison() -> None:
    compared = compare(model(), [told(rejected="too long"), told()], [answer()])
    assert [one.verdict for one in compared] == ["rejected", "equal"]


@pytest.mark.parametrize(
    ("scores", "verdict"),
    [
        ({"nothate": 0.25, "hate": 0.75}, "equal"),
        ({"0": 0.25, "1": 0.75}, "equal"),  # options.classes left out
        ({"hate": 0.75, "nothate": 0.25}, "equal"),
        ({"nothate": 0.26, "hate": 0.74}, "differs"),
        ({"respectful": 0.25, "toxic": 0.75}, "differs"),
        ({"0": 0.75, "1": 0.25}, "differs"),
    ],
)
def test_probabilities(scores: dict[str, float], verdict: str) -> None:
    other = {"labels": ["nothate", "hate"], "probs": [0.25, 0.75]}
    (compared,) = compare(model("vllm-classify"), [told(scores=scores)], [other])
    assert compared.verdict == verdict


def test_a_check_is_greedy_and_asks_for_tokens() -> None:
    checked = checked_model(model(decoding={"temperature": 0.7, "max_tokens": 9, "extra": {"min_p": 0.1}}))
    assert checked.decoding.temperature == 0.0
    assert checked.decoding.max_tokens == 9
    assert checked.decoding.extra == {"min_p": 0.1, "return_token_ids": True}
    classifier = model("vllm-classify", decoding={"truncate_prompt_tokens": 512})
    assert checked_model(classifier) is classifier


def serve(folder: Path, text: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    (folder / "m.toml").write_text(text, encoding="utf-8")
    command = [sys.executable, "-P", "-m", "hatevolution", "serve", "m.toml", *arguments]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **environ}, capture_output=True, text=True, check=False, timeout=60
    )


HEAD = 'name = "m"\nadapter = "vllm-completions"\nmodel = "org/m"\nprompt = "paper-open"\n'
PLACE = '[endpoint]\nbase_urls = ["http://127.0.0.1:9/v1"]\n'


def test_serve_without_a_table(tmp_path: Path) -> None:
    done = serve(tmp_path, HEAD + PLACE)
    assert done.returncode == 2
    assert "m.toml has no [server] table" in done.stderr
    assert done.stderr.count("\n") == 1


def test_serve_without_the_package(tmp_path: Path) -> None:
    python = json.dumps(str(fake_python(tmp_path, without="vllm")))
    done = serve(tmp_path, f"{HEAD}{PLACE}[server]\npython = {python}\n")
    assert done.returncode == 2
    assert "pip install 'hatevolution[vllm]' brings it" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Unclosed" not in done.stderr


def test_serve_tells_of_a_server_that_does_not_start(tmp_path: Path) -> None:
    python = json.dumps(str(fake_python(tmp_path)))
    done = serve(tmp_path, f"{HEAD}{PLACE}[server]\npython = {python}\n", FAKE_SERVING="gated")
    assert done.returncode == 1
    assert "the weights are gated" in done.stderr
    assert "Traceback" not in done.stderr


def test_json_goes_with_check(tmp_path: Path) -> None:
    done = serve(tmp_path, HEAD + PLACE, "--json")
    assert done.returncode == 2
    assert "--json goes with --check" in done.stderr
