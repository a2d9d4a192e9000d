"""Parse policies: named, versioned, pure rules from raw answers to labels. Changing one sends no request.

``paper`` is the umbrella of the published rules: each model's own ``parser`` from its configuration. Any other policy
that is asked for by name takes the place of the parsers of the same kind: a rule for free text is applied to models
that answer in text, one for scores to models that give scores, and the others keep their own.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hatevolution.analysis.parsers.base import RAW_TEXT, SCORES_JSON, Policy
from hatevolution.analysis.parsers.published import PUBLISHED
from hatevolution.analysis.parsers.words import LENIENT, STRICT
from hatevolution.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PAPER", "POLICIES", "RAW_TEXT", "SCORES_JSON", "Policy", "policy", "policy_for", "policy_of"]

PAPER: Final = "paper"
"""Every model's own parser, as its configuration names it."""

POLICIES: Final[Mapping[str, Policy]] = {item.name: item for item in (*PUBLISHED, STRICT, LENIENT)}


def policy(reference: str) -> Policy:
    """Return a policy by its name, or from the TOML file that a path names.

    Raises:
        ConfigError: There is none; the text names the nearest known one.
    """
    if reference.endswith(".toml") or "/" in reference:
        # Imported only here: nobody else has to wait for msgspec and its kin.
        from hatevolution.analysis.parsers.own import load_policy

        return load_policy(Path(reference).expanduser())
    if reference in POLICIES:
        return POLICIES[reference]
    known = [PAPER, *POLICIES]
    near = difflib.get_close_matches(reference, known, n=1, cutoff=0.5)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise ConfigError(
        f"There is no parse policy {reference!r}{hint}; known: {', '.join(known)}; "
        "one of your own is named by its path, ending in .toml."
    )


def policy_for(own: str, asked: Policy | None) -> Policy:
    """Return the policy for one model.

    Args:
        own: The ``parser`` of the model's configuration.
        asked: The policy asked for; None for :data:`PAPER`.
    """
    default = policy(own)
    return asked if asked is not None and asked.reads == default.reads else default


def policy_of(model: str, settings: Mapping[str, Any], asked: Policy | None) -> Policy:
    """Return the policy for one model of a store.

    Args:
        model: Its name.
        settings: Its configuration, as the store has it.
        asked: The policy asked for; None for :data:`PAPER`.

    Raises:
        ConfigError: Its own policy is not known, or its file can't be read.
    """
    try:
        return policy_for(settings.get("parser", "paper-exact"), asked)
    except ConfigError as error:
        raise ConfigError(f"The parser of the model {model}: {error}") from None
