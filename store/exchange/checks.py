"""What has to be true of a store, one function a check; each reads the whole of what it is about."""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
from contextlib import closing
from functools import lru_cache
from itertools import count, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hatevolution.configs.fingerprint import fingerprint
from hatevolution.configs.prompts import Prompt
from hatevolution.store.migrations import APPLICATION_ID, MIGRATIONS, applied
from hatevolution.store.sentences import content_bytes
from hatevolution.store.tables import has_table
from hatevolution.store.tally import Tally, recount
from hatevolution.store.tally import stored as stored_tallies
from hatevolution.store.text import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hatevolution.store.exchange.watch import Tell

__all__ = ["CHECKS", "Found"]

# Everything put into the statements below is a constant of this program.
# ruff: noqa: S608

_SHOWN: Final = 20
"""Problems that a check spells out; the rest it counts."""
_TELL_EVERY: Final = 50_000


class Found(NamedTuple):
    """What a check found."""

    checked: int
    """How many things it looked at."""
    problems: int
    shown: list[str]
    """The first twenty of them, one sentence each."""
    notes: list[str]
    """What is worth knowing and no damage."""


class _Problems:
    def __init__(self) -> None:
        self.number = 0
        self.shown: list[str] = []

    def add(self, text: str) -> None:
        self.number += 1
        if len(self.shown) < _SHOWN:
            self.shown.append(text)

    def found(self, checked: int, *notes: str) -> Found:
        return Found(checked, self.number, self.shown, list(notes))


def _integrity(connection: sqlite3.Connection, tell: Tell) -> Found:
    problems = _Problems()
    for (line,) in connection.execute(f"PRAGMA integrity_check({_SHOWN})"):
        if line != "ok":
            problems.add(str(line))
    return problems.found(int(connection.execute("PRAGMA page_count").fetchone()[0]))


def _foreign_keys(connection: sqlite3.Connection, tell: Tell) -> Found:
    problems = _Problems()
    for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        problems.add(f"row {row} of {table} points at a row of {parent} that is not there")
    return problems.found(1)


def _schema(connection: sqlite3.Connection, tell: Tell) -> Found:
    """Compare tables, triggers, views and indexes with those that the store's migrations make."""
    from sqlite_utils import Database

    with closing(sqlite3.connect(":memory:")) as fresh:
        database, done = Database(fresh), applied(connection)
        for name in done:
            MIGRATIONS[name](database)
        right, stored = _objects(fresh), _objects(connection)
    problems = _Problems()
    for key in sorted(right.keys() | stored.keys()):
        kind, name = key
        if key not in stored:
            problems.add(f"the {kind} {name} is missing")
        elif key not in right:
            problems.add(f"the {kind} {name} is not one of a store")
        elif right[key] != stored[key]:
            problems.add(f"the {kind} {name} is not as it should be")
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        problems.add("the file's application id is not that of a store")
    lacking = [name for name in MIGRATIONS if name not in done]
    notes = [f"written before {', '.join(lacking)}; the next run adds it"] if lacking else []
    return problems.found(len(right), *notes)


def _objects(connection: sqlite3.Connection) -> dict[tuple[str, str], str]:
    # Left out: SQLite's own objects, and sqlite-utils' record of the migrations.
    rows = connection.execute(
        "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite~_%' ESCAPE '~' "
        "AND tbl_name <> '_sqlite_migrations'"
    )
    return {(kind, name): text for kind, name, text in rows}


def _sentences(connection: sqlite3.Connection, tell: Tell) -> Found:
    problems, number = _Problems(), 0
    sets = connection.execute("SELECT dataset, sentences, content_sha256 FROM datasets ORDER BY position").fetchall()
    for dataset, expected, stored in sets:
        digest, here = hashlib.sha256(), 0
        rows = connection.execute(
            "SELECT position, sentence, text FROM sentences WHERE dataset = ? ORDER BY position", [dataset]
        )
        for position, sentence, text in _told(rows, f"sentences of {dataset}", tell):
            if position != here:
                problems.add(f"the data set {dataset} has no sentence at position {here}")
                here = position
            here += 1
            digest.update(content_bytes(sentence, decode(text)))
        number += here
        if here != expected:
            problems.add(f"the data set {dataset} has {here} sentences, not {expected}")
        if digest.hexdigest() != stored:
            problems.add(f"the texts of {dataset} are not those that were read: their checksum is another one")
    return problems.found(number)


