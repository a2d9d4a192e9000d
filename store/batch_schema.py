"""The tables of batches: what was handed to a provider's batch interface and is not answered yet (``m004_batches``)."""

from __future__ import annotations

__all__ = ["BATCHES"]

BATCHES = """
-- One row per input file. It is written before anything is sent; what the provider gave back is added step by step, so
-- that whatever a crash leaves here says how far it came, and how to find at the provider what it did.
CREATE TABLE batches (
    batch INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,                -- our own: in the file's name, the batch's metadata and each custom_id
    model TEXT NOT NULL REFERENCES models(model),
    run TEXT NOT NULL REFERENCES runs(run),   -- that submitted it; its answers belong to that run
    place TEXT NOT NULL CHECK (place IN ('provider', 'offline')),
    base_url TEXT NOT NULL,                   -- the provider's address, or file:NAME
    endpoint TEXT NOT NULL,                   -- /v1/chat/completions, ...
    requests INTEGER NOT NULL,
    input_bytes INTEGER NOT NULL,
    input_sha256 TEXT NOT NULL,
    made_at TEXT NOT NULL,                    -- ISO 8601, UTC, as all times here
    upload_tried_at TEXT,                     -- committed before the file is sent
    file_id TEXT,                             -- the provider's id of the input file
    create_tried_at TEXT,                     -- committed before the batch is created
    provider_id TEXT,                         -- the provider's id of the batch
    submitted_at TEXT,
    provider_status TEXT,                     -- the provider's own word, when last asked
    done INTEGER,                             -- requests that the provider says are done, when last asked
    failed INTEGER,
    expires_at TEXT,
    checked_at TEXT,                          -- when it was last asked
    closed_at TEXT,                           -- null: open, its sentences are not asked otherwise
    outcome TEXT CHECK (outcome IN ('collected', 'failed', 'expired', 'cancelled', 'not_taken', 'given_up')),
    note ANY,                                 -- why, in a sentence
    CHECK ((closed_at IS NULL) = (outcome IS NULL))
) STRICT;
CREATE INDEX open_batches ON batches (model) WHERE closed_at IS NULL;

CREATE TABLE batch_lines (
    batch INTEGER NOT NULL REFERENCES batches(batch),
    line INTEGER NOT NULL,                    -- 0, 1, ... in the file; name and line make the custom_id
    model TEXT NOT NULL,
    dataset TEXT NOT NULL,
    sentence TEXT NOT NULL,
    result_id TEXT,                           -- the provider's id of the result
    outcome TEXT CHECK (outcome IN ('answered', 'second', 'failed', 'missing', 'invalid', 'released')),
    PRIMARY KEY (batch, line),
    FOREIGN KEY (dataset, sentence) REFERENCES sentences(dataset, sentence)
) STRICT, WITHOUT ROWID;
-- A sentence is in one open batch of a model at most: nothing can submit it twice.
CREATE UNIQUE INDEX open_batch_lines ON batch_lines (model, dataset, sentence) WHERE outcome IS NULL;
-- Lines that a provider's validation turned down; put into another file, they would take that down too.
CREATE INDEX invalid_batch_lines ON batch_lines (model, dataset, sentence) WHERE outcome = 'invalid';

-- A batch has no latency; responses keep 0 for it, since their column takes no null. An answer's own tokens are known
-- where it came alone; those of a request are of all the sentences in it.
DROP VIEW answers;
CREATE VIEW answers AS
SELECT p.model, p.dataset, p.sentence, s.text, s.gold, s.year, s.pair, s.role, s.type, s.functionality, s.target,
       p.status, p.raw_text, p.scores, p.finish_reason, p.prompt_sha256, p.truncated, p.attempts,
       p.prompt_tokens, p.completion_tokens,
       r.prompt_tokens AS request_prompt_tokens, r.completion_tokens AS request_completion_tokens,
       r.received_at, nullif(r.latency_s, 0) AS latency_s, r.cost_usd, r.base_url, r.http_status, r.request_id,
       r.served_model, r.system_fingerprint, r.body, p.response_index, p.run
FROM predictions AS p
JOIN sentences AS s ON s.dataset = p.dataset AND s.sentence = p.sentence
LEFT JOIN responses AS r ON r.response = p.response;
"""
