"""Fixtures that every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of the real data sets; skips where it is not on this machine, fails where it has to be (as in CI)."""
    folder = Path(os.environ.get("HATEVOLUTION_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        reason = f"the real data sets are not here ({folder}); set HATEVOLUTION_DATA to their folder"
        if os.environ.get("HATEVOLUTION_REQUIRE_DATA"):
            pytest.fail(f"{reason}, or unset HATEVOLUTION_REQUIRE_DATA")
        pytest.skip(reason)
    return folder
