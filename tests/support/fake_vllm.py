"""A fake of vLLM's OpenAI-compatible server (formats and errors as seen on 0.32), and of the project's seq2seq server.

Tokens are counted as words plus two special ones, so that tests can make texts of a known length.
"""

from __future__ import annotations

import argparse
import hashlib
from typing import TYPE_CHECKING, Any

from aiohttp import web
from fake_base import FakeServer, main, read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SPECIALS = 2


def tokens(text: str) -> int:
    return len(text.split()) + SPECIALS


def error(status: int, message: str, type_: str, param: str | None = None) -> web.Response:
    shape = {"error": {"message": message, "type": type_, "param": param, "code": status}}
    return web.json_response(shape, status=status)


class FakeVllm(FakeServer):
    """One served model.

    Args:
        model: Its id.
        runner: ``generate`` (completions, chat) or ``pooling`` (classify).
        max_model_len: Its window in tokens.
        classes: Class names, in the order of its config; None: the config has none.
        chat_template: False for base models.
        max_queued: As ``--max-num-queued-reqs``; None: no bound.
        finish_reason: Of every choice.
    """

    def __init__(
        self,
        *,
        model: str = "fake/model",
        runner: str = "generate",
        max_model_len: int = 4096,
        classes: Sequence[str] | None = ("nothate", "hate"),
        probabilities: Callable[[str], list[float]] | None = None,
        chat_template: bool = True,
        max_queued: int | None = None,
        finish_reason: str = "stop",
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self.model = model
        self.runner = runner
        self.max_model_len = max_model_len
        self.classes = classes
        self.probabilities = probabilities or hashed_probabilities
        self.chat_template = chat_template
        self.max_queued = max_queued
        self.finish_reason = finish_reason
        self.healthy = True
        self.root_of_weights: str | None = self.model

    def routes(self) -> list[web.RouteDef]:
        pooling = self.runner == "pooling"
        own = (
            [web.post("/classify", self.classify)]
            if pooling
            else [web.post("/v1/completions", self.completions), web.post("/v1/chat/completions", self.chat)]
        )
        return [
            *own,
            web.get("/health", self.health),
            web.get("/v1/models", self.models),
            web.get("/version", self.version),
            web.route("*", "/{anything:.*}", self.nowhere),
        ]

    # -- free routes -------------------------------------------------------------------------------------------------

    async def health(self, request: web.Request) -> web.Response:
        self.probes += 1
        return web.Response(status=200 if self.healthy else 503)

    async def version(self, request: web.Request) -> web.Response:
        return web.json_response({"version": "0.32.0"})

    async def models(self, request: web.Request) -> web.Response:
        refused = self.refuse_key(request)
        card = {
            "id": self.model,
            "object": "model",
            "owned_by": "vllm",
            "root": self.root_of_weights,
            "max_model_len": self.max_model_len,
        }
        return refused or web.json_response({"object": "list", "data": [card]})

    async def nowhere(self, request: web.Request) -> web.Response:
        return web.json_response({"detail": "Not Found"}, status=404)

    # -- generating --------------------------------------------------------------------------------------------------

    async def completions(self, request: web.Request) -> web.StreamResponse:
        body = await read_json(request)
        if body is None:
            return error(400, "JSON decode error", "Bad Request")
        prompts = body.get("prompt")
        prompts = [prompts] if isinstance(prompts, str) else prompts
        if not isinstance(prompts, list) or not prompts or not all(isinstance(prompt, str) for prompt in prompts):
            return error(400, "Either prompt or prompt_embeds must be provided.", "BadRequestError", "prompt")

        def respond() -> web.Response:
            counted = [self._cut(tokens(prompt), body) for prompt in prompts]
            refused = self._refuse(request, body, prompts, counted, "model")
            return refused or web.json_response(self._completion(self._id(request, "cmpl-"), body, prompts, counted))

        return await self.serve(request, prompts, body, respond)

    def _id(self, request: web.Request, prefix: str) -> str:
        given = request.headers.get("X-Request-Id")
        return self.next_id(prefix) if given is None else prefix + given

    def _completion(self, named: str, body: dict[str, Any], prompts: list[str], counted: list[int]) -> dict[str, Any]:
        said = [self.answer(prompt) for prompt in prompts]
        choices = [
            {
                "index": index,
                "text": text,
                "logprobs": None,
                "finish_reason": self.finish_reason,
                "stop_reason": None,
                "token_ids": None,
                "prompt_logprobs": None,
            }
            for index, text in enumerate(said)
        ]
        return {
            "id": named,
            "object": "text_completion",
            "created": 1764460800,
            "model": body.get("model", self.model),
            # The order of the choices is no promise of the format; the index is.
            "choices": choices[::-1],
            "usage": self._usage(sum(counted), sum(len(text.split()) for text in said)),
            "system_fingerprint": "vllm-0.32.0-tp1-fake",
        }

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await read_json(request)
        if body is None:
            return error(400, "JSON decode error", "Bad Request")
        if not self.chat_template:
            text = "default chat template is no longer allowed, so you must provide a chat template"
            return error(400, f"As of transformers v4.44, {text}.", "BadRequestError")
        said = "\n".join(str(message["content"]) for message in body["messages"])

        def respond() -> web.Response:
            counted = self._cut(tokens(said), body)
            refused = self._refuse(request, body, [said], [counted], "model")
            return refused or web.json_response(self._chat(self._id(request, "chatcmpl-"), body, said, counted))

        return await self.serve(request, [said], body, respond)

    def _chat(self, named: str, body: dict[str, Any], said: str, counted: int) -> dict[str, Any]:
        text = self.answer(said)
        message: dict[str, Any] = {
            "role": "assistant",
            "content": text,
            "refusal": None,
            "tool_calls": [],
            "reasoning": None,
        }
        return {
            "id": named,
            "object": "chat.completion",
            "created": 1764460800,
            "model": body.get("model", self.model),
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": self.finish_reason}],
            "usage": self._usage(counted, len(text.split())),
            "system_fingerprint": "vllm-0.32.0-tp1-fake",
        }

    # -- classifying -------------------------------------------------------------------------------------------------

    async def classify(self, request: web.Request) -> web.StreamResponse:
        body = await read_json(request)
        if body is None:
            return error(400, "JSON decode error", "Bad Request")
        texts = body.get("input")
        texts = [texts] if isinstance(texts, str) else texts
        if not isinstance(texts, list):
            return error(400, "input: Field required", "Bad Request")

        def respond() -> web.Response:
            counted = [self._cut(tokens(text), body) for text in texts]
            refused = self._refuse(request, body, texts, counted, None)
            return refused or web.json_response(self._classes(self._id(request, "classify-"), body, texts, counted))

        return await self.serve(request, texts, body, respond)

    def _classes(self, named: str, body: dict[str, Any], texts: list[str], counted: list[int]) -> dict[str, Any]:
        rows = []
        for index, text in enumerate(texts):
            probs = self.probabilities(text)
            top = probs.index(max(probs))
            label = f"LABEL_{top}" if self.classes is None else self.classes[top]
            rows.append({"index": index, "label": label, "probs": probs, "num_classes": len(probs)})
        return {
            "id": named,
            "object": "list",
            "created": 1764460800,
            "model": body.get("model", self.model),
            "data": rows,
            "usage": {"prompt_tokens": sum(counted), "total_tokens": sum(counted), "completion_tokens": 0},
        }

    # -- refusing ----------------------------------------------------------------------------------------------------

    def refuse_key(self, request: web.Request) -> web.Response | None:
        if self.api_key is None or request.headers.get("Authorization") == f"Bearer {self.api_key}":
            return None
        return web.json_response({"error": "Unauthorized"}, status=401)

    def _cut(self, count: int, body: dict[str, Any]) -> int:
        limit = body.get("truncate_prompt_tokens")
        return count if limit is None else min(count, int(limit))

    def _refuse(
        self, request: web.Request, body: dict[str, Any], texts: list[str], counted: list[int], model_param: str | None
    ) -> web.Response | None:
        wanted = body.get("model", self.model)
        if (refused := self.refuse_key(request)) is not None:
            return refused
        if self.max_queued is not None and self._in_flight > self.max_queued:
            return error(503, "The server is overloaded; try again later.", "Service Unavailable")
        if wanted != self.model:
            return error(404, f"The model `{wanted}` does not exist.", "NotFoundError", model_param)
        if any(not text for text in texts) and self.runner == "generate":
            return error(400, "The decoder prompt cannot be empty", "BadRequestError", "prompt")
        if max(counted) > self.max_model_len:
            text = f"You passed {max(counted)} input tokens; the maximum model length is {self.max_model_len}."
            return error(400, text, "BadRequestError", "input_tokens")
        return None

    @staticmethod
    def _usage(prompt: int, completion: int) -> dict[str, Any]:
        return {
            "prompt_tokens": prompt,
            "total_tokens": prompt + completion,
            "completion_tokens": completion,
            "prompt_tokens_details": None,
        }


def hashed_probabilities(text: str) -> list[float]:
    """Return two probabilities, the same for the same text."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    toxic = int.from_bytes(digest[:4], "big") / 2**32
    return [1.0 - toxic, toxic]


def cli() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="fake/model")
    parser.add_argument("--runner", choices=["generate", "pooling"], default="generate")
    parser.add_argument("--max-model-len", type=int, default=4096)
    parser.add_argument("--no-log", action="store_true", help="keep no log of sentences")
    main(
        parser,
        lambda arguments: FakeVllm(
            model=arguments.model,
            runner=arguments.runner,
            max_model_len=arguments.max_model_len,
            latency_s=arguments.latency,
            api_key=arguments.api_key,
            log=not arguments.no_log,
        ),
    )


if __name__ == "__main__":
    cli()
