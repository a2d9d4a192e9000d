"""Words by which the rules of :mod:`hatevolution.analysis.audit.rules` know an answer; lower case."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["OTHER_LABELS", "REFUSALS", "TRANSLATIONS", "any_phrase"]

REFUSALS: Final = (
    "i can't", "i can’t", "i cannot", "i can not", "i am not able", "i'm not able", "i’m not able", "i am unable",
    "i'm unable", "i’m unable", "i won't", "i won’t", "i will not", "i must decline", "i have to decline",
    "i'd rather not", "i'm sorry", "i’m sorry", "i am sorry", "sorry, but", "i apologize", "i apologise", "as an ai",
    "as a language model", "i do not feel comfortable", "i'm not comfortable", "i don't feel comfortable",
    "can't assist", "cannot assist", "can't help with", "cannot help with", "against my guidelines",
    "violates my guidelines", "not appropriate for me to",
)  # fmt: skip
"""How models decline in words; a refusal by the provider is no answer and has the status ``refused``."""

OTHER_LABELS: Final = (
    "hateful", "hate", "hate speech", "not hate", "non-hateful", "nonhateful", "offensive", "inoffensive",
    "non-offensive", "abusive", "harassment", "harmful", "harmless", "insult", "insulting", "rude", "hostile",
    "derogatory", "discriminatory", "racist", "sexist", "homophobic", "transphobic", "inappropriate", "appropriate",
    "unacceptable", "acceptable", "negative", "positive", "neutral", "normal", "benign", "safe", "unsafe", "clean",
    "polite", "impolite", "respectable", "respect", "respectfully", "respected", "toxicity", "poisonous", "kind",
    "friendly", "civil", "uncivil", "sarcastic", "ambiguous", "unclear",
)  # fmt: skip
"""What models say in place of the two labels."""

TRANSLATIONS: Final = (
    "tóxico", "tóxica", "toxico", "toxica", "respetuoso", "respetuosa", "respeitoso", "respeitosa", "toxique",
    "respectueux", "respectueuse", "giftig", "toxisch", "respektvoll", "tossico", "tossica", "rispettoso",
    "rispettosa", "respectvol", "toksyczny", "toksyczne", "uprzejmy", "toksik", "saygılı", "zehirli", "toksisk",
    "respektfull", "respektfuld", "beracun", "hormat",
)  # fmt: skip
"""The labels in languages of Latin script; other scripts are told by their letters."""


def any_phrase(phrases: Iterable[str]) -> str:
    """Return the regular expression (Rust syntax) that finds any of some phrases as words of their own."""
    # re.escape would also escape characters for which Rust has no escape; only these need one here.
    escaped = (re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", phrase).replace(" ", r"\s+") for phrase in phrases)
    return rf"\b(?:{'|'.join(escaped)})\b"
