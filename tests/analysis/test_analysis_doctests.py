"""Examples in the analysis' docstrings are true."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest

MODULES = (
    "columns",
    "correlation",
    "paper.published",
    "parsers.base",
    "render.inert",
    "robust",
)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    found = doctest.testmod(import_module(f"hatevolution.analysis.{name}"))
    assert found.attempted > 0 and found.failed == 0
