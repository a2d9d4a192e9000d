"""The store itself knows nothing of merging, exporting and importing, which are built on it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

STORE = Path(__file__).resolve().parent.parent.parent / "store"


@pytest.mark.parametrize("module", sorted(path.stem for path in STORE.glob("*.py") if path.stem != "__init__"))
def test_no_module_of_the_store_needs_what_is_built_on_it(module: str) -> None:
    code = (
        f"import sys, hatevolution.store.{module}\n"
        "print(sorted(name for name in sys.modules if name.startswith('hatevolution.store.exchange')))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
