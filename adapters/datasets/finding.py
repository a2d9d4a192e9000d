"""Released files on this machine: found by name at any depth, told apart by checksum."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from hatevolution.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from hatevolution.configs.dataset_schema import SourceFile

__all__ = ["LocatedFile", "describe", "find_files", "pick"]

_CHUNK: Final = 1 << 20


class LocatedFile(NamedTuple):
    """One file of a data set, as it lies on the disk."""

    name: str
    path: Path
    sha256: str
    bytes: int


def describe(path: Path, name: str | None = None) -> LocatedFile:
    """Return a file's checksum and size, read in pieces.

    Args:
        path: The file.
        name: The name it is known by; None for its own.

    Raises:
        DataError: It can't be read.
    """
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("rb") as stream:
            while piece := stream.read(_CHUNK):
                digest.update(piece)
                size += len(piece)
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror}.") from None
    return LocatedFile(name or path.name, path, digest.hexdigest(), size)


def find_files(names: Collection[str], folder: Path) -> dict[str, list[Path]]:
    """Return where files of these names lie below a folder, in a fixed order; links are followed, each folder once.

    Args:
        names: File names, case as on the disk.
        folder: Searched at any depth. Folders that can't be read are passed over.
    """
    found: dict[str, list[Path]] = {name: [] for name in names}
    for path in _walk(folder):
        if path.name in found:
            found[path.name].append(path)
    return found


def _walk(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, names sorted, those of a folder before those of its folders."""
    seen: set[tuple[int, int]] = set()
    for base, folders, files in os.walk(folder, followlinks=True):
        try:
            here = Path(base).stat()
        except OSError:  # gone since it was listed
            continue
        if (here.st_dev, here.st_ino) in seen:
            folders.clear()  # a link that leads back
            continue
        seen.add((here.st_dev, here.st_ino))
        folders.sort()
        yield from (Path(base, name) for name in sorted(files))


def pick(source: SourceFile, paths: Sequence[Path], folder: Path) -> LocatedFile | None:
    """Return the file to use among those of one name; None where there is none.

    Raises:
        DataError: Files of this name differ, and none of them is the released one.
    """
    described = [describe(path, source.name) for path in paths if path.is_file()]
    if not described:
        return None
    released = [file for file in described if file.sha256 == source.sha256]
    if released:
        return released[0]
    if len({file.sha256 for file in described}) > 1:
        places = ", ".join(str(file.path.relative_to(folder)) for file in described)
        raise DataError(
            f"{folder} holds {len(described)} different files named {source.name!r} ({places}), and none has the "
            "checksum of the released one; leave one of them, or name its folder with --data."
        )
    return described[0]
