"""The statements of a merge: ``main`` is the destination, ``src`` the attached source.

These lead through them: the temporary tables ``shared`` (runs that both have: most merges have none, and then nothing
has to be compared), ``known`` (first answers of the source that the destination has, response and all: they are done
with) and ``moved`` (number of a response in the source -> in the destination), and the view ``candidates`` (all other
answers of the source, first and second ones).
"""

from __future__ import annotations

from typing import Final

from hatevolution.store.tables import (
    ANSWER,
    CONTENT,
    DATASETS,
    FAILURES,
    INTENTS,
    KEY,
    MODELS,
    RESPONSES,
    RUNS,
    SENTENCES,
    agree,
    names,
    same,
)

# Everything put into these texts is a constant of this program.
# ruff: noqa: S608

TABLES: Final = (
    "CREATE TEMP TABLE IF NOT EXISTS shared (run TEXT PRIMARY KEY) WITHOUT ROWID",
    "CREATE TEMP TABLE IF NOT EXISTS known (row INTEGER PRIMARY KEY, old INTEGER NOT NULL, new INTEGER NOT NULL)",
    "CREATE TEMP TABLE IF NOT EXISTS moved (old INTEGER PRIMARY KEY, new INTEGER NOT NULL)",
    "CREATE TEMP TABLE IF NOT EXISTS orphans (response INTEGER PRIMARY KEY)",
    "CREATE TEMP TABLE IF NOT EXISTS referenced (response INTEGER PRIMARY KEY)",
    "CREATE TEMP TABLE IF NOT EXISTS moved_samples (old INTEGER PRIMARY KEY, new INTEGER NOT NULL)",
)
EMPTY: Final = ("shared", "known", "moved", "orphans", "referenced", "moved_samples")

SHARE: Final = "INSERT INTO temp.shared SELECT run FROM src.runs WHERE run IN (SELECT run FROM main.runs)"

RUN_ROWS: Final = (
    f"INSERT INTO main.runs ({names(RUNS)}) SELECT {names(RUNS)} FROM src.runs "
    "WHERE run NOT IN (SELECT run FROM temp.shared) ORDER BY rowid"
)
RUN_ENDS: Final = (
    "UPDATE main.runs SET (ended_at, outcome, note) = (SELECT s.ended_at, s.outcome, s.note FROM src.runs AS s "
    "WHERE s.run = main.runs.run) WHERE ended_at IS NULL AND run IN "
    "(SELECT run FROM src.runs WHERE ended_at IS NOT NULL)"
)


def _registered(table: str, key: str, columns: tuple[str, ...]) -> str:
    """Return the insertion of what the destination has not got, at positions after its own."""
    rest = [f"s.{name}" for name in columns if name != "position"]
    plain = [name for name in columns if name != "position"]
    return (
        f"INSERT INTO main.{table} (position, {', '.join(plain)}) "
        f"SELECT (SELECT count(*) FROM main.{table}) + row_number() OVER (ORDER BY s.position) - 1, {', '.join(rest)} "
        f"FROM src.{table} AS s WHERE s.{key} NOT IN (SELECT {key} FROM main.{table}) ORDER BY s.position"
    )


MODEL_ROWS: Final = _registered("models", "model", MODELS)
DATASET_ROWS: Final = _registered("datasets", "dataset", DATASETS)
NEW_DATASETS: Final = (
    "SELECT dataset FROM src.datasets WHERE dataset NOT IN (SELECT dataset FROM main.datasets) ORDER BY position"
)
SENTENCE_ROWS: Final = (
    f"INSERT INTO main.sentences ({names(SENTENCES)}) SELECT {names(SENTENCES)} FROM src.sentences WHERE dataset = ?"
)

PREDICTIONS_ONLY: Final = (
    f"CREATE TEMP VIEW candidates AS SELECT {names(ANSWER)}, NULL AS source, NULL AS noticed_at FROM src.predictions "
    "WHERE rowid NOT IN (SELECT row FROM temp.known)"
)
WITH_SECOND: Final = f"{PREDICTIONS_ONLY} UNION ALL SELECT {names(ANSWER)}, source, noticed_at FROM src.second_answers"

