"""Inputs that a server cuts to a number of tokens: when to ask for it, and how to tell that it was done.

A response says how many prompt tokens the whole request had, not each sentence. So the server is told to cut only
where a request carries one sentence: there, as many tokens as the limit mean that it was cut. (A sentence of exactly
that many tokens counts as cut as well.) A list is sent uncut, and only if every sentence in it fits: for certain, by
its bytes, or because the server's own window is that limit, so that it refuses the list otherwise. A refused list is
halved by the runner until the long sentence stands alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hatevolution.adapters.models.said import utf8_length

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Cut"]


class Cut:
    """The limit of one model.

    Args:
        limit: Tokens; None where nothing is cut.
        specials: Tokens that the server adds to each text, at most.
    """

    def __init__(self, limit: int | None, specials: int) -> None:
        self.limit = limit
        self._specials = specials

    def must_split(self, texts: Sequence[str], window: int | None) -> bool:
        """Return whether these texts can't go together, since one of them may have to be cut.

        Args:
            texts: What would be sent.
            window: The most tokens that the server takes, where that is known; it refuses longer texts by itself.
        """
        if self.limit is None or len(texts) == 1 or window == self.limit:
            return False
        # A byte-level tokeniser can't make more tokens than there are bytes.
        return any(utf8_length(text) + self._specials > self.limit for text in texts)

    def done(self, sentences: int, prompt_tokens: int | None) -> bool:
        """Return whether the sentence of a request was cut; False for lists, which are never cut.

        Args:
            sentences: How many the request carried.
            prompt_tokens: How many tokens the response says it had.
        """
        return self.limit is not None and sentences == 1 and prompt_tokens is not None and prompt_tokens >= self.limit
