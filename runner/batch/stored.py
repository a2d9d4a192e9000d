"""A model as a store knows it: enough to ask after its batches, and to read their answers, without its files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from hatevolution.configs.fingerprint import fingerprint, specification
from hatevolution.configs.prompts import Prompt
from hatevolution.configs.schema import ModelConfig
from hatevolution.errors import StoreError

if TYPE_CHECKING:
    import sqlite3

__all__ = ["StoredModel", "stored_model"]


class StoredModel(NamedTuple):
    """A model's configuration, and its prompt."""

    config: ModelConfig
    prompt: Prompt | None


def stored_model(connection: sqlite3.Connection, name: str) -> StoredModel:
    """Return a model of a store.

    Raises:
        StoreError: The stored configuration is not that of the stored specification, so that its answers would be read
            in another way than they were asked for; or this version can't read it.
    """
    configuration, spec, stored = connection.execute(
        "SELECT configuration, specification, fingerprint FROM models WHERE model = ?", [name]
    ).fetchone()
    try:
        config = msgspec.convert(json.loads(configuration), ModelConfig, strict=False)
        said = json.loads(spec)["prompt"]
        prompt = None if said is None else Prompt("", 0, said["before"], said["after"], said["system"])
    except (msgspec.ValidationError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"The store's configuration of the model {name!r} can't be read: {error}.") from None
    if fingerprint(specification(config, prompt)) != stored:
        raise StoreError(
            f"The store's configuration of the model {name!r} is not that of its specification, so that its batches "
            f"can't be read as they were asked; `hatevolution store verify` says more."
        )
    return StoredModel(config, prompt)
