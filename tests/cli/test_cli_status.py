"""``hatevolution status``: what a store holds, for people and for programs."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from fake_base import Fault, in_thread
from fake_openai import CONTEXT, FILTERED, FakeOpenAI
from rich.console import Console
from run_files import Project, hatevolution, hatevolution_process
from run_maker import RUN, fill, model, sentences

from hatevolution.cli.status import cells_table
from hatevolution.store.opened import WritableStore
from hatevolution.store.status import Cell

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.dataset(count=30)
    return made


def status(project: Project, *more: str) -> dict[str, Any]:
    done = hatevolution("status", "--store", str(project.store), "--json", *more)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_cells_say_what_became_of_every_sentence(project: Project) -> None:
    with in_thread(FakeOpenAI(limits={})) as openai:
        openai.fail_when(lambda texts: "number 3." in texts[0], FILTERED)
        openai.fail_when(lambda texts: "number 4." in texts[0], CONTEXT)
        openai.fail_when(lambda texts: "number 5." in texts[0], Fault(status=500, body=""))
        project.openai(openai.base_url, max_attempts=1)
        assert project.command().returncode == 1
    found = status(project)
    assert found["store"] == str(project.store)
    assert found["cells"] == [
        {
            "model": "gpt",
            "dataset": "mine",
            "total": 30,
            "answered": 27,
            "refused": 1,
            "rejected": 1,
            "pending": 1,
            "failed_attempts": 3,  # the two that became rows were failed requests too
        }
    ]
    (spend,) = found["spend"]
    (cost,) = project.rows("SELECT sum(cost_usd) FROM responses")[0]
    assert spend["cost_usd"] == pytest.approx(cost)
    assert spend["cost_usd"] > 0
    assert found["possibly_unrecorded"] == []
    assert found["writer"] is None
    assert [run["outcome"] for run in found["runs"]] == ["incomplete"]


def test_it_agrees_with_the_store_after_a_run_of_several_lanes(project: Project) -> None:
    project.dataset("other", 7)
    project.model("a", adapter="scripted", options={"failures": ["rejected share 0.3"]})
    project.model("b", adapter="scripted", options={"failures": ["refused share 0.5"]})
    project.command("--models", "b")
    project.command("--limit", "5")
    cells = {(cell["model"], cell["dataset"]): cell for cell in status(project)["cells"]}
    assert list(cells) == [("b", "mine"), ("b", "other"), ("a", "mine"), ("a", "other")]
    for (name, dataset), cell in cells.items():
        rows = dict(
            project.rows(
                "SELECT status, count(*) FROM predictions WHERE model = ? AND dataset = ? GROUP BY 1", name, dataset
            )
        )
        assert {key: cell[key] for key in ("answered", "refused", "rejected")} == {
            key: rows.get(key, 0) for key in ("answered", "refused", "rejected")
        }
        assert cell["pending"] == cell["total"] - sum(rows.values())
    assert cells["a", "mine"]["pending"] == 25
    assert cells["b", "other"]["pending"] == 0


def test_people_get_a_table_and_one_line(project: Project) -> None:
    project.model("m", adapter="scripted")
    project.command("--limit", "12")
    done = hatevolution("status", "--store", str(project.store))
    assert done.returncode == 0
    assert re.search(r"m\s+mine\s+30\s+12\s+0\s+0\s+18\s+0", done.stdout)
    assert "12 of 30 sentences recorded, 18 pending; 0.0000 USD spent." in done.stdout


def intend(project: Project, name: str, ids: list[str]) -> None:
    with WritableStore(project.store, "dead") as store, store.transaction() as connection:
        connection.execute(
            "INSERT INTO intents (run, model, dataset, sentences, at) VALUES (?, ?, 'set', ?, 'then')",
            [RUN, name, json.dumps(ids)],
        )


@pytest.fixture
def died(project: Project) -> Project:
    """A store whose run died."""
    paid = model("paid \x1b[31m[bold]", price={"usd_per_request": 0.1})
    with WritableStore(project.store, RUN) as store:
        fill(store, [paid, model("free")], {"set": sentences(40)})
    intend(project, paid.name, [f"s{number}" for number in range(25)])
    intend(project, "free", ["s1", "s2", "s3"])
    return project


def test_possibly_billed_requests_are_listed(died: Project) -> None:
    found = status(died)["possibly_unrecorded"]
    assert len(found) == 28
    assert found[0] == {
        "run": RUN,
        "model": "paid \x1b[31m[bold]",
        "dataset": "set",
        "sentence": "s0",
        "at": "then",
        "priced": True,
        "answered": False,
    }
    done = hatevolution("status", "--store", str(died.store))
    assert "25 sentences may have been sent (and billed)" in done.stdout
    assert "... and 5 more" in done.stdout
    assert done.stdout.count("then") == 20
    assert "up to 3 sentences of models without a price" in done.stdout
    assert "The last run died" in done.stdout
    assert "\x1b" not in done.stdout
    assert "[bold]" in done.stdout
    every = hatevolution("status", "--store", str(died.store), "--unrecorded")
    assert every.stdout.count("then") == 25


def answer(project: Project, name: str, ids: list[str]) -> None:
    with WritableStore(project.store, "later") as store, store.transaction() as connection:
        connection.execute("INSERT OR IGNORE INTO runs SELECT 'later', started_at, ended_at, outcome, who, command, "
                           "configuration, versions, git_revision, note FROM runs")  # fmt: skip
        connection.executemany(
            "INSERT INTO predictions (model, dataset, sentence, status, raw_text, attempts, run) "
            "VALUES (?, 'set', ?, 'answered', 'toxic', 1, 'later')",
            [(name, sentence) for sentence in ids],
        )


def test_what_cost_nothing_is_left_out_once_all_of_it_is_answered_and_what_cost_money_stays(died: Project) -> None:
    answer(died, "free", ["s1", "s2"])
    assert "up to 3 sentences" in hatevolution("status", "--store", str(died.store)).stdout
    answer(died, "free", ["s3"])
    answer(died, "paid \x1b[31m[bold]", [f"s{number}" for number in range(25)])
    said = hatevolution("status", "--store", str(died.store)).stdout
    assert "without a price" not in said
    assert "25 sentences may have been sent (and billed)" in said
    found = status(died)["possibly_unrecorded"]
    assert len(found) == 28
    assert all(item["answered"] for item in found)


def test_a_store_that_is_not_there_or_is_none_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "none.db").write_text("no store\n" * 100)
    for path in (tmp_path / "missing.db", tmp_path / "none.db"):
        done = hatevolution("status", "--store", str(path), "--json")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.count("\n") == 1
        assert path.name in done.stderr


def test_the_store_has_to_be_named(tmp_path: Path) -> None:
    done = hatevolution("status")
    assert done.returncode == 2
    assert "--store" in done.stderr


def test_the_store_may_come_from_the_environment(project: Project) -> None:
    project.model("m", adapter="scripted")
    project.command()
    done = hatevolution_process("status", "--json", environ={"HATEVOLUTION_STORE": str(project.store)})
    assert done.returncode == 0
    assert json.loads(done.stdout)["cells"][0]["answered"] == 30


def test_looking_changes_nothing(project: Project) -> None:
    project.model("m", adapter="scripted")
    project.command()
    before = project.store.read_bytes()
    for _ in range(2):
        status(project)
    assert project.store.read_bytes() == before


LONG = "timelms-hate-multiclass-latest"


def printed(width: int, *names: str) -> list[str]:
    """The table on a terminal of that width, of two sets for each model."""
    console = Console(width=width, record=True, file=io.StringIO(), highlight=False)
    sets = ("singapore-online-attacks", "neobench")
    console.print(cells_table([Cell(name, data, 15600, 1, 2, 3, 4, 5) for name in names for data in sets], console))
    return [line.rstrip() for line in console.export_text().splitlines() if line.strip()]


@pytest.mark.parametrize("width", [79, 80, 100, 108, 109, 120, 300])
def test_no_name_is_folded_where_there_is_room_for_it(width: int) -> None:
    lines = printed(width, LONG, "gpt-4o")
    words = [word for line in lines for word in line.split()]
    assert LONG in words and "gpt-4o" in words
    assert words.count("singapore-online-attacks") == words.count("neobench") == 2
    rows = [line.split()[-7:] for line in lines if line.split()[-1] == "5"]
    assert rows == [[name, "15600", "1", "2", "3", "4", "5"] for name in ("singapore-online-attacks", "neobench") * 2]
    assert max(map(len, lines)) <= width


def test_a_name_that_no_terminal_has_room_for_is_shown_whole_all_the_same() -> None:
    name = "".join(f"{number:03}" for number in range(60))
    said = "".join(line.split(" ")[0] for line in printed(80, name))
    assert name in said


def test_nothing_is_folded_where_there_is_no_terminal(project: Project) -> None:
    name = "m" * 180
    project.model("m", adapter="scripted")
    path = project.folder / "m.model.toml"
    path.write_text(path.read_text().replace('name = "m"', f'name = "{name}"'))
    assert project.command().returncode == 0
    done = hatevolution("status", "--store", str(project.store))
    lines = done.stdout.splitlines()
    assert lines[0] == f"Store {project.store}"
    assert [line.split() for line in lines if name in line] == [[name, "mine", *["30", "30", "0", "0", "0", "0"]]]


def test_a_name_that_would_be_refused_today_can_still_be_read(tmp_path: Path) -> None:
    """A store from before names were held to a rule: read, scored and merged, with nothing hidden."""
    path = tmp_path / "s.db"
    with WritableStore(path, RUN) as store:
        fill(store, [model(" gpt\x1b[31m\u202e")], {"set": sentences(3)})
        store.connection.execute(
            "INSERT INTO predictions (model, dataset, sentence, status, raw_text, attempts, run) "
            "SELECT model, dataset, sentence, 'answered', 'toxic', 1, ? FROM models, sentences",
            [RUN],
        )
    merged = tmp_path / "merged.db"
    for words in (
        ("store", "merge", "--store", str(merged), str(path)),
        *((name, "--store", str(merged)) for name in ("status", "score")),
    ):
        done = hatevolution(*words)
        assert done.returncode == 0, done.stderr
        assert not {"\x1b", "\u202e"} & set(done.stdout + done.stderr)
    assert r"gpt\x1b[31m\u202e" in hatevolution("status", "--store", str(merged)).stdout
