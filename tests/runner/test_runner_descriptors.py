"""A run whose process may open few files: fewer requests at once, and everything is stored all the same."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

import pytest
from run_files import Project, RemoteServer, remote

from hatevolution.runner.descriptors import connections, raise_limit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_limit_is_raised_as_far_as_it_may(limits: tuple[int, int]) -> None:
    _, hard = limits
    resource.setrlimit(resource.RLIMIT_NOFILE, (1_000, hard))
    assert connections(1) == 872
    assert connections(4) == 218
    assert connections(5_000) == 1
    raise_limit()
    soft, still = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert still == hard
    assert soft == (65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536))
    raise_limit()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)


@pytest.mark.parametrize(("soft", "hard", "most"), [(200, 200, 72), (200, 4_096, 2_000)])
def test_few_files(tmp_path: Path, soft: int, hard: int, most: int) -> None:
    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    project = Project(tmp_path)
    project.dataset(count=3_000)
    with remote("fake_vllm.py", "--latency", "0.05") as vllm:
        server: RemoteServer = vllm
        project.vllm(server.base_url, max_concurrency=2_000)
        process = project.start(preexec_fn=few)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
        log = server.log()
    assert ("at most 72 requests at once" in said) == (most == 72)
    assert "open file" not in said
    assert log["peak"] <= most
    assert project.count("predictions") == 3_000
    assert project.count("failures") == 0
    assert set(log["sent"].values()) == {1}
