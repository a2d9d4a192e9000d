"""Checks what a model's configuration says against what its kind of adapter can do."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, TypeVar

import msgspec

from hatevolution.configs.checks import check_addresses
from hatevolution.configs.schema import Decoding
from hatevolution.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection

    from hatevolution.configs.prompts import Prompt
    from hatevolution.configs.schema import ModelConfig

__all__ = ["base_urls", "check_decoding", "check_no_system", "nearest", "need_prompt", "read_options"]

O = TypeVar("O", bound=msgspec.Struct)  # noqa: E741 - the usual name of a type variable for options


def nearest(word: str, known: Collection[str]) -> str:
    """Return `` (did you mean 'x'?)`` for the known word that is nearest, or nothing."""
    matches = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" (did you mean {matches[0]!r}?)" if matches else ""


def read_options(model: ModelConfig, struct: type[O]) -> O:
    """Return the model's options as the adapter's own struct.

    Raises:
        ConfigError: An option that the adapter doesn't know, or one of the wrong type or out of range.
    """
    known = [item.encode_name for item in msgspec.structs.fields(struct)]
    for name in model.options:
        if name not in known:
            raise ConfigError(
                f"The model {model.name!r} has an unknown option {name!r}{nearest(name, known)}; the adapter "
                f"{model.adapter!r} knows: {', '.join(known) or 'none'}."
            )
    try:
        return msgspec.convert(model.options, struct, strict=True)
    except msgspec.ValidationError as error:
        where = str(error).replace("`", "'").replace("$.", "options.")
        raise ConfigError(f"The model {model.name!r} has a wrong option: {where}.") from None


def check_decoding(model: ModelConfig, allowed: Collection[str], reserved: Collection[str] = ()) -> None:
    """Make sure that nothing is configured about decoding that would have no effect, or that would break the request.

    Args:
        model: The model.
        allowed: Names of the fields of ``[decoding]`` that this kind of adapter sends.
        reserved: Names of request fields that ``decoding.extra`` may not set.

    Raises:
        ConfigError: There is such a field.
    """
    nothing = Decoding()
    for item in msgspec.structs.fields(Decoding):
        if item.name not in allowed and getattr(model.decoding, item.name) != getattr(nothing, item.name):
            raise ConfigError(
                f"The model {model.name!r} sets decoding.{item.name}, which has no effect with the adapter "
                f"{model.adapter!r}; it takes: {', '.join(sorted(allowed)) or 'nothing'}."
            )
    for name in model.decoding.extra:
        if name in reserved:
            raise ConfigError(
                f"The model {model.name!r} sets decoding.extra.{name}, which the adapter {model.adapter!r} sets itself "
                "or can't do without."
            )


def need_prompt(model: ModelConfig, prompt: Prompt | None) -> Prompt:
    """Return the prompt.

    Raises:
        ConfigError: There is none.
    """
    if prompt is None:
        raise ConfigError(
            f"The model {model.name!r} names no prompt, and the adapter {model.adapter!r} can't do without one; "
            "name one in the model's file, such as prompt = 'paper-open'."
        )
    return prompt


def check_no_system(model: ModelConfig, prompt: Prompt | None) -> None:
    """Make sure that the prompt has no system message, for endpoints that know no roles.

    Raises:
        ConfigError: It has one.
    """
    if prompt is not None and prompt.system is not None:
        raise ConfigError(
            f"The prompt {prompt.name!r} of the model {model.name!r} has a system message, which the adapter "
            f"{model.adapter!r} can't send; use a prompt with 'user' alone."
        )


def base_urls(model: ModelConfig, default: str | None = None) -> tuple[str, ...]:
    """Return the addresses of the model's endpoint, as configured.

    Args:
        model: The model.
        default: What an empty list means; None where there is no such thing.

    Raises:
        ConfigError: There is none, one is no HTTP address, or one stands there twice.
    """
    urls = model.endpoint.base_urls or ((default,) if default else ())
    if not urls:
        raise ConfigError(
            f"The model {model.name!r} has no address; set endpoint.base_urls, such as ['http://127.0.0.1:8000/v1']."
        )
    check_addresses(urls, f"The model {model.name!r}")
    return urls
