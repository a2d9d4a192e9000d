"""The ``/v1/completions`` format as this server speaks it: what it takes, refuses and answers."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hatevolution.adapters.seq2seq_server.engine import Generated

__all__ = ["CompletionRequest", "completion", "error", "stopped_at"]


class CompletionRequest(BaseModel):
    """A request's body. A field that this server would ignore is an error: who sends it expects another answer."""

    model_config = ConfigDict(extra="forbid")

    prompt: str | list[str] = Field(min_length=1)
    model: str | None = None
    max_tokens: int | None = Field(default=16, ge=1)
    temperature: float | None = 0.0
    top_p: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    truncate_prompt_tokens: int | None = Field(default=None, ge=1)
    return_token_ids: bool = False
    n: Literal[1] = 1
    stream: Literal[False] = False
    echo: Literal[False] = False
    user: str | None = None

    @field_validator("temperature")
    @classmethod
    def _greedy(cls, value: float | None) -> float | None:
        if value:
            raise ValueError("this server decodes greedily; temperature has to be 0 or left out")
        return value

    @property
    def prompts(self) -> list[str]:
        """The prompts as a list."""
        return [self.prompt] if isinstance(self.prompt, str) else self.prompt


def error(status: int, message: str, kind: str, param: str | None = None) -> dict[str, Any]:
    """Return the body of an error, as OpenAI and vLLM write it."""
    return {"error": {"message": message, "type": kind, "param": param, "code": status}}


def stopped_at(generated: Generated, stop: str | Sequence[str] | None) -> Generated:
    """Return what was generated up to the first of the stop strings, without it."""
    places = [generated.text.find(word) for word in ([stop] if isinstance(stop, str) else stop or ()) if word]
    found = [place for place in places if place >= 0]
    if not found:
        return generated
    return generated._replace(text=generated.text[: min(found)], finish_reason="stop")


def completion(
    request: CompletionRequest,
    prompts: Sequence[list[int]],
    outputs: Sequence[Generated],
    *,
    model: str,
    fingerprint: str,
) -> dict[str, Any]:
    """Return the body of a success.

    Args:
        request: What was asked.
        prompts: Token ids of each prompt, as the model got them.
        outputs: What was generated for each.
        model: What the model is called.
        fingerprint: Versions and number format that the answers depend on.
    """
    choices = []
    for index, (ids, output) in enumerate(zip(prompts, outputs, strict=True)):
        choice: dict[str, Any] = {
            "index": index,
            "text": output.text,
            "logprobs": None,
            "finish_reason": output.finish_reason,
        }
        if request.return_token_ids:
            choice |= {"token_ids": output.token_ids, "prompt_token_ids": ids}
        choices.append(choice)
    read = sum(map(len, prompts))
    written = sum(len(output.token_ids) for output in outputs)
    return {
        "id": f"cmpl-{uuid.uuid4().hex}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": model,
        "choices": choices,
        "usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written},
        "system_fingerprint": fingerprint,
    }
