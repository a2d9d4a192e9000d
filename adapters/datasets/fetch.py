"""The released files of data sets, from their own addresses or a mirror, into a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import aiohttp
from yarl import URL

import hatevolution
from hatevolution.adapters.datasets.download import Download, download
from hatevolution.adapters.datasets.finding import LocatedFile, describe, find_files
from hatevolution.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hatevolution.configs.dataset_schema import DatasetConfig, SourceFile

__all__ = ["Fetched", "Reporter", "Wish", "fetch", "mirror_url", "wishes"]

_CONNECT_S = 30.0
_SILENCE_S = 60.0


class Wish(NamedTuple):
    """A file that a data set needs."""

    dataset: str
    source: SourceFile


class Fetched(NamedTuple):
    """What became of a wish."""

    dataset: str
    name: str
    outcome: Literal["present", "downloaded", "failed"]
    file: LocatedFile | None
    """None where it failed."""
    verified: bool
    """Whether its checksum is that of the released file."""
    problem: str | None
    """Why it failed, in one sentence."""


class Reporter(Protocol):
    """Who wants to know how it goes."""

    def progress(self, wish: Wish, done: int, total: int | None) -> None:
        """Take the bytes of a file that are there, and of all (None where unknown)."""

    def finished(self, result: Fetched) -> None:
        """Take what became of a file."""


def wishes(config: DatasetConfig, *, alternatives: bool) -> list[Wish]:
    """Return the files of a set; with ``alternatives`` those of its other releases as well.

    Raises:
        ConfigError: The set is a file of the user's own, which nobody publishes.
    """
    if config.path is not None:
        raise ConfigError(f"The data set {config.name} is the file {config.path}, so there is nothing to fetch.")
    layouts = (config, *config.alternatives) if alternatives else (config,)
    return [Wish(config.name, source) for layout in layouts for source in layout.files]


def mirror_url(base: str) -> URL:
    """Return a mirror's address.

    Raises:
        ConfigError: It is not of the form http://HOST/PATH.
    """
    try:
        url = URL(base)
    except ValueError:
        url = URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError("The mirror's address has to be of the form https://HOST/PATH.")
    return url


async def fetch(
    wanted: Sequence[Wish], data: Path, mirror: URL | None, reporter: Reporter, *, first_pause_s: float = 0.5
) -> list[Fetched]:
    """Get all files that are not below the folder yet, one after the other; a failure does not stop the others.

    Args:
        wanted: The files.
        data: The folder. A file that lies anywhere below it is not fetched again; others are put directly into it.
        mirror: Take files from ``MIRROR/NAME`` instead of their own addresses; None for the latter.
        reporter: Told of progress and results.
        first_pause_s: Before the second attempt at a file.
    """
    results = []
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_SILENCE_S)
    agent = {"User-Agent": f"hatevolution/{hatevolution.__version__}"}
    async with aiohttp.ClientSession(timeout=timeout, auto_decompress=False, trust_env=True, headers=agent) as session:
        for wish in wanted:
            try:
                result = await _one(session, wish, data, mirror, reporter, first_pause_s)
            except DataError as error:
                result = Fetched(wish.dataset, wish.source.name, "failed", None, False, str(error))
            reporter.finished(result)
            results.append(result)
    return results


async def _one(
    session: aiohttp.ClientSession,
    wish: Wish,
    data: Path,
    mirror: URL | None,
    reporter: Reporter,
    first_pause_s: float,
) -> Fetched:
    source = wish.source
    present = _present(source, data)
    if present is not None:
        return Fetched(wish.dataset, source.name, "present", present, source.sha256 is not None, None)
    item = Download(url=_address(wish, mirror), target=data / source.name, sha256=source.sha256, bytes=source.bytes)

    def progress(done: int, total: int | None) -> None:
        reporter.progress(wish, done, total)

    file = await download(session, item, progress, first_pause_s=first_pause_s)
    return Fetched(wish.dataset, source.name, "downloaded", file, source.sha256 is not None, None)


def _present(source: SourceFile, data: Path) -> LocatedFile | None:
    """Return the file if it is below the folder already.

    Raises:
        DataError: Another file stands where it would be put.
    """
    for path in find_files([source.name], data)[source.name]:
        file = describe(path)
        if source.sha256 in (None, file.sha256):
            return file
    target = data / source.name
    if target.exists():
        raise DataError(
            f"{target} is there already and is not the released file, and no file is ever overwritten; move it away "
            "to fetch the released one."
        )
    return None


def _address(wish: Wish, mirror: URL | None) -> URL:
    if mirror is not None:
        # `/` would drop a query, which may hold the mirror's key.
        return (mirror / wish.source.name).with_query(mirror.query)
    if wish.source.url is None:
        raise DataError(
            f"{wish.source.name} of {wish.dataset} has no address to download it from; see the set's source in "
            "`hatevolution data list`, or name a --mirror."
        )
    return URL(wish.source.url)