_SAME_RESPONSE: Final = same(RESPONSES, "a", "b")
_SAME_PLACE: Final = f"{same((*CONTENT, 'run', 'response_index'), 'p', 'q')} AND q.response IS m.new"
_JOIN_KEY: Final = " AND ".join(f"q.{name} = p.{name}" for name in KEY)


def _known(source: str, destination: str) -> str:
    """Return the rest of a statement: answers of shared runs that the destination has, with the same response."""
    return (
        f"FROM {source} AS p "
        f"JOIN {destination} AS q ON {_JOIN_KEY} AND {same((*CONTENT, 'run', 'response_index'), 'p', 'q')} "
        "JOIN src.responses AS a ON a.response = p.response JOIN main.responses AS b ON b.response = q.response "
        f"WHERE p.run IN (SELECT run FROM temp.shared) AND {_SAME_RESPONSE}"
    )


KNOWN_ANSWERS: Final = (
    "INSERT INTO temp.known SELECT p.rowid, p.response, q.response "
    + _known("src.predictions", "main.predictions")
    + " ORDER BY p.rowid"
)
KNOWN_RESPONSES: Final = "INSERT OR IGNORE INTO temp.moved SELECT old, new FROM temp.known ORDER BY row"
# Only a fault makes two responses of which one could be the other; then the answers of the second have to be looked at.
DOUBTFUL_ANSWERS: Final = (
    "DELETE FROM temp.known AS k WHERE k.new <> (SELECT m.new FROM temp.moved AS m WHERE m.old = k.old)"
)


def known_responses(table: str) -> str:
    """Return the search for responses of shared runs that the destination has, through the other answers they gave."""
    return f"INSERT OR IGNORE INTO temp.moved SELECT p.response, q.response {_known('candidates', f'main.{table}')}"


SECOND_THERE: Final = "SELECT EXISTS (SELECT 1 FROM main.second_answers)"


# Responses that no answer points at (a second answer within one run, which only a fault could make) are known by
# themselves. Looked for only where the source has one of a shared run.
_REFERENCED: Final = "INSERT OR IGNORE INTO temp.referenced SELECT response FROM {} WHERE response IS NOT NULL"
SOURCE_REFERENCED: Final = _REFERENCED.format("candidates")
SOURCE_ORPHANS: Final = (
    "INSERT INTO temp.orphans SELECT response FROM src.responses WHERE run IN (SELECT run FROM temp.shared) "
    "AND response NOT IN (SELECT old FROM temp.moved) AND response NOT IN (SELECT response FROM temp.referenced)"
)
MAIN_REFERENCED: Final = tuple(_REFERENCED.format(f"main.{table}") for table in ("predictions", "second_answers"))
KNOWN_ORPHANS: Final = (
    "INSERT OR IGNORE INTO temp.moved SELECT a.response, min(b.response) FROM temp.orphans AS o "
    "JOIN src.responses AS a ON a.response = o.response "
    # Equality as well: SQLite makes an index for it, and for IS it makes none.
    f"JOIN main.responses AS b ON b.run = a.run AND b.received_at = a.received_at AND {_SAME_RESPONSE} "
    "WHERE b.response NOT IN (SELECT response FROM temp.referenced) GROUP BY a.response"
)

UNKNOWN_RESPONSES: Final = (
    "INSERT INTO temp.moved SELECT response, (SELECT coalesce(max(response), 0) FROM main.responses) "
    "+ row_number() OVER (ORDER BY response) FROM src.responses WHERE response NOT IN (SELECT old FROM temp.moved)"
)
RESPONSE_ROWS: Final = (
    f"INSERT INTO main.responses (response, {names(RESPONSES)}) SELECT m.new, {names(RESPONSES, 's')} "
    "FROM temp.moved AS m JOIN src.responses AS s ON s.response = m.old WHERE m.new > ? ORDER BY m.old"
)

_MOVED: Final = ", ".join("m.new" if name == "response" else f"p.{name}" for name in ANSWER)
_LEFT_MOVED: Final = "LEFT JOIN temp.moved AS m ON m.old = p.response"

