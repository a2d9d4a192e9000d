"""``hatevolution batch``: its options, what it prints where, its exit codes; the files of ``vllm run-batch``."""

from __future__ import annotations

import json
import shlex
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from batch_desk import Desk
from fake_openai_batch import FakeOpenAIBatch
from run_files import KEY, hatevolution

from hatevolution.adapters.batch.files import Limits
from hatevolution.errors import DataError
from hatevolution.store.lock import WriterLock

if TYPE_CHECKING:
    from pathlib import Path


def batch(desk: Desk, what: str, *more: str, **options: Any) -> subprocess.CompletedProcess[str]:
    first = [str(desk.experiment)] if what == "submit" else []
    return hatevolution("batch", what, *first, "--store", str(desk.store), *more, **options)


# -- a provider ------------------------------------------------------------------------------------------------------


def test_the_way_of_a_batch_for_people(desk: Desk, server: FakeOpenAIBatch) -> None:
    server.hold = "in_progress"
    done = batch(desk, "submit", "--requests", "8")
    assert (done.returncode, done.stdout) == (0, "")
    lines = done.stderr.splitlines()
    assert lines[-3].startswith("12 requests in 2 batches; they may cost 0.0")
    assert lines[-2] == "12 sentences are in open batches."
    assert lines[-1] == f"hatevolution batch collect --store {desk.store} --wait"
    server.swift = True
    done = batch(desk, "status")
    assert done.returncode == 0
    first, second = desk.batches()
    assert done.stdout.splitlines()[0].startswith(f"{first.name}  gpt  mine 8  ")
    assert f"{first.provider_id}, " in done.stdout
    assert "expires in 1 d" in done.stdout or "expires in 23 h" in done.stdout
    assert done.stdout.splitlines()[-1] == f"{desk.store}: 2 batches open with 12 requests."
    run = desk.command()
    assert run.returncode == 1
    assert "12 sentences are in an open batch and were left to it" in run.stderr
    server.hold = None
    done = batch(desk, "collect", "--wait", "--every", "0.1")
    assert done.returncode == 0, done.stderr
    assert f"{second.name} of gpt (collected): 4 answered, 0.00" in done.stderr
    done = batch(desk, "collect")
    assert (done.returncode, done.stderr) == (0, "No batch is open.\n")
    assert batch(desk, "status").stdout == (
        f"{desk.store}: 0 batches open with 0 requests, 2 that are over (--all lists them).\n"
    )
    assert "Nothing was left to do" in batch(desk, "submit").stderr
    assert desk.command().returncode == 0


