"""Input files of batches: what stands in them, and how requests are dealt out to them."""

from __future__ import annotations

import hashlib
import itertools
import json
import tempfile
from pathlib import Path

import pytest
from fake_setup import CHAT_PROMPT, items, model
from hypothesis import given
from hypothesis import strategies as st

from hatevolution.adapters.batch.base import batch_adapter
from hatevolution.adapters.batch.files import InputFile, Limits, custom_id, new_name, read_custom_id, split
from hatevolution.errors import ConfigError

ENVIRON = {"OPENAI_API_KEY": "sk-fake-canary-0123456789"}
URL = "/v1/chat/completions"


def test_a_line_is_what_the_provider_wants(tmp_path: Path) -> None:
    with InputFile(tmp_path / "in.jsonl", "hb0123456789ab", URL, Limits(10, 10_000)) as file:
        assert file.add('{"model":"m","x":"\\ud83d\\ude00"}')
        assert file.add('{"model":"m"}')
    raw = (tmp_path / "in.jsonl").read_bytes()
    assert [json.loads(line) for line in raw.splitlines()] == [
        {"custom_id": "hb0123456789ab-0", "method": "POST", "url": URL, "body": {"model": "m", "x": "😀"}},
        {"custom_id": "hb0123456789ab-1", "method": "POST", "url": URL, "body": {"model": "m"}},
    ]
    assert (file.requests, file.bytes, file.sha256) == (2, len(raw), hashlib.sha256(raw).hexdigest())


@given(st.integers(0, 999_999_999))
def test_custom_ids_are_read_back(line: int) -> None:
    name = new_name()
    assert read_custom_id(custom_id(name, line)) == (name, line)
    assert len(custom_id(name, line)) <= 64


NOT_OURS = (
    "", "x", "hb0123456789ab", "hb0123456789ab-01", "hb0123456789ab--1", "hb0123456789AB-1", "hb0123456789ab-1 ",
    "xhb0123456789ab-1", "hb0123456789ab-1\n",
)  # fmt: skip


@pytest.mark.parametrize("text", NOT_OURS)
def test_other_peoples_custom_ids_are_none_of_ours(text: str) -> None:
    assert read_custom_id(text) is None


# The line around a body, for a custom id of one digit, to choose limits near the edge.
_FRAME = len('{"custom_id":"hb0123456789ab-0","method":"POST","url":"/v1/chat/completions","body":}\n')


@given(
    st.lists(st.integers(0, 200), max_size=60),
    st.integers(1, 12),
    st.integers(1, 1_200),
)
def test_every_request_is_in_one_file_and_no_file_is_too_large(sizes: list[int], most: int, most_bytes: int) -> None:
    """In order, none twice, none lost; and a new file is begun only where the next request did not fit."""
    limits = Limits(most, most_bytes)
    too_large: list[int] = []
    requests = [(number, f'"{"x" * size}"') for number, size in enumerate(sizes)]
    with tempfile.TemporaryDirectory() as folder:

        def begin() -> InputFile:
            name = new_name()
            return InputFile(Path(folder) / name, name, URL, limits)

        made = list(split(requests, begin, too_large.append))
        placed = [key for _, keys in made for key in keys]
        assert sorted([*placed, *too_large]) == list(range(len(sizes)))
        assert placed == sorted(placed)
        for file, keys in made:
            raw = file.path.read_bytes()
            lines = raw.splitlines(keepends=True)
            assert 1 <= len(lines) == len(keys) == file.requests <= most
            assert len(raw) == file.bytes <= most_bytes
            assert [json.loads(line)["body"] for line in lines] == ["x" * sizes[key] for key in keys]
            assert [json.loads(line)["custom_id"] for line in lines] == [
                custom_id(file.name, n) for n in range(len(keys))
            ]
        for key in too_large:
            assert _FRAME + sizes[key] + 2 > most_bytes
        for (file, keys), (_, after) in itertools.pairwise(made):
            digits = len(str(file.requests)) - 1
            full = file.requests == most or file.bytes + _FRAME + digits + sizes[after[0]] + 2 > most_bytes
            assert full or after[0] != keys[-1] + 1  # one that fits nowhere ends a file too


@pytest.mark.parametrize("kind", ["openai-chat", "openai-moderation", "vllm-chat"])
def test_bodies_are_those_of_live_requests(kind: str, tmp_path: Path) -> None:
    """What the file holds is, byte for byte, what ``ask`` hands to the channel."""
    config = model(kind, base_urls=("http://127.0.0.1:1/v1",), **({} if "mod" in kind else {"max_tokens": 7}))
    prompt = None if "mod" in kind else CHAT_PROMPT
    adapter = batch_adapter(config, prompt, ENVIRON, offline=kind == "vllm-chat")
    item = items('odd " \\ \x00 é 😀')[0]
    sent = []

    class Channel:
        async def post(self, base_url: str, path: str, body: bytes) -> None:
            sent.append((path, body))
            raise InterruptedError

    adapter._channel = Channel()  # type: ignore[attr-defined]
    with pytest.raises(InterruptedError):
        adapter.ask([item], config.endpoint.base_urls[0]).send(None)  # type: ignore[attr-defined]
    path = "/v1" + sent[0][0].removeprefix("/v1")
    assert (adapter.batch_url, adapter.write([item]).encode()) == (path, sent[0][1])


def test_models_without_a_batch_interface_are_told_so() -> None:
    perspective = model("perspective", base_urls=("http://127.0.0.1:1",))
    with pytest.raises(ConfigError, match=r"can't go into a batch: only models of the adapters openai-chat"):
        batch_adapter(perspective, None, ENVIRON, offline=False)
    chat = model("vllm-chat", base_urls=("http://127.0.0.1:1/v1",))
    with pytest.raises(ConfigError, match=r"--offline --out DIR writes its files"):
        batch_adapter(chat, CHAT_PROMPT, ENVIRON, offline=False)
    openai = model("openai-chat", base_urls=("http://127.0.0.1:1/v1",))
    with pytest.raises(ConfigError, match=r"Leave --offline out"):
        batch_adapter(openai, CHAT_PROMPT, ENVIRON, offline=True)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        batch_adapter(openai, CHAT_PROMPT, {}, offline=False)
