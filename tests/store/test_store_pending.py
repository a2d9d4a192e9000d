"""What is pending: pages and counts against a computation by hand."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from run_maker import RUN, fill, model, sentences

from hatevolution.store.opened import WritableStore
from hatevolution.store.pending import pending_count, pending_page
from hatevolution.store.reader import connect

if TYPE_CHECKING:
    from pathlib import Path

SIZES = {"a": 37, "b": 1, "empty": 0}
KEYS = [(name, f"s{n}") for name, size in SIZES.items() for n in range(size)]


def made(path: Path) -> Path:
    if not path.exists():
        with WritableStore(path, RUN) as store:
            fill(store, [model("m"), model("n")], {name: sentences(size) for name, size in SIZES.items()})
    return path


def answer(connection: sqlite3.Connection, name: str, keys: set[tuple[str, str]]) -> None:
    connection.executemany(
        "INSERT INTO predictions (model, dataset, sentence, status, attempts, run) VALUES (?, ?, ?, ?, 1, ?)",
        [(name, *key, ("answered", "refused", "rejected")[n % 3], RUN) for n, key in enumerate(sorted(keys))],
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    mine=st.sets(st.sampled_from(KEYS)),
    theirs=st.sets(st.sampled_from(KEYS)),
    limit=st.one_of(st.none(), st.integers(1, 60)),
    size=st.integers(1, 50),
    name=st.sampled_from([*SIZES, "unknown"]),
)
def test_pages_and_counts_are_what_is_left(
    tmp_path: Path, mine: set[tuple[str, str]], theirs: set[tuple[str, str]], limit: int | None, size: int, name: str
) -> None:
    connection = sqlite3.connect(made(tmp_path / "s.db"), isolation_level=None)
    connection.execute("BEGIN")
    answer(connection, "m", mine)
    answer(connection, "n", theirs)

    expected = [(n, f"s{n}", f"sentence number {n}") for n in range(SIZES.get(name, 0)) if (name, f"s{n}") not in mine]
    if limit is not None:
        expected = [row for row in expected if row[0] < limit]
    found: list[tuple[int, str, str]] = []
    after, pages = -1, 0
    while page := pending_page(connection, "m", name, after, size, limit):
        assert len(page) <= size
        found += [tuple(row) for row in page]  # type: ignore[misc]
        after, pages = page[-1].position, pages + 1
    assert found == expected
    assert pages == -(-len(expected) // size)
    assert pending_count(connection, "m", name, limit) == len(expected)
    connection.execute("ROLLBACK")
    connection.close()


def test_a_failure_leaves_a_sentence_pending(tmp_path: Path) -> None:
    connection = sqlite3.connect(made(tmp_path / "s.db"))
    connection.execute(
        "INSERT INTO failures (model, dataset, sentence, run, failed_at, attempt, kind, message) "
        "VALUES ('m', 'b', 's0', ?, 'x', 1, 'timeout', 'late')",
        [RUN],
    )
    assert pending_count(connection, "m", "b", None) == 1
    connection.close()


def test_pages_are_read_from_the_index_and_sort_nothing(tmp_path: Path) -> None:
    """A million pending sentences start as fast as ten."""
    from hatevolution.store import pending

    connection = connect(made(tmp_path / "s.db"))
    values = {"dataset": "a", "after": 1, "limit": 9, "model": "m", "size": 5, "batched": False}
    steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {pending._PAGE}", values)]
    assert any("SEARCH s USING PRIMARY KEY (dataset=? AND position>?" in step for step in steps), steps
    assert any("SEARCH p USING COVERING INDEX" in step for step in steps), steps
    assert not any("TEMP B-TREE" in step or "SCAN" in step for step in steps), steps
    connection.close()
