"""Opening stores: new, known, newer, foreign, damaged; what is left of a store that was never used."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest
from run_maker import RUN, fill, model, sentences

from hatevolution.errors import StoreError
from hatevolution.store import migrations
from hatevolution.store.lock import holder
from hatevolution.store.migrations import APPLICATION_ID, MIGRATIONS, applied, migrate
from hatevolution.store.opened import WritableStore
from hatevolution.store.reader import connect

if TYPE_CHECKING:
    from pathlib import Path

    from sqlite_utils import Database


def make(path: Path) -> None:
    with WritableStore(path, RUN) as store:
        fill(store, [model()], {"set": sentences(3)})


def test_a_new_store_has_every_migration_recorded_by_name(tmp_path: Path) -> None:
    make(tmp_path / "s.db")
    connection = sqlite3.connect(tmp_path / "s.db")
    names = connection.execute("SELECT migration_set, name FROM _sqlite_migrations ORDER BY rowid").fetchall()
    assert names == [("hatevolution", name) for name in MIGRATIONS]
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    connection.close()


def test_the_writer_syncs_every_commit_and_checks_foreign_keys(tmp_path: Path) -> None:
    with WritableStore(tmp_path / "s.db", RUN) as store:
        asked = {name: store.connection.execute(f"PRAGMA {name}").fetchone()[0] for name in (
            "journal_mode", "synchronous", "foreign_keys", "recursive_triggers")}  # fmt: skip
    assert asked == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "recursive_triggers": 1}


def test_opening_again_migrates_nothing(tmp_path: Path) -> None:
    make(tmp_path / "s.db")
    with WritableStore(tmp_path / "s.db", RUN) as store:
        assert migrate(store.connection, "s.db") == []


def test_an_older_store_is_brought_up_to_date_by_its_writer_and_named_by_a_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "s.db")

    def add_column(db: Database) -> None:
        db.execute("ALTER TABLE runs ADD COLUMN host TEXT")

    monkeypatch.setitem(MIGRATIONS, "m999_host", add_column)
    with pytest.raises(StoreError, match=r"written by an older version.*m999_host"):
        connect(tmp_path / "s.db")
    with WritableStore(tmp_path / "s.db", "another") as store:
        assert applied(store.connection)[-1] == "m999_host"
        assert store.connection.execute("SELECT host FROM runs").fetchall() == [(None,)]
    connect(tmp_path / "s.db").close()


def test_a_migration_that_fails_leaves_nothing_of_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "s.db")

    def broken(db: Database) -> None:
        db.execute("CREATE TABLE half_done (x)")
        db.execute("ALTER TABLE no_such_table ADD COLUMN x")

    monkeypatch.setitem(MIGRATIONS, "m999_broken", broken)
    with pytest.raises(StoreError, match="no_such_table"), WritableStore(tmp_path / "s.db", "another"):
        pass
    connection = sqlite3.connect(tmp_path / "s.db")
    assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'half_done'").fetchone() == (0,)
    assert "m999_broken" not in applied(connection)
    assert connection.execute("SELECT count(*) FROM sentences").fetchone() == (3,)
    connection.close()


def test_a_newer_store_is_refused_by_writer_and_reader(tmp_path: Path) -> None:
    make(tmp_path / "s.db")
    connection = sqlite3.connect(tmp_path / "s.db")
    connection.execute(
        "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('hatevolution', 'm777_future', 'x')"
    )
    connection.commit()
    connection.close()
    before = (tmp_path / "s.db").read_bytes()
    with pytest.raises(StoreError, match=r"newer version.*m777_future"), WritableStore(tmp_path / "s.db", RUN):
        pass
    with pytest.raises(StoreError, match="newer version"):
        connect(tmp_path / "s.db")
    assert (tmp_path / "s.db").read_bytes() == before


def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE photos (name)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="not a store of hatevolution"), WritableStore(path, RUN):
        pass
    with pytest.raises(StoreError, match="not a store of hatevolution"):
        connect(path)
    assert path.read_bytes() == before
    assert holder(path) is None


@pytest.mark.parametrize("content", [b"id,text\n1,hello\n" * 200, b"\0" * 4096, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"data\.csv"), WritableStore(path, RUN):
        pass
    with pytest.raises(StoreError, match=r"data\.csv"):
        connect(path)
    assert path.read_bytes() == content


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError, match="folder"), WritableStore(tmp_path / "folder", RUN):
        pass
    with pytest.raises(StoreError, match="There is no store at"):
        connect(tmp_path / "folder")


def test_a_store_in_a_missing_folder_names_the_folder(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="nowhere"), WritableStore(tmp_path / "nowhere" / "s.db", RUN):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_reader_says_how_a_store_is_made(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="hatevolution run"):
        connect(tmp_path / "s.db")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "s.db").touch()
    make(tmp_path / "s.db")
    connect(tmp_path / "s.db").close()


@pytest.mark.parametrize("name", ["a store.db", "50%.db", "what?.db", "a#b.db", "ünïcode 🙂.db", "a;b&c=d.db"])
def test_any_file_name_will_do(tmp_path: Path, name: str) -> None:
    make(tmp_path / name)
    connection = connect(tmp_path / name)
    assert connection.execute("SELECT count(*) FROM sentences").fetchone() == (3,)
    connection.close()
    assert (tmp_path / name).is_file()


def test_readers_can_write_nothing(tmp_path: Path) -> None:
    make(tmp_path / "s.db")
    connection = connect(tmp_path / "s.db")
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("INSERT INTO runs (run) VALUES ('x')")
    connection.close()


# -- a store that was never used -------------------------------------------------------------------------------------


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"s.db.lock"}


def test_a_new_store_without_a_run_is_taken_away(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), WritableStore(tmp_path / "s.db", RUN):
        raise RuntimeError
    assert left(tmp_path) == set()


def test_a_registration_that_fails_leaves_no_store(tmp_path: Path) -> None:
    twice = [*sentences(3), *sentences(1)]
    with pytest.raises(Exception, match="twice"), WritableStore(tmp_path / "s.db", RUN) as store:
        fill(store, [model()], {"set": twice})
    assert left(tmp_path) == set()


def test_a_store_with_a_run_stays_whatever_happens(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), WritableStore(tmp_path / "s.db", RUN) as store:
        fill(store, [model()], {"set": sentences(3)})
        raise RuntimeError
    assert "s.db" in left(tmp_path)


def test_a_store_that_was_there_before_stays(tmp_path: Path) -> None:
    make(tmp_path / "s.db")
    with pytest.raises(RuntimeError), WritableStore(tmp_path / "s.db", RUN):
        raise RuntimeError
    connect(tmp_path / "s.db").close()


def test_migrations_are_named_in_order() -> None:
    assert list(migrations.MIGRATIONS) == sorted(migrations.MIGRATIONS)
    assert all(name.startswith("m") and name[1:4].isdigit() for name in migrations.MIGRATIONS)
