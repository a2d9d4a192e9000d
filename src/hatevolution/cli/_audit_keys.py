"""Judging by keys: what is shown, which key does what, and when it is stored."""

from __future__ import annotations

import os
import re
import sys
import termios
import time
import tty
from typing import TYPE_CHECKING, Any, Final, Self, TextIO

import click

from hatevolution.errors import StoreError
from hatevolution.inert import one_line

if TYPE_CHECKING:
    from pathlib import Path

    from hatevolution.analysis.audit.records import AnswerRow
    from hatevolution.store.verdicts import Judgement, Key, SampleRecord

__all__ = ["Keys", "Labeller"]

_JUDGEMENTS: Final[dict[str, Judgement]] = {"t": "toxic", "r": "respectful", "i": "invalid", "u": "undecided"}
_HELP: Final = "t toxic  r respectful  i neither  u undecided  b back  q quit"
_RETRY_S: Final = 1.0
_KEY: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|.)?|.", re.DOTALL)
"""One key as a terminal sends it (ECMA-48, 5.4): the arrow down is "ESC [ B", which must not be taken for "b"."""


class Keys:
    """Keys that a person presses on a terminal, or the characters of a pipe. Use as a context manager.

    On a terminal the keys need no Return; it stays so for the whole sitting, so that none pressed early is lost (which
    ``click.getchar`` does, since it sets the terminal anew for each key and drops what is waiting).

    Args:
        stream: Standard input.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = stream.fileno() if stream.isatty() else None
        self._settings: list[Any] | None = None
        self._waiting = ""

    def __enter__(self) -> Self:
        if self._terminal is not None:
            self._settings = termios.tcgetattr(self._terminal)
            tty.setcbreak(self._terminal, termios.TCSADRAIN)
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._terminal is not None and self._settings is not None:
            termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._settings)

    def next(self) -> str:
        """Return the next key in lower case; ``q`` at the end of the input."""
        while True:
            key = self._stream.read(1) if self._terminal is None else self._pressed(self._terminal)
            if not key or key == "\x04":
                return "q"
            if not key.isspace():
                return key.lower()

    def _pressed(self, terminal: int) -> str:
        self._waiting = self._waiting or os.read(terminal, 64).decode("utf-8", "replace")
        match = _KEY.match(self._waiting)
        key = match[0] if match else ""
        self._waiting = self._waiting[len(key) :]
        return key


class Labeller:
    """One sitting: shows answer after answer and stores each judgement at once.

    Neither the gold label nor what a policy made of the answer is shown, so that they sway nobody.
    """

    def __init__(self, store: Path, sample: SampleRecord, who: str, cut: int, keys: Keys) -> None:
        from hatevolution.store.reader import connect
        from hatevolution.store.verdicts import counting, sampled

        self._store, self._sample, self._who, self._cut, self._keys = store, sample, who, cut, keys
        connection = connect(store)
        try:
            self._answers = sampled(connection, sample.sample)
            self._said = {key: said for (key, _), said in counting(connection, sample.sample, who).items()}
        finally:
            connection.close()

    def run(self) -> None:
        """Go on until everything is judged or the person quits.

        Raises:
            StoreError: A judgement can't be stored.
        """
        place: int | None = self._next(-1)
        if place is not None:
            self._say(_HELP)
        while place is not None:
            self._show(place)
            key = self._keys.next()
            if key == "q":
                break
            if key == "b":
                place = max(0, place - 1)
            elif key in _JUDGEMENTS:
                judgement = _JUDGEMENTS[key]
                self._say(f"  {judgement}")
                self._save(self._answers[place], judgement)
                place = self._next(place)
            else:
                self._say(f"  {one_line(key)!r} does nothing; {_HELP}")
        left = sum(key not in self._said for key in self._answers)
        if left:
            self._say(f"{left} answers are left; the same command goes on with them.")

    def _next(self, place: int) -> int | None:
        """Return the next place without a judgement, from the beginning where there is none behind."""
        order = (*range(place + 1, len(self._answers)), *range(place + 1))
        return next((index for index in order if self._answers[index] not in self._said), None)

    def _show(self, place: int) -> None:
        row = self._row(self._answers[place])
        said = self._said.get(self._answers[place])
        before = f" (so far: {said})" if said else ""
        self._say(f"\n{place + 1} of {len(self._answers)}{before}")
        self._say(f"  sentence  {one_line(row.text, self._cut)}")
        self._say(f"  answer    {one_line(row.raw_text or '', self._cut)}")

    def _row(self, key: Key) -> AnswerRow:
        from hatevolution.analysis.audit.selection import Selection
        from hatevolution.analysis.audit.store_view import StoreView

        # Opened for each answer: a transaction that stays open keeps a run's log from being folded into the store.
        with StoreView(self._store, Selection(models=(key.model,), parsed="any")) as view:
            row = view.row(*key)
        if row is None:
            raise StoreError(f"The store {self._store} no longer has an answer of the sample ({one_line(str(key))}).")
        return row

    def _save(self, key: Key, judgement: Judgement) -> None:
        from hatevolution.store.lock import holder
        from hatevolution.store.verdicts import append_verdict

        waiting = False
        while True:
            try:
                append_verdict(self._store, self._sample.sample, key, judgement, self._who)
            except StoreError:
                # A run holds the lock for hours: the person decides how long to wait (Ctrl-C ends it).
                if holder(self._store) is None:
                    raise
                if not waiting:
                    self._say("  a run is writing to this store; waiting to store the judgement (Ctrl-C gives up)")
                waiting = True
                time.sleep(_RETRY_S)
            else:
                self._said[key] = judgement
                return

    def _say(self, text: str) -> None:
        click.echo(text, file=sys.stderr)
