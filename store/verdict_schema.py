"""The tables of what people judged, beside the answers and never instead of them (migration ``m002_verdicts``)."""

from __future__ import annotations

__all__ = ["VERDICTS"]

VERDICTS = """
-- A seeded sample of answers, drawn once: a store that grows does not change it.
CREATE TABLE samples (
    sample INTEGER PRIMARY KEY,
    seed INTEGER NOT NULL,
    size INTEGER NOT NULL,                    -- as asked for; fewer rows where there were fewer answers
    filters TEXT NOT NULL,                    -- JSON object: what the answers were selected by
    of INTEGER NOT NULL,                      -- answers that it was drawn from
    made_at TEXT NOT NULL,                    -- ISO 8601, UTC
    who TEXT NOT NULL,
    UNIQUE (seed, size, filters)
) STRICT;

CREATE TABLE sampled (
    sample INTEGER NOT NULL REFERENCES samples(sample),
    position INTEGER NOT NULL,                -- 0, 1, ... in the order in which it is shown
    model TEXT NOT NULL,
    dataset TEXT NOT NULL,
    sentence TEXT NOT NULL,
    PRIMARY KEY (sample, position),
    UNIQUE (sample, model, dataset, sentence),
    FOREIGN KEY (model, dataset, sentence) REFERENCES predictions(model, dataset, sentence)
) STRICT, WITHOUT ROWID;

-- Append-only: a person who thinks again adds a row, and the newest one counts.
CREATE TABLE verdicts (
    verdict INTEGER PRIMARY KEY,
    sample INTEGER NOT NULL REFERENCES samples(sample),
    model TEXT NOT NULL,
    dataset TEXT NOT NULL,
    sentence TEXT NOT NULL,
    judgement TEXT NOT NULL CHECK (judgement IN ('toxic', 'respectful', 'invalid', 'undecided')),
    who TEXT NOT NULL,
    judged_at TEXT NOT NULL,                  -- ISO 8601, UTC
    FOREIGN KEY (model, dataset, sentence) REFERENCES predictions(model, dataset, sentence)
) STRICT;
CREATE INDEX verdicts_by_key ON verdicts (model, dataset, sentence, who);
CREATE TRIGGER samples_are_final BEFORE UPDATE ON samples
BEGIN SELECT RAISE(ABORT, 'samples are never changed'); END;
CREATE TRIGGER samples_stay BEFORE DELETE ON samples
BEGIN SELECT RAISE(ABORT, 'samples are never deleted'); END;
CREATE TRIGGER sampled_is_final BEFORE UPDATE ON sampled
BEGIN SELECT RAISE(ABORT, 'samples are never changed'); END;
CREATE TRIGGER sampled_stays BEFORE DELETE ON sampled
BEGIN SELECT RAISE(ABORT, 'samples are never deleted'); END;
CREATE TRIGGER verdicts_are_final BEFORE UPDATE ON verdicts
BEGIN SELECT RAISE(ABORT, 'verdicts are never changed'); END;
CREATE TRIGGER verdicts_stay BEFORE DELETE ON verdicts
BEGIN SELECT RAISE(ABORT, 'verdicts are never deleted'); END;

CREATE VIEW counting_verdicts AS
SELECT v.model, v.dataset, v.sentence, v.who, v.judgement, v.judged_at, v.sample
FROM verdicts AS v
WHERE NOT EXISTS (
    SELECT 1 FROM verdicts AS n
    WHERE n.model = v.model AND n.dataset = v.dataset AND n.sentence = v.sentence AND n.who = v.who
      AND (n.judged_at, n.verdict) > (v.judged_at, v.verdict)
);
"""