def _fingerprints(connection: sqlite3.Connection, tell: Tell) -> Found:
    problems, number = _Problems(), 0
    for model, stored, specification in connection.execute("SELECT model, fingerprint, specification FROM models"):
        number += 1
        try:
            right = fingerprint(json.loads(specification))
        except (ValueError, TypeError):
            problems.add(f"the specification of {model} is not JSON")
            continue
        if right != stored:
            problems.add(f"the fingerprint of {model} is not that of its specification")
    return problems.found(number)


def _prompts(connection: sqlite3.Connection, tell: Tell) -> Found:
    """Recompute what was said for each answer from the model's specification and the sentence's text."""
    problems, number = _Problems(), 0
    said = {model: _said(text) for model, text in connection.execute("SELECT model, specification FROM models")}
    for table in ("predictions", "second_answers"):
        if not has_table(connection, "main", table):
            continue
        rows = connection.execute(
            f"SELECT p.rowid, p.model, p.prompt_sha256, s.text FROM {table} AS p "
            "JOIN sentences AS s ON s.dataset = p.dataset AND s.sentence = p.sentence WHERE p.prompt_sha256 IS NOT NULL"
        )
        for row, model, stored, text in _told(rows, f"prompts of {table}", tell):
            number += 1
            sha256 = said.get(model)
            if sha256 is not None and sha256(text) != stored:
                where = _where(connection, table, row)
                problems.add(f"{where}: the prompt's checksum is not that of prompt and text")
    return problems.found(number)


def _where(connection: sqlite3.Connection, table: str, row: int) -> str:
    """Return an answer's key as it stands in a sentence."""
    found = connection.execute(f"SELECT model, dataset, sentence FROM {table} WHERE rowid = ?", [row]).fetchone()
    return ", ".join(found)


def _said(specification: str) -> Callable[[str | bytes], str] | None:
    """Return stored text -> checksum of what is said, as adapters do it; None where the specification says nothing."""
    try:
        prompt = json.loads(specification)["prompt"]
        if prompt is None:
            return _checksum
        return _checksums(prompt["before"], prompt["after"], prompt["system"])
    except (ValueError, KeyError, TypeError):
        return None


def _checksum(text: str | bytes) -> str:
    return hashlib.sha256(decode(text).encode("utf-8", "surrogatepass")).hexdigest()


@lru_cache(maxsize=64)
def _checksums(before: str, after: str, system: str | None) -> Callable[[str | bytes], str]:
    """Return the checksums of a prompt: one function for all models that are asked with it.

    A run asks its models about the same sentences at about the same time, so most are in the cache.
    """
    prompt = Prompt("", 0, before, after, system)
    return lru_cache(maxsize=8_192)(lambda text: prompt.sha256(decode(text)))


_ANSWERS: Final = "SELECT response, response_index, '{0}', rowid FROM {0}"

# The usual envelopes: OpenAI's and vLLM's completions and chats, vLLM's /classify, OpenAI's moderation.
_ROOM: Final = """
SELECT CASE WHEN typeof(r.body) = 'text' AND json_valid(r.body) AND json_type(r.body) = 'object' THEN
    coalesce(json_array_length(r.body, '$.choices'), json_array_length(r.body, '$.data'),
             json_array_length(r.body, '$.results')) END
FROM responses AS r WHERE r.response = ?
"""


def _responses(connection: sqlite3.Connection, tell: Tell) -> Found:
    """Hold each answer's place against the body that it came in, and look for bodies that no answer points at."""
    problems, number, orphans = _Problems(), 0, 0
    tables = [table for table in ("predictions", "second_answers") if has_table(connection, "main", table)]
    every = " UNION ALL ".join(f"{_ANSWERS.format(table)} WHERE response IS NOT NULL" for table in tables)
    answers = connection.execute(f"{every} ORDER BY 1, 2")
    answer = next(answers, None)
    numbers = connection.execute("SELECT response FROM responses ORDER BY response")
    for (response,) in _told(numbers, "responses", tell):
        number += 1
        last = room = None
        while answer is not None and answer[0] < response:
            answer = next(answers, None)  # points at nothing: the foreign keys say so
        while answer is not None and answer[0] == response:
            _, index, table, row = answer
            if index and room is None:  # every body has a first place, so most need not be read
                room = connection.execute(_ROOM, [response]).fetchone()[0] or math.inf
            if index == last:
                where = _where(connection, table, row)
                problems.add(f"{where}: another answer is at its place {index} of response {response}")
            elif index < 0 or (room is not None and index >= room):
                where = _where(connection, table, row)
                problems.add(f"{where}: there is no place {index} in response {response}, which has {room}")
            last = index
            answer = next(answers, None)
        orphans += last is None
    notes = [f"{orphans} responses that no answer points at (second answers within a run)"] if orphans else []
    return problems.found(number, *notes)


