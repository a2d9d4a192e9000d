"""A provider that answers batches, and a project whose chat model it serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from batch_desk import Desk
from fake_openai_batch import FakeOpenAIBatch, served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def server() -> Iterator[FakeOpenAIBatch]:
    with served(swift=True) as made:
        yield made


@pytest.fixture
def sentences() -> int:
    """How many the data set of :func:`desk` has; a module may want another number."""
    return 12


@pytest.fixture
def desk(tmp_path: Path, server: FakeOpenAIBatch, sentences: int) -> Desk:
    made = Desk(tmp_path)
    made.dataset(count=sentences)
    made.chat(server.base_url)
    return made
