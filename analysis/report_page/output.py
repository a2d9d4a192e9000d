"""The page as a file: made whole or not at all, and never over something that is no page."""

from __future__ import annotations

import os
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hatevolution.analysis.report_page.page import render
from hatevolution.errors import ConfigError, not_installed

if TYPE_CHECKING:
    from hatevolution.analysis.report_page.content import Content

__all__ = ["check", "write"]

_NEEDED: Final = ("jinja2", "matplotlib")
_BEGINNINGS: Final = (b"<!doctype html", b"<html")


def check(path: Path) -> None:
    """Make sure, before the work, that a report can be made and written to a file.

    Raises:
        ConfigError: A package of the extra ``report`` is not installed, the file is there and is no page, or there is
            no such folder.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        what = " and ".join(missing)
        raise not_installed("`hatevolution report`", what, "report", where="the base installation has not got")
    if not path.parent.is_dir():
        raise ConfigError(f"The report can't be written to {path}: there is no folder {path.parent}.")
    if path.is_file() and path.stat().st_size and not _is_page(path):
        # A slip in the command line must not cost a store.
        raise ConfigError(f"{path} exists and is no HTML page, so it is not overwritten; name another file with --out.")


def _is_page(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip().lower().startswith(_BEGINNINGS)
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}.") from None


def write(content: Content, path: Path) -> int:
    """Write the page and return its size in bytes; an older page stays until the new one is complete.

    Raises:
        ConfigError: The file can't be written, or is none of ours to overwrite (:func:`check`).
    """
    check(path)
    page = render(content).encode()
    try:
        if path.exists() and not path.is_file():  # /dev/stdout, a pipe
            path.write_bytes(page)
            return len(page)
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:100]}-", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(page)
            Path(name).chmod(0o666 & ~_umask())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConfigError(f"The report can't be written to {path}: {error.strerror}.") from None
    return len(page)


def _umask() -> int:
    """Return the process' mask of permissions, which can be read only by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
