"""The nouns that every layer shares; standard library only.

A *sentence* of a data set is asked of a *model*; what comes back is a *reply* (one response of the endpoint) that
holds one *answer* for each sentence it was asked about. Nothing here is ever turned into a label: labels are
derived from stored answers by :mod:`hatevolution.analysis`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Answer", "Item", "Label", "RateWindow", "Reply", "Role", "Sentence", "Served", "Status", "TokenEstimate"]


class Label(StrEnum):
    """The two gold labels of the study."""

    TOXIC = "toxic"
    RESPECTFUL = "respectful"


class Role(StrEnum):
    """Which sentence of a NeoBench pair this is."""

    ORIGINAL = "original"
    """The sentence without the neologism (s1 in the paper)."""
    NEOLOGISM = "neologism"
    """The same sentence with the neologism (s2 in the paper)."""


class Status(StrEnum):
    """What kind of prediction a stored row is. A failure is none of these."""

    ANSWERED = "answered"
    """The model answered; ``raw_text`` or ``scores`` hold exactly what came."""
    REFUSED = "refused"
    """The provider declined this sentence (content filter, refusal field)."""
    REJECTED = "rejected"
    """This sentence can't be sent to this model (too long, empty, language not supported)."""


class Sentence(NamedTuple):
    """One sentence of a data set, as its loader read it. Made by keywords.

    A tuple and not a frozen dataclass, since sets of a million rows make a million of them: 0.5 against 4 µs each.
    """

    id: str
    """The set's own stable id, or row and role where it has none; unique within the set, not empty."""
    text: str
    """Exactly as in the source: blanks, control characters and unpaired surrogates included."""
    gold: Label | None
    """None only in sets that a user describes without labels."""
    gold_raw: str | None = None
    """The label as the source spells it."""
    year: int | None = None
    pair: str | None = None
    """Id of the minimal pair, for sets made of pairs."""
    role: Role | None = None
    type: str | None = None
    """Linguistic type of the neologism: lexical, morphological, semantic."""
    functionality: str | None = None
    """HateCheck's functionality."""
    target: str | None = None
    """Targeted group, as the source spells it."""
    meta: Mapping[str, str] = {}
    """Whatever else the source says of this sentence."""


class Item(NamedTuple):
    """What an adapter needs to know of a sentence."""

    dataset: str
    sentence: str
    text: str


class Answer(NamedTuple):
    """What a model said about one sentence."""

    status: Status
    raw_text: str | None = None
    """Exactly what came. None where the endpoint gives scores and no text."""
    scores: Mapping[str, float] | None = None
    """Every score the endpoint gave, by the endpoint's own name, in its order; thresholds belong to the analysis."""
    finish_reason: str | None = None
    """The endpoint's own word for why it stopped (``stop``, ``length``, ...); for refused and rejected rows, why."""
    prompt_sha256: str | None = None
    """Hex digest of what was sent for this sentence: prompt text, or system and user message, UTF-8."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    truncated: bool = False
    """True where the input was cut to fit the model."""


class RateWindow(NamedTuple):
    """What an endpoint said of its own limits in the headers of a response; None where it said nothing."""

    limit_requests: int | None = None
    remaining_requests: int | None = None
    reset_requests_s: float | None = None
    limit_tokens: int | None = None
    remaining_tokens: int | None = None
    reset_tokens_s: float | None = None


class Reply(NamedTuple):
    """One response of an endpoint, answering one or more sentences."""

    answers: Sequence[Answer]
    """One for each item asked, in the order of the items."""
    body: str | bytes
    """The response body, exactly as it came."""
    http_status: int | None = None
    request_id: str | None = None
    served_model: str | None = None
    """The model id that the response itself names."""
    system_fingerprint: str | None = None
    prompt_tokens: int | None = None
    """Of the whole request, as billed."""
    completion_tokens: int | None = None
    rate_window: RateWindow | None = None


class Served(NamedTuple):
    """What an endpoint says of itself when probed."""

    models: tuple[str, ...] | None
    """Ids that it serves; None where it can't say."""
    version: str | None = None


class TokenEstimate(NamedTuple):
    """Tokens that a request may use, before it is sent."""

    prompt_likely: int
    """A fair guess, for rate limits and displays."""
    prompt_most: int
    """A bound that the endpoint can't exceed, for budgets."""
    completion_most: int
    """The most it may generate."""
