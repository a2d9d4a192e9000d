"""Stores with every edge case, made once per session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from store_maker import Made, generate

from hatevolution.analysis.frames import load

if TYPE_CHECKING:
    from hatevolution.analysis.study import Study

SEEDS = (1, 2)


@pytest.fixture(scope="session", params=SEEDS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return generate(tmp_path_factory.mktemp("store") / "s.db", request.param)


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return generate(tmp_path_factory.mktemp("store") / "s.db", 3)


@pytest.fixture(scope="session")
def study_once(made_once: Made) -> Study:
    return load(made_once.path)


@pytest.fixture(scope="session")
def study(made: Made) -> Study:
    return load(made.path)