def test_json_is_one_document(desk: Desk, server: FakeOpenAIBatch) -> None:
    server.change = lambda lines: lines[:10]
    document = json.loads(batch(desk, "submit", "--json").stdout)
    (row,) = document["batches"]
    assert (document["in_batches"], document["pending"], document["exit_code"], document["problems"]) == (12, 0, 0, [])
    assert document["commands"] == [f"hatevolution batch collect --store {desk.store} --wait"]
    document = json.loads(batch(desk, "status", "--json").stdout)
    assert [(b["batch"], b["state"], b["datasets"]) for b in document["batches"]] == [
        (row["batch"], "completed", {"mine": 12})
    ]
    done = batch(desk, "collect", "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["exit_code"], document["pending"], document["open"]) == (1, 1, 2, [])
    (item,) = document["collected"]
    assert (item["answered"], item["refused"], item["missing"], item["outcome"]) == (10, 0, 2, "collected")
    assert item["cost_usd"] == pytest.approx(desk.rows("SELECT sum(cost_usd) FROM responses")[0][0])
    document = json.loads(batch(desk, "status", "--json", "--all").stdout)
    assert [b["outcome"] for b in document["batches"]] == ["collected"]
    assert json.loads(batch(desk, "status", "--json").stdout)["batches"] == []


def test_waiting_looks_again_until_everything_is_done(desk: Desk, server: FakeOpenAIBatch) -> None:
    server.swift = False
    desk.submit(limits=Limits(6, 10**6))
    done = batch(desk, "collect", "--wait", "--every", "0.1")
    assert done.returncode == 0
    assert "2 batches open: " in done.stderr
    assert "in_progress" in done.stderr
    assert server.calls.count("GET /batches/id") == 6
    assert desk.statuses() == {"answered": 12}


def test_waiting_waits_for_another_writer_too(desk: Desk) -> None:
    desk.submit()
    lock = WriterLock(desk.store)
    lock.acquire("a run")
    refused = batch(desk, "collect")
    assert refused.returncode == 2
    assert "being written to by another run" in refused.stderr
    seen = json.loads(batch(desk, "status", "--json").stdout)
    assert (seen["asked"], len(seen["batches"])) == (False, 1)

    def later() -> None:
        time.sleep(0.4)
        lock.release()

    threading.Thread(target=later).start()
    done = batch(desk, "collect", "--wait", "--every", "0.1")
    assert done.returncode == 0
    assert done.stderr.startswith("another process writes to the store; waiting for it\n")


def test_waiting_ends_where_nothing_will_come(desk: Desk, server: FakeOpenAIBatch) -> None:
    desk.submit()
    server.api_key = "another"
    done = batch(desk, "collect", "--wait", "--every", "0.1")
    assert done.returncode == 1
    assert "The provider refuses the key" in done.stderr
    assert KEY not in done.stderr


def test_a_cancelled_batch(desk: Desk, server: FakeOpenAIBatch) -> None:
    desk.submit()
    (row,) = desk.batches()
    done = batch(desk, "cancel", row.provider_id or "")
    assert done.stderr == f"{row.name}: cancelling; `hatevolution batch collect` brings home what was done by then.\n"
    server.done_before_the_end = 0
    assert batch(desk, "collect").returncode == 1
    assert batch(desk, "cancel", row.name).returncode == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["collect", "--store", "{}/none.db"], "There is no store at"),
        (["status", "--store", "{}/none.db"], "There is no store at"),
        (["cancel", "x", "--store", "{}/none.db"], "There is no store at"),
        (["submit", "quickstart", "--store", "{}/q.db"], "has no model that can go into a batch"),
        (["submit", "smollm", "--offline"], "--offline and --out DIR go together"),
        (["submit", "smollm", "--out", "{}"], "--offline and --out DIR go together"),
        (
            ["submit", "smollm", "--models", "smollm2-135m", "--store", "{}/q.db"],
            "--offline --out DIR writes its files",
        ),
    ],
)
def test_wrong_usage_is_one_sentence_and_leaves_nothing(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = hatevolution("batch", *(part.replace("{}", str(tmp_path)) for part in arguments))
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


# -- money beforehand ------------------------------------------------------------------------------------------------


def test_a_dry_run_tells_the_price_of_batches_beside_the_live_one(desk: Desk) -> None:
    (lane,) = json.loads(desk.command("--dry-run", "--json").stdout)["lanes"]
    assert lane["usd_batch_likely"] == pytest.approx(lane["usd_likely"] / 2)
    assert lane["usd_batch_most"] == pytest.approx(lane["usd_most"] / 2)
    submitted = json.loads(batch(desk, "submit", "--json", "--limit", "5").stdout)
    assert submitted["most_usd"] == pytest.approx(lane["usd_batch_most"] * 5 / 12, rel=0.05)
    (lane,) = json.loads(desk.command("--dry-run", "--json").stdout)["lanes"]
    assert (lane["pending"], lane["in_batches"]) == (7, 5)
    shown = desk.command("--dry-run").stdout
    assert "USD, batch" in shown
    assert "5 sentences are in open batches" in shown


# -- vllm run-batch --------------------------------------------------------------------------------------------------


def answers(path: Path, *, leave_out: int = 0) -> Path:
    """Write what `vllm run-batch` of vLLM 0.32 wrote for such a file: one line a request, errors among them."""
    output = path.with_suffix(".output.jsonl")
    lines = []
    for number, line in enumerate(path.read_text().splitlines()):
        request = json.loads(line)
        said = request["body"]["messages"][-1]["content"]
        if "number 3." in said:
            error = {"message": "This model's maximum context length is 10 tokens.", "type": "BadRequestError",
                     "param": "input_tokens", "code": 400}  # fmt: skip
            response: dict[str, Any] = {"status_code": 400, "request_id": f"vllm-batch-{number}", "body": None}
            lines.append({"id": f"vllm-{number}", "custom_id": request["custom_id"], "response": response,
                          "error": {"error": error}})  # fmt: skip
            continue
        body = {
            "id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1796000691, "model": "org/smol",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "toxic", "refusal": None},
                         "logprobs": None, "finish_reason": "abort" if "number 4." in said else "stop"}],
            "system_fingerprint": "vllm-0.32.0", "usage": {"prompt_tokens": 65, "completion_tokens": 2},
        }  # fmt: skip
        response = {"status_code": 200, "request_id": f"vllm-batch-{number}", "body": body}
        lines.append({"id": f"vllm-{number}", "custom_id": request["custom_id"], "response": response, "error": None})
    output.write_text("".join(json.dumps(line) + "\n" for line in lines[: len(lines) - leave_out]))
    return output


@pytest.fixture
def smol(tmp_path: Path) -> Desk:
    made = Desk(tmp_path)
    made.dataset(count=10)
    made.smol()
    return made


