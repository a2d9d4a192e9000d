"""What is said to a model about a sentence, and how many tokens that may be."""

from __future__ import annotations

import hashlib
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING

from hatevolution.domain import TokenEstimate

if TYPE_CHECKING:
    from hatevolution.configs.prompts import Prompt

__all__ = ["Said", "json_string", "utf8_length"]

_LIKELY_CHARACTERS = 4
"""Characters per token of English text: OpenAI's rule of thumb ("What are tokens and how to count them?")."""

json_string = encode_basestring_ascii
"""Text -> JSON string in ASCII, quotes included. Unpaired surrogates become escapes, so that every text can be sent."""


def utf8_length(text: str) -> int:
    """Return the number of bytes of a text in UTF-8, unpaired surrogates included (three bytes each)."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


class Said:
    """A prompt around a sentence, or the bare sentence.

    Args:
        prompt: The prompt; None for the bare sentence.
    """

    def __init__(self, prompt: Prompt | None) -> None:
        self._prompt = prompt
        self._before = "" if prompt is None else prompt.before
        self._after = "" if prompt is None else prompt.after
        system = None if prompt is None else prompt.system
        # Everything but the sentence, in bytes: the system message counts too.
        self._frame = utf8_length(self._before) + utf8_length(self._after) + utf8_length(system or "")
        self._json_before = json_string(self._before)[:-1]
        self._json_after = json_string(self._after)[1:]

    def text(self, text: str) -> str:
        """Return the user message (or completion prompt) for a sentence."""
        return f"{self._before}{text}{self._after}"

    def json(self, text: str) -> str:
        """Return :meth:`text` as a JSON string in ASCII, quotes included."""
        return f"{self._json_before}{json_string(text)[1:-1]}{self._json_after}"

    def sha256(self, text: str) -> str:
        """Return the hex digest of all that is said, as the prompt defines it; of the bare sentence without one."""
        if self._prompt is None:
            return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return self._prompt.sha256(text)

    def estimate(self, text: str, *, overhead: int, completion: int) -> TokenEstimate:
        """Return how many tokens a request for this sentence may use.

        The bound is one token for each UTF-8 byte: a byte-level BPE, as OpenAI's and most open models' tokenisers are,
        merges bytes and never splits one. (SentencePiece models may normalise a rare character into several; these
        models cost nothing, so no budget depends on it.)

        Args:
            text: The sentence.
            overhead: Tokens that the endpoint adds (special tokens, roles, its chat template), at most.
            completion: Tokens that it may generate, at most.
        """
        most = self._frame + utf8_length(text)
        likely = -(-(self._frame + len(text)) // _LIKELY_CHARACTERS)
        return TokenEstimate(likely + overhead, most + overhead, completion)