# A key that has its answer keeps it: the schema's trigger ignores a second one.
PREDICTION_ROWS: Final = (
    f"INSERT INTO main.predictions ({names(ANSWER)}) SELECT {_MOVED} FROM src.predictions AS p {_LEFT_MOVED} "
    "WHERE p.rowid NOT IN (SELECT row FROM temp.known) ORDER BY p.rowid"
)

_OTHERS: Final = (
    f"FROM candidates AS p {_LEFT_MOVED} JOIN main.predictions AS q ON {_JOIN_KEY} WHERE NOT ({_SAME_PLACE})"
)
COUNT_OTHERS: Final = (
    f"SELECT count(*) FILTER (WHERE agrees), count(*) FILTER (WHERE NOT agrees) "
    f"FROM (SELECT {agree('p', 'q')} AS agrees {_OTHERS})"
)
STRANGERS: Final = (
    "SELECT model FROM src.models AS s JOIN main.models AS m USING (model) WHERE s.fingerprint <> m.fingerprint "
    "UNION ALL SELECT dataset FROM src.datasets AS s JOIN main.datasets AS m USING (dataset) "
    "WHERE (s.sentences, s.content_sha256) <> (m.sentences, m.content_sha256)"
)
SECOND_ROWS: Final = (
    f"INSERT INTO main.second_answers ({names(ANSWER)}, agrees, source, noticed_at) "
    f"SELECT {_MOVED}, {agree('p', 'q')}, coalesce(p.source, ?), coalesce(p.noticed_at, ?) {_OTHERS} "
    f"AND NOT EXISTS (SELECT 1 FROM main.second_answers AS q WHERE {_JOIN_KEY} AND {_SAME_PLACE})"
)
CONFLICT_ROWS: Final = (
    f"SELECT {names(KEY, 'p')}, q.status, q.raw_text, q.scores, p.status, p.raw_text, p.scores {_OTHERS} "
    f"AND NOT ({agree('p', 'q')}) LIMIT ?"
)

FAILURE_ROWS: Final = (
    f"INSERT INTO main.failures ({names(FAILURES)}) SELECT {names(FAILURES)} FROM src.failures "
    "WHERE run NOT IN (SELECT run FROM temp.shared) ORDER BY failure"
)
# Of shared runs each row comes along as often as the destination lacks it: two equal failures are two failures.
SHARED_FAILURE_ROWS: Final = (
    f"INSERT INTO main.failures ({names(FAILURES)}) SELECT {names(FAILURES, 's')} FROM ("
    f"SELECT *, row_number() OVER (PARTITION BY {names(FAILURES)} ORDER BY failure) AS nth FROM src.failures "
    "WHERE run IN (SELECT run FROM temp.shared)) AS s "
    f"WHERE s.nth > (SELECT count(*) FROM main.failures AS f WHERE {' AND '.join(f'f.{n} = s.{n}' for n in KEY)} "
    f"AND {same(FAILURES, 'f', 's')}) ORDER BY s.failure"
)

_SAME_INTENT: Final = same(INTENTS, "i", "s")
INTENT_ROWS: Final = (
    f"INSERT INTO main.intents ({names(INTENTS)}) SELECT {names(INTENTS, 's')} FROM src.intents AS s "
    "WHERE s.run NOT IN "
    "(SELECT run FROM main.runs WHERE ended_at IS NOT NULL AND run IN (SELECT run FROM temp.shared)) "
    f"AND NOT EXISTS (SELECT 1 FROM main.intents AS i WHERE {_SAME_INTENT}) ORDER BY s.intent"
)
# The copy of a run that has ended knows what was settled; an earlier copy of it does not.
SETTLED_INTENTS: Final = (
    "DELETE FROM main.intents AS i WHERE i.run IN "
    "(SELECT s.run FROM src.runs AS s JOIN main.runs AS m ON m.run = s.run "
    "WHERE s.ended_at IS NOT NULL AND m.ended_at IS NULL) "
    f"AND NOT EXISTS (SELECT 1 FROM src.intents AS s WHERE {_SAME_INTENT})"
)
OPEN_BATCHES: Final = "SELECT count(*) FROM src.batches WHERE closed_at IS NULL"
