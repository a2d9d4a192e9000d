"""What adapters may know of the environment: the keys of their endpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hatevolution.adapters.redact import Redactor
from hatevolution.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hatevolution.configs.schema import ModelConfig

__all__ = ["DEFAULT_KEYS", "Secrets", "key_name"]

DEFAULT_KEYS = {
    "openai-chat": "OPENAI_API_KEY",
    "openai-moderation": "OPENAI_API_KEY",
    "perspective": "PERSPECTIVE_API_KEY",
}
"""Kind of adapter -> the variable that holds its key where a model names none."""


def key_name(model: ModelConfig) -> str | None:
    """Return the name of the environment variable with a model's API key; None where it needs none."""
    return model.endpoint.api_key_env or DEFAULT_KEYS.get(model.adapter)


class Secrets:
    """Keys from the environment, and what hides them.

    Args:
        environ: The environment variables.
        required: False where nothing will be sent (a dry run): a missing key is then no error.
    """

    def __init__(self, environ: Mapping[str, str], *, required: bool = True) -> None:
        self._environ = environ
        self._required = required

    def api_key(self, model: ModelConfig, default: str | None = None) -> str | None:
        """Return the key of a model's endpoint; None where it needs none (or, in a dry run, has none).

        Args:
            model: Its ``endpoint.api_key_env`` names the variable.
            default: The variable's name where the model names none; None: then no key is needed.

        Raises:
            ConfigError: The variable is not set, or holds what no header can.
        """
        name = model.endpoint.api_key_env or default
        if name is None:
            return None
        key = self._environ.get(name, "").strip()
        if key:
            if any(ord(character) < 32 or ord(character) == 127 for character in key):
                raise ConfigError(
                    f"The environment variable {name} holds a line break or another control character in the middle; "
                    f"an API key has none."
                )
            if any("\ud800" <= character <= "\udfff" for character in key):
                raise ConfigError(
                    f"The environment variable {name} holds bytes that are no UTF-8; an API key has none."
                )
            return key
        if not self._required:
            return None
        raise ConfigError(
            f"The model {model.name!r} needs the environment variable {name} to hold its API key, and it is "
            f"{'empty' if name in self._environ else 'not set'}."
        )

    def redactor(self, model: ModelConfig, default: str | None = None) -> Redactor:
        """Return what takes this model's key, and the environment's other secrets, out of texts."""
        name = model.endpoint.api_key_env or default
        return Redactor.of(self._environ, *(() if name is None else (name,)))
