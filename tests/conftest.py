"""Fixtures that every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# No example is held to a time: what else the machine does is not the code's fault.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

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
