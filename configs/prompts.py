"""Prompts: named, versioned texts that are added and never edited.

A prompt file holds ``user`` (with ``{text}`` once) and, for chat models, ``system``. The sentence is put in as it is:
nothing in it is interpreted, whatever braces, percent signs or blanks it holds.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from hatevolution.configs.load import find, load_toml
from hatevolution.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["PLACEHOLDER", "Prompt", "load_prompt"]

PLACEHOLDER = "{text}"


class _PromptFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    version: int
    user: str
    system: str | None = None
    source: str = ""


class Prompt(NamedTuple):
    """A prompt, split at the place of the sentence."""

    name: str
    version: int
    before: str
    after: str
    system: str | None = None

    def render(self, text: str) -> str:
        """Return the user message (or completion prompt) for a sentence."""
        return f"{self.before}{text}{self.after}"

    def sha256(self, text: str) -> str:
        """Return the hex digest of all that is said for a sentence: system message (if any), NUL, user message."""
        said = self.render(text) if self.system is None else f"{self.system}\0{self.render(text)}"
        return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()


def load_prompt(reference: str, relative_to: Path | None = None) -> Prompt:
    """Return a prompt by its name or by the path of a TOML file.

    Raises:
        ConfigError: There is no such prompt, or its ``user`` text does not hold ``{text}`` exactly once.
    """
    path = find(reference, "prompts", relative_to)
    loaded = load_toml(path, _PromptFile)
    if loaded.user.count(PLACEHOLDER) != 1:
        raise ConfigError(f"{path}: 'user' has to hold {PLACEHOLDER} exactly once, where the sentence goes.")
    before, after = loaded.user.split(PLACEHOLDER)
    return Prompt(loaded.name, loaded.version, before, after, loaded.system)
