"""The tables of what was counted already (migration ``m005_tallies``)."""

from __future__ import annotations

__all__ = ["TALLIES"]

TALLIES = """
-- Answers are only ever added, so what was counted of them once stays true: the sums over all rows of predictions up to
-- the one that `tallied` names. A reader adds what came after it; a writer that forgets to count makes nothing wrong.
CREATE TABLE tallies (
    model TEXT NOT NULL,
    dataset TEXT NOT NULL,
    answered INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    rejected INTEGER NOT NULL,
    requests INTEGER NOT NULL,                -- responses, each counted with its first answer (response_index 0)
    prompt_tokens INTEGER NOT NULL,           -- of those responses, as the two below
    completion_tokens INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    PRIMARY KEY (model, dataset)
) STRICT, WITHOUT ROWID;
CREATE TABLE tallied (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    through INTEGER NOT NULL                  -- rowid of predictions; no row is ever deleted, so VACUUM keeps it
) STRICT;
INSERT INTO tallied VALUES (1, 0);
"""
