"""Compare a wheel with the tree that it was built from; run as ``python wheel_contents.py ROOT WHEEL``.

A build from a checkout without symbolic links, or a package-data pattern that misses a new folder, makes a wheel that
lacks files and says nothing about it (design/packaging.md).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from zipfile import ZipFile

_NOT_SHIPPED = (".pyc", ".db", ".db-wal", ".db-shm", ".db.lock", "~")


def tree_files(root: Path) -> set[str]:
    """Return every file that belongs into the wheel, as ``hatevolution/store/schema.py``."""
    source = root / "src"
    found = set()
    for folder, folders, files in os.walk(source / "hatevolution", followlinks=True):
        folders[:] = [name for name in folders if name != "__pycache__" and not name.startswith(".")]
        found |= {
            (Path(folder) / name).relative_to(source).as_posix()
            for name in files
            if not name.startswith(".") and not name.endswith(_NOT_SHIPPED)
        }
    return found


def wheel_files(wheel: Path) -> set[str]:
    """Return every file of a wheel but its metadata."""
    with ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
    return {name for name in names if ".dist-info/" not in name}


def differences(root: Path, wheel: Path) -> list[str]:
    """Return one line per file that only one of the two has."""
    tree, shipped = tree_files(root), wheel_files(wheel)
    return [
        *(f"missing from the wheel: {name}" for name in sorted(tree - shipped)),
        *(f"only in the wheel: {name}" for name in sorted(shipped - tree)),
    ]


def main(root: str, wheel: str) -> int:
    """Print the differences and return the exit code."""
    found = differences(Path(root), Path(wheel))
    print(*(found or [f"the wheel holds the {len(wheel_files(Path(wheel)))} files of the tree"]), sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