def test_files_for_vllm_are_written_and_their_answers_read(smol: Desk) -> None:
    out = smol.folder / "out of it"
    python = "/else where/python"
    environ = {"HATEVOLUTION_VLLM_PYTHON": python, "VLLM_CPU_KVCACHE_SPACE": "3"}
    done = batch(smol, "submit", "--offline", "--out", str(out), "--requests", "6", environ=environ)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in out.iterdir()) == sorted(row.file_name for row in smol.batches())
    commands = [shlex.split(line) for line in done.stderr.splitlines() if line.startswith(("env ", "hatevolution"))]
    for row, run, collect in zip(smol.batches(), commands[::2], commands[1::2], strict=True):
        given, wanted = str(out / row.file_name), str(out / row.file_name.replace(".jsonl", ".output.jsonl"))
        start = run.index(python)
        assert {"VLLM_CPU_KVCACHE_SPACE=3", "VLLM_NO_USAGE_STATS=1"} <= set(run[1:start])
        module = ["-P", "-m", "vllm.entrypoints.openai.run_batch"]
        assert run[start : start + 10] == [python, *module, "-i", given, "-o", wanted, "--model", "org/smol"]
        assert "--generation-config vllm" in shlex.join(run)
        assert collect == ["hatevolution", "batch", "collect", "--store", str(smol.store), "--from", wanted]
    assert "waiting for its output" in batch(smol, "status").stdout
    assert batch(smol, "collect").returncode == 1
    outputs = [str(answers(path)) for path in sorted(out.iterdir())]
    done = batch(smol, "collect", *(part for path in outputs for part in ("--from", path)))
    assert done.returncode == 1
    assert "1 sentences are pending again" in done.stderr
    assert smol.statuses() == {"answered": 8, "rejected": 1}
    assert smol.rows("SELECT sentence, kind, maybe_billed FROM failures ORDER BY 1") == [
        ("s3", "too_long", 0),
        ("s4", "transient", 1),
    ]
    columns = "served_model, system_fingerprint, prompt_tokens, completion_tokens, cost_usd, latency_s"
    assert smol.rows(f"SELECT DISTINCT {columns} FROM answers WHERE status = 'answered'") == [
        ("org/smol", "vllm-0.32.0", 65, 2, None, None)
    ]


def test_the_same_output_again_changes_nothing(smol: Desk) -> None:
    out = smol.folder / "out"
    smol.submit(offline=out)
    output = answers(next(out.iterdir()))
    smol.collect(output)
    tables = ("predictions", "responses", "failures", "second_answers", "batches", "batch_lines")
    before = {table: smol.rows(f"SELECT * FROM {table}") for table in tables}
    (item,) = smol.collect(output).collected
    assert (dict(item.taken.answers), item.taken.second, item.taken.pending) == ({}, 0, 0)
    assert {table: smol.rows(f"SELECT * FROM {table}") for table in tables} == before


def test_an_output_that_lacks_some_leaves_them_pending_and_the_rest_may_come_later(smol: Desk) -> None:
    out = smol.folder / "out"
    smol.submit(offline=out)
    (given,) = out.iterdir()
    report = smol.collect(answers(given, leave_out=4))
    assert (report.pending, smol.outcomes()) == (5, {"answered": 5, "failed": 1, "missing": 4})
    assert smol.submit(offline=out).in_batches == 5
    # The rest of the first output turns up, while the second batch is open: first come, first kept.
    (item,) = smol.collect(answers(given)).collected
    assert (item.taken.answers["answered"], item.taken.second) == (4, 0)
    second = next(path for path in out.iterdir() if path.name == smol.batches()[1].file_name)
    (item,) = smol.collect(answers(second)).collected
    assert (item.taken.second, smol.statuses()) == (4, {"answered": 8, "rejected": 1})
    assert smol.count("conflicts") == 0


def test_an_output_of_somebody_else_is_refused(smol: Desk, tmp_path: Path) -> None:
    smol.submit(offline=smol.folder / "out")
    other = tmp_path / "other.jsonl"
    for text in ("", "nonsense\n", '{"custom_id": "request-1"}\n', '{"custom_id": "hb000000000000-1"}\n'):
        other.write_text(text)
        with pytest.raises(DataError, match="no line is a result of a batch of"):
            smol.collect(other)
    assert smol.outcomes() == {"open": 10}


def test_a_file_that_was_never_written_is_written_again_as_it_was(smol: Desk) -> None:
    out = smol.folder / "out"
    smol.submit(offline=out)
    (given,) = out.iterdir()
    raw = given.read_bytes()
    given.unlink()
    with_store = smol.rows("SELECT name FROM batches")
    import sqlite3

    with sqlite3.connect(smol.store) as connection:  # killed before it was moved to its place
        connection.execute("UPDATE batches SET submitted_at = NULL")
    connection.close()
    assert "file not written" in batch(smol, "status").stdout
    smol.submit(offline=out)
    assert given.read_bytes() == raw
    assert smol.rows("SELECT name FROM batches") == with_store


def test_an_offline_batch_is_released_at_once(smol: Desk) -> None:
    smol.submit(offline=smol.folder / "out")
    done = batch(smol, "cancel", smol.batches()[0].name)
    assert done.returncode == 0
    assert "its sentences are pending again" in done.stderr
    assert smol.submit(offline=smol.folder / "out").in_batches == 10


def test_a_folder_that_cannot_be_written_to_is_told(smol: Desk) -> None:
    (smol.folder / "file").write_text("")
    done = batch(smol, "submit", "--offline", "--out", str(smol.folder / "file" / "out"))
    assert done.returncode == 2
    assert "can't be written to" in done.stderr
