"""``hatevolution audit --serve``: started for real, its pages fetched over loopback."""

from __future__ import annotations

import html
import json
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

import pytest
from audit_maker import HOSTILE, hostile_store, old_store
from store_maker import MadeSentence, Maker

from hatevolution.analysis.audit.broken import write_broken
from hatevolution.analysis.audit.browse import BROKEN_QUERIES, STORE_QUERIES, metadata
from hatevolution.store.verdicts import Key, add_sample, append_verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("datasette")


class Server(NamedTuple):
    store: Path
    url: str
    process: subprocess.Popen[str]
    log: Path

    def get(self, path: str, **headers: str) -> tuple[int, str, dict[str, str]]:
        request = urllib.request.Request(self.url + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, response.read().decode(), dict(response.headers)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode(), dict(error.headers)

    def rows(self, path: str, **parameters: object) -> list[dict[str, Any]]:
        status, text, _ = self.get(f"{path}.json?{urlencode({**parameters, '_shape': 'array'})}")
        assert status == 200, text
        found: list[dict[str, Any]] = json.loads(text)
        return found


def started(store: Path, log: Path, *more: str) -> Server:
    with log.open("w") as errors:
        process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "hatevolution",
                "audit",
                "--store",
                str(store),
                "--serve",
                "--port",
                "0",
                *more,
            ],
            stdout=subprocess.DEVNULL,
            stderr=errors,
            text=True,
        )
    while process.poll() is None:
        match = re.search(r"Open (http://\S+)/ in a browser", log.read_text())
        if match:
            return Server(store, match[1], process, log)
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError(log.read_text())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    # Characters that have a meaning in a URI: the file must be this one, opened for reading.
    folder = tmp_path_factory.mktemp("browse")
    store = hostile_store(folder / "a?mode=rwc#%41.db").path
    with sqlite3.connect(store) as connection:
        connection.execute(
            "INSERT INTO failures (model, dataset, sentence, run, failed_at, attempt, kind, message) "
            "SELECT 'hostile', 'odd', 'ansi', run, '2026', 1, 'transient', '<b>\x1b[31m</b>' FROM runs"
        )
    connection.close()
    sample = add_sample(
        store, seed=1, size=1, filters={}, of=1, who="Ann", keys=[Key("hostile", "odd", "script")]
    ).sample
    append_verdict(store, sample, Key("hostile", "odd", "script"), "invalid", "Ann")
    running = started(store, folder / "log")
    yield running
    running.process.send_signal(signal.SIGINT)
    assert running.process.wait(30) == 0


