"""What to look at: filters on answers, and the SQL that they become."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from hatevolution.analysis.audit.readers import BROKEN
from hatevolution.analysis.audit.rules import KIND_NAMES
from hatevolution.analysis.choose import chosen
from hatevolution.analysis.parsers import PAPER
from hatevolution.store.text import encode

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

__all__ = ["PARSED", "Parsed", "Selection", "has_text", "in_text", "make_sentence_table"]

Parsed = Literal["toxic", "respectful", "invalid", "ambiguous", "broken", "valid", "any"]
PARSED: Final[tuple[Parsed, ...]] = get_args(Parsed)
_OUTCOMES: Final = {"broken": BROKEN, "valid": ("toxic", "respectful")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which answers. None (or empty) of a filter takes all; filters are joined by "and"."""

    models: tuple[str, ...] | None = None
    datasets: tuple[str, ...] | None = None
    statuses: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None
    years: tuple[int, ...] | None = None
    roles: tuple[str, ...] | None = None
    labels: tuple[str, ...] | None = None
    """Gold labels."""
    parsed: Parsed = "broken"
    """What the policy makes of the answer."""
    search: str | None = None
    """Stands in the sentence or in the answer; case does not matter."""
    parser: str = PAPER
    """Name or TOML path of the parse policy."""

    @property
    def outcomes(self) -> tuple[str, ...] | None:
        """The outcomes to take; None for all, refused and rejected ones included."""
        if self.kinds is not None:
            return BROKEN  # kinds are kinds of broken answers
        if self.parsed == "any":
            return None
        return _OUTCOMES.get(self.parsed, (self.parsed,))

    @property
    def takes_sentences(self) -> bool:
        """Whether a filter looks at the sentence itself."""
        return any(value is not None for value in (self.years, self.roles, self.labels))

    def as_json(self) -> dict[str, Any]:
        """Return the filters that are set, for a document or as the identity of a sample."""
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in asdict(self).items()
            if value is not None
        }

    def check(self, connection: sqlite3.Connection) -> None:
        """Make sure that what is named exists.

        Raises:
            ConfigError: It does not; the text names the nearest one.
        """
        known = [row[0] for row in connection.execute("SELECT dataset FROM datasets ORDER BY position")]
        chosen(self.datasets, known, "data set")
        chosen(self.kinds, KIND_NAMES, "kind")


def in_text(search: str) -> str:
    """Return what a search looks for, as :func:`has_text` and SQL compare it."""
    return search.casefold()


def has_text(search: str, column: str) -> tuple[str, str | bytes]:
    """Return the SQL condition "the column holds the search text", and its parameter.

    ASCII is compared by SQLite itself, which is several times faster; anything else by the function ``folded_has``.
    ``LIKE`` is no help: it stops at a NUL character and does not look into BLOBs.
    """
    if search.isascii():
        return f"instr(lower(CAST({column} AS TEXT)), ?) > 0", search.lower()
    return f"folded_has({column}, ?)", encode(in_text(search))


def make_sentence_table(connection: sqlite3.Connection, selection: Selection) -> bool:
    """Make the table ``temp.chosen`` of the sentences that a selection takes; return False where it takes all."""
    if not selection.takes_sentences:
        return False
    conditions, values = [], []
    for column, wanted in (("year", selection.years), ("role", selection.roles), ("gold", selection.labels)):
        if wanted is not None:
            conditions.append(f"{column} IN ({', '.join('?' * len(wanted))})")
            values += list(wanted)
    connection.execute(
        "CREATE TEMP TABLE chosen (dataset TEXT, sentence TEXT, PRIMARY KEY (dataset, sentence)) WITHOUT ROWID"
    )
    connection.execute(
        f"INSERT INTO temp.chosen SELECT dataset, sentence FROM sentences WHERE {' AND '.join(conditions)}",  # noqa: S608 - constant columns
        values,
    )
    return True


def names_condition(column: str, names: Sequence[str] | None) -> tuple[str, list[str]] | None:
    """Return the SQL condition "the column is one of these"; None where all are taken."""
    return None if names is None else (f"{column} IN ({', '.join('?' * len(names))})", list(names))
