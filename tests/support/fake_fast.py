"""As little of a vLLM server as a client can do with, as fast as Python can: for benchmarks.

An :class:`asyncio.Protocol` on uvloop that answers ``/v1/completions`` (one prompt or a list) and ``/classify``, after
``--latency`` seconds. It does not log, checks nothing, and knows one model, so that it is never the slower side.

    python tests/support/fake_fast.py --port 0 --latency 0.05

prints its port as its first line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import cast

import msgspec
import uvloop

MODEL = "fake/model"


class _Request(msgspec.Struct):
    prompt: str | list[str] | None = None
    input: str | list[str] | None = None


_read = msgspec.json.Decoder(_Request).decode


def _http(body: bytes, status: str = "200 OK") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode("ascii") + body


def _completion(count: int) -> bytes:
    choices = [
        {
            "index": index,
            "text": "toxic" if index % 2 else "respectful",
            "logprobs": None,
            "finish_reason": "stop",
            "stop_reason": None,
            "token_ids": None,
            "prompt_logprobs": None,
            "prompt_token_ids": None,
        }
        for index in range(count)
    ]
    usage = {"prompt_tokens": 40 * count, "total_tokens": 42 * count, "completion_tokens": 2 * count}
    return json.dumps(
        {
            "id": "cmpl-00000000000000000000000000000000",
            "object": "text_completion",
            "created": 1764460800,
            "model": MODEL,
            "choices": choices,
            "service_tier": None,
            "system_fingerprint": "vllm-0.32.0-tp1-fake",
            "usage": {**usage, "prompt_tokens_details": None},
            "kv_transfer_params": None,
        }
    ).encode()


def _classes(count: int) -> bytes:
    rows = [{"index": index, "label": "nothate", "probs": [0.75, 0.25], "num_classes": 2} for index in range(count)]
    usage = {"prompt_tokens": 40 * count, "total_tokens": 40 * count, "completion_tokens": 0}
    return json.dumps(
        {"id": "classify-0", "object": "list", "created": 1, "model": MODEL, "data": rows, "usage": usage}
    ).encode()


class _Responses:
    def __init__(self) -> None:
        self._made: dict[tuple[bool, int], bytes] = {}

    def to(self, path: bytes, body: bytes) -> bytes:
        if path == b"/health":
            return _http(b"")
        if path == b"/v1/models":
            return _http(json.dumps({"object": "list", "data": [{"id": MODEL, "max_model_len": 4096}]}).encode())
        if path == b"/version":
            return _http(b'{"version":"0.32.0"}')
        classify = path == b"/classify"
        # One prompt needs no parsing: looking for the bracket is what keeps this server faster than its clients.
        field = body.find(b'"input":' if classify else b'"prompt":')
        start = body[field + 8 : field + 12].lstrip(b": ")[:1]
        if start != b"[":
            return self._ready(classify, 1)
        request = _read(body)
        texts = request.input if classify else request.prompt
        return self._ready(classify, len(texts or ""))

    def _ready(self, classify: bool, count: int) -> bytes:
        key = (classify, count)
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = _http(_classes(count) if classify else _completion(count))
        return made


class FastProtocol(asyncio.Protocol):
    def __init__(self, latency_s: float, responses: _Responses) -> None:
        self._latency_s = latency_s
        self._responses = responses
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own class, no subclass of it

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while True:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self._buffer[:end]
            at = head.lower().find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._buffer) < end + 4 + length:
                return
            body = self._buffer[end + 4 : end + 4 + length]
            self._buffer = self._buffer[end + 4 + length :]
            response = self._responses.to(head.split(b" ", 2)[1], body)
            if self._latency_s:
                asyncio.get_running_loop().call_later(self._latency_s, self._write, response)
            else:
                self._write(response)

    def _write(self, response: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(response)


async def _serve(port: int, latency_s: float) -> None:
    loop = asyncio.get_running_loop()
    responses = _Responses()
    server = await loop.create_server(lambda: FastProtocol(latency_s, responses), "127.0.0.1", port, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def cli() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds per answer")
    arguments = parser.parse_args()
    uvloop.run(_serve(arguments.port, arguments.latency))


if __name__ == "__main__":
    cli()
