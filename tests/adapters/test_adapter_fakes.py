"""The fake servers as processes of their own, as benchmarks and kill tests use them."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fake_base import in_thread
from fake_setup import PROMPT, items, model, opened
from fake_vllm import FakeVllm

from hatevolution.errors import FailureKind, RequestFailure

if TYPE_CHECKING:
    from collections.abc import Iterator

SUPPORT = Path(__file__).resolve().parent.parent / "support"


@contextlib.contextmanager
def process(script: str, *arguments: str) -> Iterator[str]:
    """Start a fake; yield its address."""
    with subprocess.Popen(
        [sys.executable, str(SUPPORT / script), "--port", "0", *arguments], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()


def call(url: str, document: Any = None) -> Any:
    data = None if document is None else json.dumps(document).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data=data), timeout=5) as response:
        return json.load(response)


async def test_a_server_in_another_process_is_scripted_and_read_over_http() -> None:
    with process("fake_vllm.py", "--latency", "0.01") as root:
        async with opened(model("vllm-completions", base_urls=(f"{root}/v1",)), PROMPT) as adapter:
            call(f"{root}/_fake/fault", {"status": 500, "body": "", "times": 2})
            for _ in range(2):
                with pytest.raises(RequestFailure) as caught:
                    await adapter.ask(items("x"), f"{root}/v1")
                assert caught.value.kind is FailureKind.TRANSIENT
            await adapter.ask(items("x"), f"{root}/v1")
        log = call(f"{root}/_fake/log")
    arrivals = log.pop("arrivals")
    assert len(arrivals) == 3
    assert arrivals == sorted(arrivals)
    assert log == {"requests": 3, "peak": 1, "sent": {PROMPT.render("x"): 3}}


@pytest.mark.parametrize(("script", "path"), [("fake_openai.py", "/_fake/log"), ("fake_perspective.py", "/_fake/log")])
def test_the_others_start_as_well(script: str, path: str) -> None:
    with process(script) as root:
        assert call(root + path)["requests"] == 0


async def test_the_fast_server_speaks_the_format_of_the_slow_one() -> None:
    with process("fake_fast.py") as root:
        url = f"{root}/v1"
        async with opened(model("vllm-completions", base_urls=(url,), batch_size=5), PROMPT) as adapter:
            assert (await adapter.probe(url)).models == ("fake/model",)
            one = await adapter.ask(items("x"), url)
            many = await adapter.ask(items("a", "b]", '"[', "", "e"), url)
        assert [answer.raw_text for answer in one.answers] == ["respectful"]
        assert len(many.answers) == 5
        async with opened(model("vllm-classify", base_urls=(url,), batch_size=3), None) as adapter:
            assert len((await adapter.ask(items("a", "[b", "c"), url)).answers) == 3
            assert (await adapter.ask(items("["), url)).answers[0].scores == {"0": 0.75, "1": 0.25}


async def test_a_server_in_a_thread() -> None:
    with in_thread(FakeVllm()) as server:
        async with opened(model("vllm-completions", base_urls=(server.base_url,)), PROMPT) as adapter:
            await adapter.ask(items("x"), server.base_url)
        assert server.asked("x}") == 1