def _answers(connection: sqlite3.Connection, tell: Tell) -> Found:
    """Count what is there, and find answers that say nothing at all."""
    problems = _Problems()
    (number,) = connection.execute("SELECT count(*) FROM predictions").fetchone()
    empty = connection.execute(
        "SELECT model, dataset, sentence FROM predictions WHERE status = 'answered' AND raw_text IS NULL "
        "AND scores IS NULL"
    )
    for key in empty:
        problems.add(f"{', '.join(key)}: answered, but neither text nor scores are there")
    for (key,) in connection.execute(
        "SELECT model || ', ' || dataset || ', ' || sentence FROM predictions WHERE scores IS NOT NULL "
        "AND NOT json_valid(scores)"
    ):
        problems.add(f"{key}: its scores are not JSON")
    notes = []
    if has_table(connection, "main", "second_answers"):
        agreeing, conflicting = connection.execute(
            "SELECT count(*) FILTER (WHERE agrees), count(*) FILTER (WHERE NOT agrees) FROM second_answers"
        ).fetchone()
        if agreeing or conflicting:
            notes.append(f"{agreeing} second answers agree with the first one, {conflicting} conflict (view conflicts)")
    if has_table(connection, "main", "batches"):
        (open_ones,) = connection.execute("SELECT count(*) FROM batches WHERE closed_at IS NULL").fetchone()
        if open_ones:
            notes.append(f"{open_ones} open batches, whose answers are still to come (hatevolution batch status)")
    (intents,) = connection.execute("SELECT count(*) FROM intents").fetchone()
    if intents:
        notes.append(f"{intents} requests whose outcome is not recorded (hatevolution status lists them)")
    return problems.found(int(number), *notes)


def _tallies(connection: sqlite3.Connection, tell: Tell) -> Found:
    """Count again what is counted already; a difference would show in ``hatevolution status``."""
    problems = _Problems()
    through, counted = stored_tallies(connection)
    (last,) = connection.execute("SELECT coalesce(max(rowid), 0) FROM predictions").fetchone()
    if through > last:
        problems.add(f"{through} answers are said to be counted, and there are {last}")
        return problems.found(0)
    again = recount(connection, 0, through)
    for model, dataset in sorted(again.keys() | counted.keys()):
        one, other = counted.get((model, dataset), Tally()), again.get((model, dataset), Tally())
        # Sums of the same costs in another order differ in their last digits.
        if one[:-1] != other[:-1] or not math.isclose(one.cost_usd, other.cost_usd, rel_tol=1e-6, abs_tol=1e-9):
            problems.add(f"{model}, {dataset}: the sums that are kept are not those of its answers")
    return problems.found(through)


def _told(rows: Iterator[Any], what: str, tell: Tell) -> Iterator[Any]:
    """Pass rows on and tell of them now and then."""
    for done in count(0, _TELL_EVERY):
        tell(what, done, None)
        block = list(islice(rows, _TELL_EVERY))
        if not block:
            return
        yield from block


CHECKS: Final[dict[str, tuple[str, Callable[[sqlite3.Connection, Tell], Found]]]] = {
    "integrity": ("pages of the file", _integrity),
    "foreign_keys": ("every row points at rows that are there", _foreign_keys),
    "schema": ("tables, triggers, views and indexes", _schema),
    "sentences": ("texts against the checksums of their sets", _sentences),
    "fingerprints": ("models against their specifications", _fingerprints),
    "prompts": ("answers against prompt and text", _prompts),
    "responses": ("answers at their places in the responses", _responses),
    "answers": ("answers that say something", _answers),
    "tallies": ("sums of answers and costs", _tallies),
}
"""Name -> (what is checked, the check)."""
