"""The tables of a store. Changed only by a new migration (:mod:`hatevolution.store.migrations`), never by an edit.

Text that came from outside stands in columns of type ``ANY``: as TEXT where it is valid Unicode (NUL characters
included) and as a BLOB of UTF-8 with ``surrogatepass`` where it holds an unpaired surrogate, which SQLite's TEXT can't
hold (:mod:`hatevolution.store.text`).
"""

from __future__ import annotations

__all__ = ["INITIAL"]

INITIAL = """
CREATE TABLE runs (
    run TEXT PRIMARY KEY NOT NULL,            -- sortable: time and a random part
    started_at TEXT NOT NULL,                 -- ISO 8601, UTC
    ended_at TEXT,                            -- null: still running, or died
    outcome TEXT,                             -- complete | incomplete | interrupted | failed
    who TEXT NOT NULL,                        -- user@host, pid
    command TEXT NOT NULL,                    -- JSON list, as typed
    configuration TEXT NOT NULL,              -- JSON: experiment, models and data sets as resolved
    versions TEXT NOT NULL,                   -- JSON: hatevolution, python, packages
    git_revision TEXT,                        -- of the project, with "-dirty" where it was changed
    note TEXT
) STRICT;

CREATE TABLE datasets (
    dataset TEXT PRIMARY KEY NOT NULL,
    position INTEGER NOT NULL,                -- order of first appearance
    title TEXT NOT NULL,
    source TEXT,                              -- URL
    licence TEXT,
    files TEXT NOT NULL,                      -- JSON: [{"name", "sha256", "bytes"}] as read
    loader TEXT NOT NULL,                     -- JSON: its own configuration; same files, same loader: same rows
    sentences INTEGER NOT NULL,
    content_sha256 TEXT NOT NULL,             -- over (id, text) of all rows, in order
    run TEXT NOT NULL REFERENCES runs(run)    -- that brought it
) STRICT;

CREATE TABLE sentences (
    dataset TEXT NOT NULL REFERENCES datasets(dataset),
    position INTEGER NOT NULL,                -- 0, 1, ... in the source's order
    sentence TEXT NOT NULL,                   -- the set's own stable id
    text ANY NOT NULL,
    gold TEXT CHECK (gold IN ('toxic', 'respectful')),
    gold_raw ANY,
    year INTEGER,
    pair TEXT,
    role TEXT CHECK (role IN ('original', 'neologism')),
    type TEXT,
    functionality TEXT,
    target ANY,
    meta ANY,                                 -- JSON object or null
    PRIMARY KEY (dataset, position),
    UNIQUE (dataset, sentence)
) STRICT, WITHOUT ROWID;

CREATE TABLE models (
    model TEXT PRIMARY KEY NOT NULL,
    position INTEGER NOT NULL,                -- order of first appearance
    title TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    specification TEXT NOT NULL,              -- JSON: what the fingerprint covers
    configuration TEXT NOT NULL,              -- JSON: the whole of it, as of the last run (parser, labels, price)
    run TEXT NOT NULL REFERENCES runs(run)
) STRICT;

-- One row per response of an endpoint; a request that carried 32 sentences has one response and 32 predictions.
CREATE TABLE responses (
    response INTEGER PRIMARY KEY,
    run TEXT NOT NULL REFERENCES runs(run),
    received_at TEXT NOT NULL,                -- ISO 8601, UTC
    latency_s REAL NOT NULL,
    base_url TEXT NOT NULL,
    http_status INTEGER,
    request_id TEXT,
    served_model TEXT,
    system_fingerprint TEXT,
    prompt_tokens INTEGER,
    completion_tokens INTEGER,
    cost_usd REAL,                            -- null: free
    body ANY NOT NULL                         -- exactly as it came
) STRICT;

CREATE TABLE predictions (
    model TEXT NOT NULL REFERENCES models(model),
    dataset TEXT NOT NULL,
    sentence TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('answered', 'refused', 'rejected')),
    raw_text ANY,                             -- exactly what came; null where the endpoint gives scores only
    scores TEXT,                              -- JSON object: every score, in the endpoint's order
    finish_reason TEXT,
    prompt_sha256 TEXT,
    prompt_tokens INTEGER,
    completion_tokens INTEGER,
    truncated INTEGER NOT NULL DEFAULT 0 CHECK (truncated IN (0, 1)),
    attempts INTEGER NOT NULL,                -- requests sent for it, this one included
    run TEXT NOT NULL REFERENCES runs(run),
    response INTEGER REFERENCES responses(response),
    response_index INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (model, dataset, sentence),
    FOREIGN KEY (dataset, sentence) REFERENCES sentences(dataset, sentence)
) STRICT;

-- An answer is never overwritten and never lost: not by this program, and not by a slip in a SQL shell.
CREATE TRIGGER predictions_are_final BEFORE UPDATE ON predictions
BEGIN SELECT RAISE(ABORT, 'predictions are never changed'); END;
CREATE TRIGGER predictions_stay BEFORE DELETE ON predictions
BEGIN SELECT RAISE(ABORT, 'predictions are never deleted'); END;
-- REPLACE takes the old row away without firing the trigger above (unless recursive_triggers is on): keep the old one.
CREATE TRIGGER predictions_are_not_replaced BEFORE INSERT ON predictions
WHEN EXISTS (SELECT 1 FROM predictions AS p
             WHERE p.model = NEW.model AND p.dataset = NEW.dataset AND p.sentence = NEW.sentence)
BEGIN SELECT RAISE(IGNORE); END;
CREATE TRIGGER responses_are_final BEFORE UPDATE ON responses
BEGIN SELECT RAISE(ABORT, 'responses are never changed'); END;
CREATE TRIGGER responses_stay BEFORE DELETE ON responses
BEGIN SELECT RAISE(ABORT, 'responses are never deleted'); END;

CREATE TRIGGER responses_are_not_replaced BEFORE INSERT ON responses
WHEN EXISTS (SELECT 1 FROM responses AS r WHERE r.response = NEW.response)
BEGIN SELECT RAISE(ABORT, 'responses are never changed'); END;

CREATE TABLE failures (
    failure INTEGER PRIMARY KEY,
    model TEXT NOT NULL,
    dataset TEXT NOT NULL,
    sentence TEXT NOT NULL,
    run TEXT NOT NULL REFERENCES runs(run),
    failed_at TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    kind TEXT NOT NULL,                       -- hatevolution.errors.FailureKind
    http_status INTEGER,
    code TEXT,
    message ANY NOT NULL,
    body ANY,
    request_id TEXT,
    base_url TEXT,
    latency_s REAL,
    maybe_billed INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX failures_by_key ON failures (model, dataset, sentence);
CREATE TRIGGER failures_are_final BEFORE UPDATE ON failures
BEGIN SELECT RAISE(ABORT, 'failures are never changed'); END;
CREATE TRIGGER failures_stay BEFORE DELETE ON failures
BEGIN SELECT RAISE(ABORT, 'failures are never deleted'); END;
CREATE TRIGGER failures_are_not_replaced BEFORE INSERT ON failures
WHEN EXISTS (SELECT 1 FROM failures AS f WHERE f.failure = NEW.failure)
BEGIN SELECT RAISE(ABORT, 'failures are never changed'); END;

-- What is about to be sent, committed before it is; taken away with the answer or the failure. What is left after a
-- crash may have been answered and billed without being recorded.
CREATE TABLE intents (
    intent INTEGER PRIMARY KEY,
    run TEXT NOT NULL REFERENCES runs(run),
    model TEXT NOT NULL,
    dataset TEXT NOT NULL,
    sentences TEXT NOT NULL,                  -- JSON list of sentence ids
    at TEXT NOT NULL
) STRICT;

-- Everything about an answer in one row, for people and for Datasette.
CREATE VIEW answers AS
SELECT p.model, p.dataset, p.sentence, s.text, s.gold, s.year, s.pair, s.role, s.type, s.functionality, s.target,
       p.status, p.raw_text, p.scores, p.finish_reason, p.prompt_sha256, p.truncated, p.attempts,
       coalesce(p.prompt_tokens, r.prompt_tokens) AS prompt_tokens,
       coalesce(p.completion_tokens, r.completion_tokens) AS completion_tokens,
       r.received_at, r.latency_s, r.cost_usd, r.base_url, r.http_status, r.request_id, r.served_model,
       r.system_fingerprint, r.body, p.response_index, p.run
FROM predictions AS p
JOIN sentences AS s ON s.dataset = p.dataset AND s.sentence = p.sentence
LEFT JOIN responses AS r ON r.response = p.response;
"""
