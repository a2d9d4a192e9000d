"""Opening stores: new, known, newer, foreign, damaged; what is left of a store that was never used."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from run_maker import RUN, fill, model, sentences

from hatevolution.errors import StoreError
from hatevolution.store import migrations
from hatevolution.store.files import own_files
from hatevolution.store.lock import holder
from hatevolution.store.migrations import APPLICATION_ID, MIGRATIONS, applied, migrate
from hatevolution.store.opened import WritableStore
from hatevolution.store.reader import connect, holds_anything
from hatevolution.store.writer import Ballast

if TYPE_CHECKING:
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


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("INSERT INTO _sqlite_migrations VALUES (999, 'hatevolution', 'm777_future', 'x')", "it has had m777_future"),
        ("PRAGMA user_version = 3", "its user_version is 3"),
        ("DROP TABLE _sqlite_migrations; PRAGMA user_version = 3", "its user_version is 3"),
    ],
)
@pytest.mark.parametrize("in_the_log", [False, True], ids=["in the file", "in the log of a writer that died"])
def test_a_newer_store_is_refused_by_writer_and_reader_and_left_alone(
    tmp_path: Path, change: str, named: str, in_the_log: bool
) -> None:
    make(tmp_path / "s.db")
    (tmp_path / "s.db.lock").unlink()
    if in_the_log:
        append = "c.executescript(sys.argv[2]); os._exit(0)"
        script = f"import os, sqlite3, sys\nc = sqlite3.connect(sys.argv[1])\n{append}"
        subprocess.run([sys.executable, "-c", script, str(tmp_path / "s.db"), change], check=True)
    else:
        with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
            connection.executescript(change)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if not path.name.endswith("-shm")}
    sentence = rf"s\.db was written by a newer version of hatevolution \({named}\); update this installation"
    with pytest.raises(StoreError, match=sentence), WritableStore(tmp_path / "s.db", RUN):
        pass
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if not path.name.endswith("-shm")} == before
    with pytest.raises(StoreError, match=sentence):
        connect(tmp_path / "s.db")
    assert (tmp_path / "s.db").read_bytes() == before["s.db"]


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


def put(path: Path, kind: str) -> Path:
    """Put something that is no file at a path, and return the path that leads to it."""
    if kind == "a folder":
        path.mkdir()
    elif kind == "a named pipe":
        os.mkfifo(path)
    elif kind == "a socket":
        with socket.socket(socket.AF_UNIX) as there:
            there.bind(os.path.relpath(path))  # a socket's path may have a hundred characters only
    else:
        path.symlink_to("/dev/null")
    return path


@pytest.mark.parametrize("kind", ["a folder", "a named pipe", "a socket", "a device"])
def test_what_is_no_file_is_no_store_and_gets_no_lock(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = put(tmp_path / "there", kind)
    before = [*tmp_path.iterdir(), Path("/dev/null.lock").exists()]
    with pytest.raises(StoreError, match=f"there is {kind}, which can't hold a store"), WritableStore(path, RUN):
        pass
    for look in (connect, holds_anything):
        with pytest.raises(StoreError, match=f"there is {kind}, which can't hold a store"):
            look(path)
    assert [*tmp_path.iterdir(), Path("/dev/null.lock").exists()] == before


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="can't be read"), WritableStore(tmp_path / ("x" * 300), RUN):
        pass


def test_a_store_s_own_files_are_those_that_it_makes(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to("s.db")
    with WritableStore(tmp_path / "s.db", RUN) as store:
        fill(store, [model()], {"set": sentences(3)})
        ballast = Ballast(tmp_path / "s.db", 4096)
        assert ballast.take()
        assert {*tmp_path.iterdir()} - {tmp_path / "link.db"} == own_files(tmp_path / "s.db")
        ballast.drop()
    assert own_files(tmp_path / "link.db") == own_files(tmp_path / "s.db")


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
