"""The tables of answers to a key that has its answer already (migration ``m003_second_answers``)."""

from __future__ import annotations

__all__ = ["SECOND_ANSWERS"]

SECOND_ANSWERS = """
-- The first answer of a key stays in predictions, whatever a merge or an import brings. What it brings besides is kept
-- here, whole: an answer that was paid for is never lost, and never passes for another.
CREATE TABLE second_answers (
    second_answer INTEGER PRIMARY KEY,
    model TEXT NOT NULL,
    dataset TEXT NOT NULL,
    sentence TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('answered', 'refused', 'rejected')),
    raw_text ANY,
    scores TEXT,
    finish_reason TEXT,
    prompt_sha256 TEXT,
    prompt_tokens INTEGER,
    completion_tokens INTEGER,
    truncated INTEGER NOT NULL DEFAULT 0 CHECK (truncated IN (0, 1)),
    attempts INTEGER NOT NULL,
    run TEXT NOT NULL REFERENCES runs(run),
    response INTEGER REFERENCES responses(response),
    response_index INTEGER NOT NULL DEFAULT 0,
    agrees INTEGER NOT NULL CHECK (agrees IN (0, 1)),  -- 1: says the same as the first answer
    source TEXT NOT NULL,                     -- file that it came from
    noticed_at TEXT NOT NULL,                 -- ISO 8601, UTC
    FOREIGN KEY (model, dataset, sentence) REFERENCES predictions(model, dataset, sentence)
) STRICT;
CREATE INDEX second_answers_by_key ON second_answers (model, dataset, sentence);
CREATE TRIGGER second_answers_are_final BEFORE UPDATE ON second_answers
BEGIN SELECT RAISE(ABORT, 'answers are never changed'); END;
CREATE TRIGGER second_answers_stay BEFORE DELETE ON second_answers
BEGIN SELECT RAISE(ABORT, 'answers are never deleted'); END;
CREATE TRIGGER second_answers_are_not_replaced BEFORE INSERT ON second_answers
WHEN EXISTS (SELECT 1 FROM second_answers AS a WHERE a.second_answer = NEW.second_answer)
BEGIN SELECT RAISE(ABORT, 'answers are never changed'); END;

-- What people judged of an answer that lost its key to another one: it must not pass for a verdict on that one.
CREATE TABLE second_verdicts (
    second_verdict INTEGER PRIMARY KEY,
    model TEXT NOT NULL,
    dataset TEXT NOT NULL,
    sentence TEXT NOT NULL,
    run TEXT NOT NULL REFERENCES runs(run),   -- of the answer that was judged
    judgement TEXT NOT NULL CHECK (judgement IN ('toxic', 'respectful', 'invalid', 'undecided')),
    who TEXT NOT NULL,
    judged_at TEXT NOT NULL,
    source TEXT NOT NULL,
    FOREIGN KEY (model, dataset, sentence) REFERENCES predictions(model, dataset, sentence)
) STRICT;
CREATE INDEX second_verdicts_by_key ON second_verdicts (model, dataset, sentence, who);
CREATE TRIGGER second_verdicts_are_final BEFORE UPDATE ON second_verdicts
BEGIN SELECT RAISE(ABORT, 'verdicts are never changed'); END;
CREATE TRIGGER second_verdicts_stay BEFORE DELETE ON second_verdicts
BEGIN SELECT RAISE(ABORT, 'verdicts are never deleted'); END;

-- Both sides of each disagreement in one row, for people.
CREATE VIEW conflicts AS
SELECT a.model, a.dataset, a.sentence, p.status, p.raw_text, p.scores, p.run, p.response,
       a.status AS other_status, a.raw_text AS other_raw_text, a.scores AS other_scores, a.run AS other_run,
       a.response AS other_response, a.source AS other_source, a.noticed_at, a.second_answer
FROM second_answers AS a
JOIN predictions AS p ON p.model = a.model AND p.dataset = a.dataset AND p.sentence = a.sentence
WHERE NOT a.agrees;

-- Merged verdicts get new numbers, so the newest one is told by its time, and by its number only within one time.
DROP VIEW counting_verdicts;
CREATE VIEW counting_verdicts AS
SELECT v.model, v.dataset, v.sentence, v.who, v.judgement, v.judged_at, v.sample
FROM verdicts AS v
WHERE NOT EXISTS (
    SELECT 1 FROM verdicts AS n
    WHERE n.model = v.model AND n.dataset = v.dataset AND n.sentence = v.sentence AND n.who = v.who
      AND (n.judged_at, n.verdict) > (v.judged_at, v.verdict)
);
"""