class _Outline(HTMLParser):
    """The tags of a page and their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def assert_inert(page: str) -> None:
    """Nothing of the hostile texts became markup, a handler, a link or a hidden character."""
    for tag, attributes in _Outline(page).tags:
        assert tag != "img"
        assert not [name for name in attributes if name.startswith("on") and "owned" in (attributes[name] or "")]
        for name in ("href", "src", "action"):
            assert not (attributes.get(name) or "").strip().lower().startswith("javascript:")
    assert "<script>document" not in page
    assert not [char for char in page if not char.isprintable() and char not in "\n\t\r\u200b"]


TABLES = (
    "answers",
    "predictions",
    "sentences",
    "failures",
    "models",
    "datasets",
    "runs",
    "verdicts",
    "counting_verdicts",
)


@pytest.mark.parametrize("path", ["/", "/store", "/broken", "/broken/answers", *(f"/store/{name}" for name in TABLES)])
def test_every_page_answers_and_is_inert(server: Server, path: str) -> None:
    status, page, headers = server.get(path)
    assert status == 200
    assert_inert(page)
    assert "default-src 'self'" in headers["content-security-policy"]
    # Nothing is fetched from elsewhere.
    sources = [a.get("src") or a.get("href") for tag, a in _Outline(page).tags if tag in ("script", "link", "img")]
    assert not [
        source for source in sources if source and source.startswith("http") and not source.startswith(server.url)
    ]


PARAMETERS = {"one_sentence": {"dataset": "odd", "sentence": "script"}, "search": {"text": "OWNED"}}


@pytest.mark.parametrize(
    ("database", "name"),
    [*(("store", name) for name in [*STORE_QUERIES, "judged"]), *(("broken", name) for name in BROKEN_QUERIES)],
)
def test_every_ready_query_answers_and_is_inert(server: Server, database: str, name: str) -> None:
    parameters = PARAMETERS.get(name, {"model": ""})
    status, page, _ = server.get(f"/{database}/{name}?{urlencode(parameters)}")
    assert status == 200
    assert_inert(page)
    rows = server.rows(f"/{database}/{name}", **parameters)
    assert rows or name in ("pairs", "spent", "kinds_per_year", "neologisms")


def test_ready_queries_say_the_truth(server: Server) -> None:
    count = len(HOSTILE)
    coverage = {row["model"]: row for row in server.rows("/store/coverage")}
    assert (coverage["hostile"]["answered"], coverage["hostile"]["pending"]) == (count, 0)
    assert server.rows("/store/commonest_answers", model="tame") == [
        {"model": "tame", "raw_text": "toxic", "answers": count}
    ]
    found = server.rows("/store/search", text="OWNED")
    assert {row["sentence"] for row in found} == {name for name, text in HOSTILE.items() if "owned" in text}
    assert sum(row["answers"] for row in server.rows("/broken/kinds_per_model")) == count
    assert server.rows("/store/judged")[0]["judgement"] == "invalid"
    assert server.rows("/store/one_sentence", dataset="odd", sentence="nul")[0]["raw_text"] == HOSTILE["nul"]


@pytest.mark.parametrize("name", [name for name in HOSTILE if name not in ("empty", "blank", "huge")])
def test_each_hostile_answer_is_seen_whole_and_inert(server: Server, name: str) -> None:
    status, page, _ = server.get(f"/store/one_sentence?dataset=odd&sentence={quote(name)}&_hide_sql=1")
    assert status == 200
    assert_inert(page)
    kept = "\n\r\t"
    shown = "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode()
        for char in HOSTILE[name]
    )
    text = html.unescape(page)
    assert "".join(shown.split()) in "".join(text.split()), kept


def test_a_megabyte_is_whole_as_json_and_cut_on_a_page(server: Server) -> None:
    assert server.rows("/store/one_sentence", dataset="odd", sentence="huge")[0]["raw_text"] == HOSTILE["huge"]
    assert len(server.get("/store/answers")[1]) < 1_000_000


def test_facets_and_descriptions_are_there(server: Server) -> None:
    status, text, _ = server.get("/broken/answers.json?_size=0")
    document = json.loads(text)
    assert status == 200
    assert set(document["facet_results"]) == {"model", "dataset", "kind", "outcome", "gold"}
    assert {item["value"] for item in document["facet_results"]["model"]["results"]} == {"hostile"}
    page = server.get("/store/predictions")[1]
    assert "Exactly what came" in page
    assert "facet-results" in page


def test_nothing_can_be_written(server: Server) -> None:
    before = {path.name: path.read_bytes() for path in server.store.parent.glob("*.db")}
    request = urllib.request.Request(f"{server.url}/store/coverage", data=b"x=1", method="POST")
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(request, timeout=30)
    assert error.value.code == 405
    error.value.close()
    for sql in ("DELETE FROM verdicts", "SELECT 1; DELETE FROM verdicts", "WITH x AS (SELECT 1) DELETE FROM verdicts"):
        status, _, _ = server.get(f"/store?{urlencode({'sql': sql})}")
        assert status == 400
    assert {path.name: path.read_bytes() for path in server.store.parent.glob("*.db")} == before
    assert [path.name for path in server.store.parent.glob("*.db")] == [server.store.name]


def test_a_wrong_query_does_not_fill_the_terminal(server: Server) -> None:
    assert server.get("/store?sql=SELECT+nothing")[0] == 400
    assert "Traceback" not in server.log.read_text()


def test_no_csv_that_a_spreadsheet_would_run(server: Server) -> None:
    for path in ("/store/answers.csv", "/store.csv?sql=select+1", "/store/answers?_format=csv"):
        status, text, _ = server.get(path)
        assert status == 403
        assert "hatevolution audit --export" in text


def test_only_its_own_name_is_answered(server: Server) -> None:
    port = server.url.rpartition(":")[2]
    assert server.get("/", Host=f"localhost:{port}")[0] == 200
    assert server.get("/", Host="evil.example")[0] == 421
    assert server.get("/", Host=f"evil.example:{port}")[0] == 421


def test_it_listens_on_loopback_with_no_plugin_but_ours(server: Server) -> None:
    assert server.url.startswith("http://127.0.0.1:")
    plugins = json.loads(server.get("/-/plugins.json")[1])
    assert [plugin["name"] for plugin in plugins] == ["hatevolution"]
    assert json.loads(server.get("/-/databases.json")[1])[0]["is_mutable"] is True


def test_a_run_that_writes_is_seen(server: Server) -> None:
    with sqlite3.connect(server.store) as connection:
        connection.execute("INSERT INTO models VALUES ('late', 9, 'late', 'f', '{}', '{}', (SELECT run FROM runs))")
    connection.close()
    assert "late" in {row["model"] for row in server.rows("/store/models")}


def test_sigterm_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    running = started(old_store(tmp_path / "s.db", monkeypatch), tmp_path / "log")  # no tables of verdicts there
    assert running.get("/store")[0] == 200
    assert list(temporary.iterdir())
    running.process.terminate()
    assert running.process.wait(30) == 0
    assert list(temporary.iterdir()) == []


def test_a_port_that_is_taken_is_one_sentence(tmp_path: Path) -> None:
    from hatevolution.cli._audit_browse import serve
    from hatevolution.errors import ConfigError

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ConfigError, match=r"can't be listened on: .*choose another --host or --port"):
            serve(tmp_path / "s.db", parser=None, host="127.0.0.1", port=taken.getsockname()[1])


def test_without_datasette_it_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hatevolution.cli import _audit_browse
    from hatevolution.errors import ConfigError

    monkeypatch.setattr(_audit_browse, "find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match=r"pip install 'hatevolution\[browse\]'"):
        _audit_browse.serve(tmp_path / "s.db", parser=None, host="127.0.0.1", port=0)


def test_every_column_that_is_described_exists(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "s.db")
    maker.dataset("set", [MadeSentence(id="a")])
    made = maker.done()
    write_broken(made.path, "paper", tmp_path / "broken.db")
    for database, path in (("store", made.path), ("broken", tmp_path / "broken.db")):
        connection = sqlite3.connect(path)
        objects = {
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        }
        described = metadata("t", "paper", objects)["databases"][database]
        for name in set(described["tables"]) & objects:
            columns = {row[1] for row in connection.execute(f"PRAGMA table_info({name})")}
            assert set(described["tables"][name]["columns"]) <= columns
            assert set(described["tables"][name].get("facets", ())) <= columns
        for query in described["queries"].values():
            named = dict.fromkeys(re.findall(r":([a-z]+)", query["sql"]), "")
            connection.execute(query["sql"], named).fetchall()
        connection.close()
