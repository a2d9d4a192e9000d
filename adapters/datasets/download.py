"""One file from the network: resumed where it broke off, checked before it gets its name, never overwriting a file."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

import aiohttp
import tenacity

from hatevolution.adapters.datasets.finding import LocatedFile, describe
from hatevolution.adapters.datasets.parts import Part, open_part
from hatevolution.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from yarl import URL

__all__ = ["Download", "download"]

_MOST_FRUITLESS: Final = 5
"""Attempts in a row that brought no byte; a transfer that breaks off again and again but moves on is given more."""
_MOST_ATTEMPTS: Final = 100
_LONGEST_PAUSE_S: Final = 30.0
_LONGEST_RETRY_AFTER_S: Final = 120.0
_CHUNK: Final = 1 << 16
_MOST_BYTES: Final = 4 << 30
"""Of a file whose size is not known; a server that never stops must not fill the disk."""
_PASSING_STATUS: Final = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """A file to get."""

    url: URL
    target: Path
    sha256: str | None
    """None: not known, so that only its completeness is checked."""
    bytes: int | None = None

    @property
    def shown(self) -> str:
        """The address for people: without user, password and query, which may hold secrets."""
        return str(self.url.with_user(None).with_query(None).with_fragment(None))


class _PassingError(Exception):
    """Worth another attempt, after the pause that the server asked for."""

    def __init__(self, what: str, pause_s: float | None = None) -> None:
        super().__init__(what)
        self.pause_s = pause_s


async def download(
    session: aiohttp.ClientSession,
    item: Download,
    progress: Callable[[int, int | None], None],
    *,
    first_pause_s: float = 0.5,
) -> LocatedFile:
    """Download a file and return what it is.

    Args:
        session: Must not decompress (``auto_decompress=False``): the checksum is of the bytes as published.
        item: What to get. Its target must not exist yet.
        progress: Takes the bytes that are there and the whole size (None where the server does not say).
        first_pause_s: Before the second attempt; later pauses double.

    Raises:
        DataError: It can't be had: the server refuses it, can't be reached, or sends another file than the released
            one; or it can't be written. Nothing stands under the final name then.
    """
    try:
        with open_part(item.target, str(item.url)) as part:
            if item.target.exists():  # somebody else has finished it meanwhile
                return describe(item.target)
            return await _Transfer(session, item, part, progress, first_pause_s).run()
    except OSError as error:
        raise DataError(f"{item.target} can't be written: {error.strerror or error}.") from None


class _Transfer:
    """All attempts at one file."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        item: Download,
        part: Part,
        progress: Callable[[int, int | None], None],
        first_pause_s: float,
    ) -> None:
        self._session, self._item, self._part, self._progress = session, item, part, progress
        self._first_pause_s = first_pause_s
        self._fruitless = 0

    async def run(self) -> LocatedFile:
        resumed = self._part.size() > 0
        await self._complete()
        file = self._part.describe()
        if resumed and not self._is_released(file):
            # Its beginning, from an earlier time, may be of another file: once more, from the first byte.
            self._part.clear()
            await self._complete()
            file = self._part.describe()
        if not self._is_released(file):
            self._part.clear()
            raise DataError(
                f"{self._item.shown} is not the released file: its sha256 is {file.sha256} where "
                f"{self._item.sha256} is expected; nothing of it was kept."
            )
        self._part.finish()
        return file._replace(path=self._item.target)

    def _is_released(self, file: LocatedFile) -> bool:
        return self._item.sha256 is None or file.sha256 == self._item.sha256

    async def _complete(self) -> None:
        """Attempt until all bytes are there."""
        attempts = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(_PassingError), stop=self._give_up, wait=self._wait, reraise=True
        )
        try:
            async for attempt in attempts:
                with attempt:
                    await self._attempt()
        except _PassingError as error:
            size = self._part.size()
            kept = f"; {size:,} bytes of it are kept for the next time" if size else ""
            raise DataError(f"{self._item.shown} could not be downloaded: {error}{kept}.") from None

    def _give_up(self, state: tenacity.RetryCallState) -> bool:
        return self._fruitless >= _MOST_FRUITLESS or state.attempt_number >= _MOST_ATTEMPTS

    def _wait(self, state: tenacity.RetryCallState) -> float:
        error = None if state.outcome is None else state.outcome.exception()
        asked = error.pause_s if isinstance(error, _PassingError) else None
        if asked is not None:
            return asked
        # Counted from the last byte that came: a connection that breaks off every minute is no reason to slow down.
        growing = min(self._first_pause_s * 2.0**self._fruitless, _LONGEST_PAUSE_S)
        return growing + random.uniform(0, self._first_pause_s)

    async def _attempt(self) -> None:
        before = self._part.size()
        if before and before == self._item.bytes:
            return
        try:
            await self._request(before)
        except (aiohttp.InvalidURL, aiohttp.ClientSSLError, aiohttp.TooManyRedirects) as error:
            what = type(error).__name__
            raise DataError(f"{self._item.shown} could not be downloaded: {what}.") from None
        except (_PassingError, aiohttp.ClientError, TimeoutError) as error:
            self._fruitless = 0 if self._part.size() > before else self._fruitless + 1
            raise error if isinstance(error, _PassingError) else _PassingError(_reason(error)) from None

    async def _request(self, start: int) -> None:
        headers = {"Accept-Encoding": "identity"}
        known = self._part.validator
        if start and (known or self._item.sha256):
            headers["Range"] = f"bytes={start}-"
            if known and not known.startswith("W/"):  # a weak tag is not allowed there (RFC 9110, 13.1.5)
                headers["If-Range"] = known
        async with self._session.get(self._item.url, headers=headers) as response:
            if response.status == 416:
                if response.headers.get("Content-Range") == f"bytes */{start}":
                    return  # all of it is here already
                self._part.clear()
                raise _PassingError("the server has not got the rest of the file")
            if response.status not in (200, 206):
                raise _refusal(self._item.shown, response)
            self._begin(response, start)
            await self._receive(response)

    def _begin(self, response: aiohttp.ClientResponse, start: int) -> None:
        """Make sure that what comes continues what is there; throw that away if it does not."""
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise DataError(f"{self._item.shown} is sent compressed, so that it can't be checked.")
        known = self._part.validator
        validator = response.headers.get("ETag") or response.headers.get("Last-Modified")
        if response.status == 206:
            continues = response.headers.get("Content-Range", "").startswith(f"bytes {start}-")
            if not continues or (known and validator and validator != known):
                self._part.clear()
                raise _PassingError("the file has changed on the server since its download began")
            self._part.remember(validator or known)
            return
        if start:
            self._part.clear()  # the server ignores ranges, or has another version
        self._part.remember(validator)

    async def _receive(self, response: aiohttp.ClientResponse) -> None:
        size = self._part.size()
        total = None if response.content_length is None else size + response.content_length
        most = self._item.bytes or _MOST_BYTES
        self._progress(size, total)
        async for chunk in response.content.iter_chunked(_CHUNK):
            size += len(chunk)
            if size > most:
                self._part.clear()
                raise DataError(f"{self._item.shown} sends more than {most:,} bytes; nothing of it was kept.")
            self._part.append(chunk)
            self._progress(size, total)
        if self._item.bytes is not None and size < self._item.bytes:
            raise _PassingError(f"only {size:,} of its {self._item.bytes:,} bytes came")


def _refusal(shown: str, response: aiohttp.ClientResponse) -> Exception:
    what = f"the server answers {response.status} {response.reason or ''}".strip()
    if response.status in _PASSING_STATUS:
        pause_s = _retry_after(response.headers.get("Retry-After"))
        if pause_s is None or pause_s <= _LONGEST_RETRY_AFTER_S:
            return _PassingError(what, pause_s)
        what += f" and asks to wait {pause_s:.0f} s"
    return DataError(f"{shown} could not be downloaded: {what}.")


def _retry_after(header: str | None) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks for; None where it is absent or unreadable."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        moment = parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, moment.timestamp() - time.time())


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "the server does not answer in time"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"there is no connection to {error.host}:{error.port}"
    return "the connection broke off"
