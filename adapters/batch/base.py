"""Which adapters can have their requests in a batch, and what they need for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, cast

from hatevolution.adapters import registry
from hatevolution.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hatevolution.adapters.models.faults import Arrived
    from hatevolution.configs.prompts import Prompt
    from hatevolution.configs.schema import ModelConfig
    from hatevolution.domain import Item, Reply, TokenEstimate

__all__ = ["FINAL", "OFFLINE", "PROVIDER", "TOKEN_LIMIT", "BatchAdapter", "batch_adapter", "reading_adapter"]

PROVIDER: Final = frozenset({"openai-chat", "openai-moderation"})
"""Adapters of providers that have a batch interface."""
OFFLINE: Final = frozenset({"vllm-chat"})
"""Adapters whose requests ``vllm run-batch`` takes: of the routes that are asked live it knows chats alone."""

FINAL: Final = frozenset({"failed", "completed", "expired", "cancelled"})
"""Statuses of a provider's batches that do not change any more."""
TOKEN_LIMIT: Final = "token_limit_exceeded"  # noqa: S105 - a code of OpenAI's
"""The account's open batches hold as many tokens as they may."""


class BatchAdapter(Protocol):
    """An adapter that writes and reads bodies as it does live, whoever carries them."""

    batch_url: str
    """What a line of the input file calls its route."""

    @property
    def base_urls(self) -> tuple[str, ...]:
        """Where it can be asked."""

    def write(self, items: Sequence[Item]) -> str:
        """Return the request body, JSON in ASCII."""

    def receive(self, items: Sequence[Item], arrived: Arrived) -> Reply:
        """Return what a response says about these sentences.

        Raises:
            RequestFailure: It is no answer.
        """

    def estimate(self, item: Item) -> TokenEstimate:
        """Return how many tokens this sentence may use."""


def batch_adapter(
    model: ModelConfig, prompt: Prompt | None, environ: Mapping[str, str], *, offline: bool
) -> BatchAdapter:
    """Return what writes and reads the requests of a model for a batch.

    Args:
        model: The model's configuration.
        prompt: Its prompt.
        environ: The environment variables, for keys.
        offline: True for files that ``vllm run-batch`` answers, which needs no key.

    Raises:
        ConfigError: There is no batch interface for this kind of model, or its configuration is wrong.
    """
    kinds = OFFLINE if offline else PROVIDER
    if model.adapter not in kinds:
        where = "can be answered by `vllm run-batch`" if offline else "have a provider with a batch interface"
        other = ""
        if model.adapter in OFFLINE | PROVIDER:
            other = (
                " Leave --offline out." if offline else " --offline --out DIR writes its files for `vllm run-batch`."
            )
        raise ConfigError(
            f"The model {model.name!r} can't go into a batch: only models of the adapters {', '.join(sorted(kinds))} "
            f"{where}, and its adapter is {model.adapter!r}.{other}"
        )
    return cast("BatchAdapter", registry.create(model, prompt, environ, dry=offline))


def reading_adapter(model: ModelConfig, prompt: Prompt | None, environ: Mapping[str, str]) -> BatchAdapter:
    """Return what reads the responses of a model that was in a batch; it needs no key.

    Raises:
        ConfigError: The model's configuration is wrong, or its package is not installed.
    """
    return cast("BatchAdapter", registry.create(model, prompt, environ, dry=True))
