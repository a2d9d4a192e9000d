"""Which sentences a model has not answered yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hatevolution.store.text import decode

if TYPE_CHECKING:
    import sqlite3

__all__ = ["PendingSentence", "pending_count", "pending_page"]


class PendingSentence(NamedTuple):
    """A sentence without a prediction."""

    position: int
    sentence: str
    text: str


_PAGE = """
SELECT s.position, s.sentence, s.text
FROM sentences AS s
WHERE s.dataset = :dataset AND s.position > :after AND s.position < :limit
  AND NOT EXISTS (
    SELECT 1 FROM predictions AS p
    WHERE p.model = :model AND p.dataset = s.dataset AND p.sentence = s.sentence
  )
  AND (:batched OR NOT EXISTS (
    SELECT 1 FROM batch_lines AS b
    WHERE b.model = :model AND b.dataset = s.dataset AND b.sentence = s.sentence AND b.outcome IS NULL
  ))
ORDER BY s.position
LIMIT :size
"""

_ANSWERED_WITHIN = """
SELECT count(*)
FROM sentences AS s
JOIN predictions AS p ON p.model = :model AND p.dataset = s.dataset AND p.sentence = s.sentence
WHERE s.dataset = :dataset AND s.position < :limit
"""

_NO_LIMIT = 2**62


def pending_page(
    connection: sqlite3.Connection,
    model: str,
    dataset: str,
    after: int,
    size: int,
    limit: int | None,
    *,
    batched: bool = False,
) -> list[PendingSentence]:
    """Return the next sentences of a set that a model has no prediction for, and that are in no open batch.

    Args:
        connection: To read with.
        model: Whose predictions.
        dataset: Which set.
        after: Position after which to look; -1 for the beginning.
        size: Most sentences to return.
        limit: Only sentences at positions below this; None for all.
        batched: True returns those in open batches too.
    """
    rows = connection.execute(
        _PAGE,
        {
            "dataset": dataset,
            "after": after,
            "limit": _NO_LIMIT if limit is None else limit,
            "model": model,
            "size": size,
            "batched": batched,
        },
    )
    return [PendingSentence(position, sentence, decode(text)) for position, sentence, text in rows]


def pending_count(connection: sqlite3.Connection, model: str, dataset: str, limit: int | None) -> int:
    """Return how many sentences of a set (of its first ``limit``) a model has no prediction for."""
    total = connection.execute("SELECT sentences FROM datasets WHERE dataset = ?", [dataset]).fetchone()
    if total is None:
        return 0
    within = int(total[0]) if limit is None else min(limit, int(total[0]))
    if within == total[0]:
        # A prediction's sentence is always one of its set (foreign key), so counting the index is enough.
        (answered,) = connection.execute(
            "SELECT count(*) FROM predictions WHERE model = ? AND dataset = ?", [model, dataset]
        ).fetchone()
    else:
        (answered,) = connection.execute(
            _ANSWERED_WITHIN, {"model": model, "dataset": dataset, "limit": within}
        ).fetchone()
    return within - int(answered)
