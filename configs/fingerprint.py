"""What makes a model's name stand for one specification."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from hatevolution.configs.prompts import Prompt
    from hatevolution.configs.schema import ModelConfig

__all__ = ["differences", "fingerprint", "specification"]


def specification(model: ModelConfig, prompt: Prompt | None) -> dict[str, Any]:
    """Return all that decides what is sent and what answers, as plain JSON values.

    Speed (the endpoint table), the server's life (but for its number format), money, tables (title, parser, labels,
    composite) and retirement are left out: changing them changes no answer. The prompt stands in it by its text, not
    by its name.
    """
    said = None if prompt is None else {"system": prompt.system, "before": prompt.before, "after": prompt.after}
    spec = {
        "adapter": model.adapter,
        "model": model.model,
        "revision": model.revision,
        "prompt": said,
        "decoding": msgspec.to_builtins(model.decoding),
        "options": dict(sorted(model.options.items())),
    }
    if model.server is not None and (model.server.dtype != "auto" or model.server.quantization is not None):
        # Left out where they say nothing: a [server] table added to a model that somebody else served changes nothing.
        spec["server"] = {"dtype": model.server.dtype, "quantization": model.server.quantization}
    return spec


def fingerprint(spec: dict[str, Any]) -> str:
    """Return the SHA-256 (hex) of a specification."""
    text = json.dumps(spec, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def differences(stored: dict[str, Any], asked: dict[str, Any], prefix: str = "") -> list[str]:
    """Return one ``field: stored -> asked`` for each field in which two specifications differ."""
    found: list[str] = []
    for key in sorted(set(stored) | set(asked)):
        old, new = stored.get(key), asked.get(key)
        if old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            found += differences(old, new, f"{prefix}{key}.")
        else:
            found.append(f"{prefix}{key}: {json.dumps(old)} -> {json.dumps(new)}")
    return found
