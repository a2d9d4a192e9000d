"""Takes secrets out of texts before anybody reads or stores them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["MASK", "Redactor"]

MASK = "***"

_SHORTEST = 6
"""A shorter value is no secret (``EMPTY``, ``x``), and masking it would garble every text."""

_SECRET_NAME = re.compile(r"(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:_|$)", re.IGNORECASE)

# Shapes that betray a secret whoever it belongs to. Each is linear in the length of the text.
_SHAPES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b(api[_-]?key|key|access_token|token)=[^&\s\"'<>\\]+", re.IGNORECASE), rf"\1={MASK}"),
    (re.compile(r"\b(bearer)\s+[A-Za-z0-9._~+/=*-]{6,}", re.IGNORECASE), rf"\1 {MASK}"),
    # OpenAI's own error texts show the ends of a key with asterisks between them.
    (re.compile(r"\bsk-[A-Za-z0-9_*-]{6,}"), f"sk-{MASK}"),
    (re.compile(r"\bAIza[A-Za-z0-9_-]{10,}"), f"AIza{MASK}"),
    (re.compile(r"(://)[^/@\s\"']{1,500}@"), rf"\1{MASK}@"),
)


class Redactor:
    """Knows the secrets of one process.

    Args:
        keys: Values that must not be seen, in failures and in the bodies of successes.
        others: Further values that must not be seen in failures.

    Values of fewer than six characters are left alone.
    """

    def __init__(self, keys: Iterable[str] = (), others: Iterable[str] = ()) -> None:
        own = _spellings(keys)
        # The longest first: a secret that begins with another one is masked as a whole.
        self._all = tuple(sorted(own | _spellings(others), key=lambda form: (-len(form), form)))
        self._exact = tuple(form.encode("utf-8", "surrogatepass") for form in self._all if form in own)

    @classmethod
    def of(cls, environ: Mapping[str, str], *names: str) -> Redactor:
        """Return one that knows the named variables, and all others whose name speaks of a key, token or password."""
        return cls(
            (environ[name] for name in names if name in environ),
            (value for name, value in environ.items() if _SECRET_NAME.search(name)),
        )

    def text(self, text: str) -> str:
        """Return the text with known secrets and whatever looks like one masked."""
        for form in self._all:
            text = text.replace(form, MASK)
        for shape, instead in _SHAPES:
            text = shape.sub(instead, text)
        return text

    def exact(self, raw: bytes) -> bytes:
        """Return the body of a success with the endpoint's own key masked, should it stand there; else as it came."""
        for form in self._exact:
            if form in raw:
                raw = raw.replace(form, MASK.encode("ascii"))
        return raw


def _spellings(values: Iterable[str]) -> set[str]:
    known = {value.strip() for value in values if len(value.strip()) >= _SHORTEST}
    # A variable of the environment may hold any bytes; those that are no UTF-8 stand there as surrogates.
    return {
        form
        for value in known
        for form in (value, quote(value, safe="", errors="surrogateescape"), json.dumps(value)[1:-1])
    }
