"""Kind of adapter -> adapter. A kind's module, and the client library it needs, is imported on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from hatevolution.adapters.secrets import Secrets
from hatevolution.errors import ConfigError, not_installed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hatevolution.adapters.base import Adapter
    from hatevolution.configs.prompts import Prompt
    from hatevolution.configs.schema import ModelConfig

__all__ = ["REGISTRY", "AdapterFactory", "Registry", "create", "kinds"]


class AdapterFactory(Protocol):
    """What a kind's target has to be: a class, or a function, that makes an adapter and connects to nothing."""

    def __call__(self, model: ModelConfig, prompt: Prompt | None, secrets: Secrets) -> Adapter:
        """Return the adapter.

        Raises:
            ConfigError: The model's options, prompt, addresses or key don't go with this kind.
            ModuleNotFoundError: The client library is not installed.
        """


class _Entry(NamedTuple):
    module: str
    name: str
    extra: str | None


class Registry:
    """Kinds of adapters by name."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def register(self, kind: str, target: str, *, extra: str | None = None) -> None:
        """Add a kind.

        Args:
            kind: What a model's TOML calls it.
            target: ``module:name`` of its factory, imported on first use.
            extra: The extra of this distribution that brings its client library.

        Raises:
            ValueError: The kind is there already.
        """
        if kind in self._entries:
            raise ValueError(f"the adapter kind {kind!r} is registered twice")
        module, _, name = target.partition(":")
        self._entries[kind] = _Entry(module, name, extra)

    def kinds(self) -> list[str]:
        """Return the sorted names of the kinds."""
        return sorted(self._entries)

    def create(self, model: ModelConfig, prompt: Prompt | None, secrets: Secrets) -> Adapter:
        """Return an adapter for a model; see :func:`create`."""
        entry = self._entries.get(model.adapter)
        if entry is None:
            raise ConfigError(
                f"The model {model.name!r} asks for the adapter {model.adapter!r}; known: {', '.join(self.kinds())}."
            )
        try:
            factory = cast("AdapterFactory", getattr(importlib.import_module(entry.module), entry.name))
            return factory(model, prompt, secrets)
        except ModuleNotFoundError as error:
            if entry.extra is None or (error.name or "").startswith("hatevolution"):
                raise
            raise not_installed(f"The model {model.name!r}", f"the package {error.name!r}", entry.extra) from None


REGISTRY = Registry()
_MODELS = "hatevolution.adapters.models"
REGISTRY.register("vllm-completions", f"{_MODELS}.completions:Completions")
REGISTRY.register("vllm-chat", f"{_MODELS}.vllm_chat:VllmChat")
REGISTRY.register("vllm-classify", f"{_MODELS}.classify:Classify")
REGISTRY.register("seq2seq", f"{_MODELS}.completions:Seq2Seq")
REGISTRY.register("openai-chat", f"{_MODELS}.openai_chat:OpenAIChat", extra="openai")
REGISTRY.register("openai-moderation", f"{_MODELS}.openai_moderation:OpenAIModeration", extra="openai")
REGISTRY.register("perspective", f"{_MODELS}.perspective:Perspective", extra="perspective")
REGISTRY.register("embedded", f"{_MODELS}.embedded:Embedded", extra="embedded")
REGISTRY.register("scripted", f"{_MODELS}.scripted:Scripted")


def kinds() -> list[str]:
    """Return the sorted names of the kinds of adapters."""
    return REGISTRY.kinds()


def create(model: ModelConfig, prompt: Prompt | None, environ: Mapping[str, str], *, dry: bool = False) -> Adapter:
    """Return the adapter that asks a model. Connects to nothing.

    Args:
        model: The model's configuration.
        prompt: Its prompt, loaded; None where the configuration names none.
        environ: The environment variables, for API keys.
        dry: True where the adapter will only be asked for its estimates: a missing API key is then no error.

    Raises:
        ConfigError: An option is unknown, a prompt or an address is missing, the API key is not set, or the client
            library is not installed.
    """
    return REGISTRY.create(model, prompt, Secrets(environ, required=not dry))
