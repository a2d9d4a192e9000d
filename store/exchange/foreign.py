"""Answers that others made: what a record of a foreign file is, and which sentence it is about."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from hatevolution.domain import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["Foreign", "Match", "Matcher", "SentenceRow", "at"]

Match = Literal["id", "text"]


class Foreign(NamedTuple):
    """One record of a foreign file, as far as it could be read."""

    number: int
    """Where it stands in the file, as people count: the row of a table (its header is row 1), line, or sample."""
    record: str | bytes
    """As it stands in the file; kept as the response's body."""
    id: str | None = None
    text: str | None = None
    said: str | None = None
    """Prompt that was sent, system message and NUL before it if there was one; None where the file does not say."""
    answer: str | None = None
    why_not: str | None = None
    """Why this is no answer; None where it is one."""
    status: Status = Status.ANSWERED
    scores: Mapping[str, float] | None = None
    finish_reason: str | None = None
    served_model: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    latency_s: float = 0.0
    """0 where the file does not say."""


class SentenceRow(NamedTuple):
    """What matching needs to know of a sentence."""

    id: str
    text: str
    pair: str | None
    role: str | None


class Matcher:
    """Finds the sentence of a record, by id or by exact text.

    Args:
        sentences: Of the data set, in its order.
        match: By what.
        said: Sentence's text -> what the model's configuration says about it, system message and NUL before it if it
            has one. A record whose text is that (and not the bare sentence) is matched too.
        role: Only sentences of this role, by the ids of their pairs; None for the sentences' own ids.
    """

    def __init__(
        self,
        sentences: Iterable[SentenceRow],
        match: Match,
        said: Callable[[str], str],
        role: str | None = None,
    ) -> None:
        self._match = match
        self._role = role
        self._said = said
        self._texts: dict[str, str] = {}
        self._by_id: dict[str, str] = {}
        self._by_text: dict[str, deque[str]] = {}
        for sentence in sentences:
            if role is not None and sentence.role != role:
                continue
            self._texts[sentence.id] = sentence.text
            key = sentence.id if role is None else sentence.pair
            if key is not None:
                self._by_id[key] = sentence.id
            if match == "text":
                spoken = said(sentence.text)
                for text in {sentence.text, spoken, spoken.rpartition("\0")[2]}:
                    self._by_text.setdefault(text, deque()).append(sentence.id)

    @property
    def sentences(self) -> Mapping[str, str]:
        """Id -> text of the sentences that can be matched."""
        return self._texts

    def find(self, record: Foreign) -> tuple[str | None, str]:
        """Return the id of a record's sentence, or None and why there is none."""
        return self._find_id(record) if self._match == "id" else self._find_text(record)

    def _find_id(self, record: Foreign) -> tuple[str | None, str]:
        if record.id is None:
            return None, "it has no id"
        found = self._by_id.get(record.id)
        if found is None:
            kind = "sentence" if self._role is None else f"{self._role} sentence of a pair"
            return None, f"there is no {kind} with the id {record.id!r}"
        return found, ""

    def _find_text(self, record: Foreign) -> tuple[str | None, str]:
        for text in (record.text, record.said, None if record.said is None else record.said.rpartition("\0")[2]):
            ids = None if text is None else self._by_text.get(text)
            if ids:
                # Sentences with one text: their records are theirs in turn, and the last one has what is left.
                return (ids.popleft() if len(ids) > 1 else ids[0]), ""
        if record.text is None and record.said is None:
            return None, "it has no text"
        return None, "there is no sentence with its text"

    def differs(self, record: Foreign, sentence: str) -> bool:
        """Return whether a record with the right id tells of another text than the sentence's."""
        text = self._texts[sentence]
        return record.text is not None and record.text not in (text, self._said(text).rpartition("\0")[2])


def at(record: Any, path: str) -> Any:
    """Return what stands under a key (``answer``) or a path of keys (``doc.text``); None where there is nothing."""
    if isinstance(record, dict) and path in record:
        return record[path]
    for key in path.split("."):
        if not isinstance(record, dict) or key not in record:
            return None
        record = record[key]
    return record
