"""The real command, killed with SIGKILL between each pair of steps: nothing is lost, nothing is submitted twice."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from batch_desk import Desk
from fake_openai_batch import FakeOpenAIBatch
from run_files import command, end, environment, hatevolution

from hatevolution.adapters.batch.files import Limits
from hatevolution.store.exchange.verifying import verify_store

if TYPE_CHECKING:
    pass


def killed_at(
    desk: Desk, server: FakeOpenAIBatch, method: str, path: str, *, after: bool, arguments: list[str]
) -> None:
    """Start the real command, and kill it while the provider holds one of its requests."""
    point = server.stop_at(method, path, after=after)
    process = subprocess.Popen(
        command("batch", *arguments), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not point.reached.wait(0.1) and process.poll() is None:
        pass  # an end before that tells why below; the test's own timeout ends the rest
    said = end(process)
    point.released.set()
    assert point.reached.is_set(), said


def submitting(desk: Desk) -> list[str]:
    return ["submit", str(desk.experiment), "--store", str(desk.store), "--requests", "7"]


def input_files(server: FakeOpenAIBatch) -> int:
    return sum(file.purpose == "batch" for file in server.files.values())


# The step that was the last one, and how far the store is then.
STEPS = {
    "intent written down, nothing sent": ("POST", "/files", False),
    "file uploaded, its id not written down": ("POST", "/files", True),
    "file written down, batch not created": ("POST", "/batches", False),
    "batch created, its id not written down": ("POST", "/batches", True),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_submission_that_was_killed_is_gone_on_with(desk: Desk, server: FakeOpenAIBatch, step: str) -> None:
    method, path, after = STEPS[step]
    killed_at(desk, server, method, path, after=after, arguments=submitting(desk))
    (row,) = desk.batches()
    assert (row.requests, row.provider_id, row.closed_at) == (7, None, None)
    assert (row.file_id is None) == (path == "/files")
    assert desk.outcomes() == {"open": 7}
    # A live run may ask what is in no batch, and nothing else.
    result = desk.run(limit=9)
    assert (result.asked, result.in_batches) == (2, 7)
    again = desk.submit(limits=Limits(7, 10**6))
    assert (again.exit_code, again.in_batches) == (0, 10)
    assert [batch.requests for batch in desk.batches()] == [7, 3]
    assert (len(server.batches), input_files(server)) == (2, 2)
    assert desk.collect_all().exit_code == 0
    assert desk.statuses() == {"answered": 12}
    assert set(server.sent.values()) == {1}
    assert all(check.ok for check in verify_store(desk.store))


@pytest.mark.slow
def test_the_second_of_three_batches(desk: Desk, server: FakeOpenAIBatch) -> None:
    """Killed twice, at different batches and different steps."""
    server.stop_at("POST", "/batches", after=True).released.set()  # the first one passes
    killed_at(desk, server, "POST", "/batches", after=True, arguments=[*submitting(desk)[:-1], "5"])
    assert [row.provider_id is None for row in desk.batches()] == [False, True]
    killed_at(desk, server, "POST", "/files", after=True, arguments=[*submitting(desk)[:-1], "5"])
    assert [row.provider_id is None for row in desk.batches()] == [False, False, True]
    assert desk.submit().exit_code == 0
    assert [row.requests for row in desk.batches()] == [5, 5, 2]
    assert (len(server.batches), input_files(server)) == (3, 3)
    assert desk.collect_all().exit_code == 0
    assert set(server.sent.values()) == {1}


@pytest.mark.parametrize("path", [pytest.param("/batches/id", marks=pytest.mark.slow), "/content"])
def test_a_collection_that_was_killed_is_repeated(desk: Desk, server: FakeOpenAIBatch, path: str) -> None:
    """Also between the two files of a batch: the first one alone leaves nothing in the store."""
    server.end, server.done_before_the_end = "expired", 5
    desk.submit()
    collecting = ["collect", "--store", str(desk.store)]
    if path == "/content":
        server.stop_at("GET", path, after=True).released.set()  # the output file passes, the error file does not
    killed_at(desk, server, "GET", path, after=True, arguments=collecting)
    assert desk.outcomes() == {"open": 12}
    assert (desk.count("responses"), desk.count("failures"), desk.count("predictions")) == (0, 0, 0)
    for expected in (1, 0):
        done = hatevolution("batch", "collect", "--store", str(desk.store), "--json")
        document = json.loads(done.stdout)
        assert [item["answered"] for item in document["collected"]] == [5] * expected
        assert (done.returncode, document["pending"]) == (expected, 7 * expected)
    assert (desk.count("responses"), desk.count("failures"), desk.count("predictions")) == (5, 7, 5)
    assert set(server.sent.values()) == {1}


@pytest.mark.slow
def test_killed_at_random_moments(desk: Desk, server: FakeOpenAIBatch) -> None:
    """Many starts, each killed a little later, until one comes through."""
    import time

    desk.dataset(count=40)
    for start in range(40):
        process = subprocess.Popen(
            command("batch", "submit", str(desk.experiment), "--store", str(desk.store), "--requests", "4"),
            env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        time.sleep(0.8 + 0.02 * start)
        end(process)
    assert desk.submit(limits=Limits(4, 10**6)).exit_code == 0
    assert len(server.batches) == 10
    assert desk.collect_all().exit_code == 0
    assert (desk.statuses(), set(server.sent.values())) == ({"answered": 40}, {1})
