"""A fake of OpenAI's API: chat completions, moderations, models; headers and errors in their documented forms."""

from __future__ import annotations

import argparse
import hashlib
from typing import TYPE_CHECKING, Any

from aiohttp import web
from fake_base import FakeServer, Fault, main, read_json

if TYPE_CHECKING:
    from collections.abc import Mapping

CATEGORIES = (
    "harassment",
    "harassment/threatening",
    "hate",
    "hate/threatening",
    "illicit",
    "illicit/violent",
    "self-harm",
    "self-harm/intent",
    "self-harm/instructions",
    "sexual",
    "sexual/minors",
    "violence",
    "violence/graphic",
)

LIMIT_HEADERS = {
    "x-ratelimit-limit-requests": "500",
    "x-ratelimit-limit-tokens": "30000",
    "x-ratelimit-remaining-requests": "499",
    "x-ratelimit-remaining-tokens": "29900",
    "x-ratelimit-reset-requests": "120ms",
    "x-ratelimit-reset-tokens": "6m0s",
}


def error_body(message: str, type_: str, code: str | None, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": type_, "param": param, "code": code}}


# The three kinds of 429, and the other errors, as they were seen.
RATE_LIMITED = Fault(
    status=429,
    body=error_body(
        "Rate limit reached for gpt-4o in organization org-X on tokens per min (TPM): Limit 30000, Used 29937, "
        "Requested 385. Please try again in 644ms. Visit https://platform.openai.com to learn more.",
        "tokens",
        "rate_limit_exceeded",
    ),
)
QUOTA = Fault(
    status=429,
    body=error_body(
        "You exceeded your current quota, please check your plan and billing details.",
        "insufficient_quota",
        "insufficient_quota",
    ),
)
TOO_LARGE = Fault(
    status=429,
    body=error_body(
        "Request too large for gpt-4o in organization org-X on tokens per min (TPM): Limit 30000, Requested 36278. "
        "The input or output tokens must be reduced in order to run successfully.",
        "tokens",
        "rate_limit_exceeded",
    ),
)
CONTEXT = Fault(
    status=400,
    body=error_body(
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 200000 tokens.",
        "invalid_request_error",
        "context_length_exceeded",
        "messages",
    ),
)
FILTERED = Fault(
    status=400,
    body=error_body(
        "Your request was rejected as a result of our safety system.", "invalid_request_error", "content_filter"
    ),
)


class FakeOpenAI(FakeServer):
    """Serves a few models.

    Args:
        models: Id asked for -> id that the response names.
        retired: Ids that are no more.
        limits: Rate limit headers of every success.
        message: Further fields of each chat message.
    """

    def __init__(
        self,
        *,
        models: Mapping[str, str] | None = None,
        retired: tuple[str, ...] = ("gpt-3.5-turbo", "text-moderation-latest"),
        limits: Mapping[str, str] | None = None,
        message: Mapping[str, Any] | None = None,
        finish_reason: str = "stop",
        may_list: bool = True,
        **more: Any,
    ) -> None:
        super().__init__(**{"api_key": "sk-fake-canary-0123456789", **more})
        self.models = models or {
            "gpt-4o": "gpt-4o-2024-08-06",
            "gpt-4o-2024-08-06": "gpt-4o-2024-08-06",
            "gpt-4o-mini": "gpt-4o-mini-2024-07-18",
            "omni-moderation-2024-09-26": "omni-moderation-2024-09-26",
        }
        self.retired = retired
        self.limits = dict(LIMIT_HEADERS if limits is None else limits)
        self.message = dict(message or {})
        self.finish_reason = finish_reason
        self.may_list = may_list

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/chat/completions", self.chat),
            web.post("/v1/moderations", self.moderations),
            web.get("/v1/models/{id}", self.model),
            web.route("*", "/{anything:.*}", self.nowhere),
        ]

    async def model(self, request: web.Request) -> web.Response:
        self.probes += 1
        name = request.match_info["id"]
        refused = self.refuse_key(request)
        if refused is None and not self.may_list:
            text = "You have insufficient permissions for this operation. Missing scopes: api.model.read."
            refused = web.json_response(error_body(text, "invalid_request_error", None), status=401)
        if refused is None:
            refused = self._unknown(name)
        return refused or web.json_response(
            {"id": name, "object": "model", "created": 1715367049, "owned_by": "system", "shutdown_date": None}
        )

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await read_json(request) or {}
        said = "\n".join(str(message["content"]) for message in body["messages"])

        def respond() -> web.Response:
            refused = self.refuse_key(request) or self._unknown(body["model"])
            return refused or self._success(self._chat(body, said))

        return await self.serve(request, [said], body, respond)

    def _chat(self, body: dict[str, Any], said: str) -> dict[str, Any]:
        text = self.answer(said)
        message = {"role": "assistant", "content": text, "refusal": None, "annotations": [], **self.message}
        prompt, completion = len(said) // 4 + 11, len(text) // 4 + 1
        return {
            "id": self.next_id("chatcmpl-"),
            "object": "chat.completion",
            "created": 1764460800,
            "model": self.models[body["model"]],
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": self.finish_reason}],
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": completion,
                "total_tokens": prompt + completion,
                "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
            },
            "service_tier": "default",
            "system_fingerprint": "fp_fake",
        }

    async def moderations(self, request: web.Request) -> web.StreamResponse:
        body = await read_json(request) or {}
        texts = [body["input"]] if isinstance(body["input"], str) else list(body["input"])

        def respond() -> web.Response:
            refused = self.refuse_key(request) or self._unknown(body["model"])
            return refused or self._success(
                {
                    "id": self.next_id("modr-"),
                    "model": self.models[body["model"]],
                    "results": [moderated(text, self.answer(text)) for text in texts],
                }
            )

        return await self.serve(request, texts, body, respond)

    async def nowhere(self, request: web.Request) -> web.Response:
        text = f"Invalid URL ({request.method} {request.path})"
        return web.json_response(error_body(text, "invalid_request_error", None), status=404)

    def refuse_key(self, request: web.Request) -> web.Response | None:
        sent = request.headers.get("Authorization", "")
        if sent == f"Bearer {self.api_key}":
            return None
        # The real one masks the middle of the key; a careless one would not.
        text = f"Incorrect API key provided: {sent.removeprefix('Bearer ')}. You can find your API key at https://platform."
        return web.json_response(error_body(text, "invalid_request_error", "invalid_api_key"), status=401)

    def _unknown(self, name: str) -> web.Response | None:
        if name in self.models and name not in self.retired:
            return None
        text = (
            f"The model `{name}` has been deprecated, learn more here: https://platform.openai.com/docs/deprecations"
            if name in self.retired
            else f"The model `{name}` does not exist or you do not have access to it."
        )
        return web.json_response(error_body(text, "invalid_request_error", "model_not_found"), status=404)

    def _success(self, document: dict[str, Any]) -> web.Response:
        headers = {"x-request-id": self.next_id("req_"), "openai-processing-ms": "12", **self.limits}
        return web.json_response(document, headers=headers)


def moderated(text: str, answer: str) -> dict[str, Any]:
    """Return one result: flagged where the answer says toxic, scores by a hash of the text."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    scores = {name: digest[index] / 255 for index, name in enumerate(CATEGORIES)}
    flagged = answer == "toxic"
    return {
        "flagged": flagged,
        "categories": {name: flagged and score > 0.5 for name, score in scores.items()},
        "category_scores": scores,
        "category_applied_input_types": {name: ["text"] for name in CATEGORIES},
    }


def cli() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    main(
        parser,
        lambda arguments: FakeOpenAI(
            latency_s=arguments.latency, **({} if arguments.api_key is None else {"api_key": arguments.api_key})
        ),
    )


if __name__ == "__main__":
    cli()
