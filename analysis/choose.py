"""Names that a person typed, matched against those that exist."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from hatevolution.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["chosen"]


def chosen(wanted: Sequence[str] | None, known: Sequence[str], noun: str) -> set[str]:
    """Return the names that were asked for; all of them where nothing was.

    Raises:
        ConfigError: One is not known; the text names the nearest one.
    """
    if wanted is None:
        return set(known)
    for name in wanted:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise ConfigError(f"There is no {noun} {name!r} here{hint}; there are: {', '.join(known) or 'none'}.")
    return set(wanted)
