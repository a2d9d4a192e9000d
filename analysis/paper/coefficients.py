"""The published correlations: by the released method, and as rank correlations of the models.

The released notebook hands two columns of model *names*, in order of rank, to ``scipy.stats.spearmanr``, which ranks
the names alphabetically, position by position. The number that comes out says how similar the alphabetical order of the
two columns is, and nothing about the models. Matched by model, the same rankings correlate strongly.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final

from scipy import stats

from hatevolution.analysis.correlation import Interval, bonett_wright, fisher
from hatevolution.analysis.paper.check import AGREES, DIFFERS, Check, compared
from hatevolution.analysis.paper.checks import recomputed_means
from hatevolution.analysis.paper.published import BASELINE, STATIC, number, places, released_columns, table

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Coefficient", "coefficient_checks", "coefficients"]

_EXPERIMENTS: Final = {"Experiment 1": "experiment1", "Experiment 2": "experiment2"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficient:
    """One pair of rankings."""

    x: str
    y: str
    table: str | None
    """Where it was published; None: it was not."""
    published: float | None
    published_text: str | None
    published_interval: str | None
    as_released: float
    """Spearman's rho of the names' alphabetical ranks, position by position."""
    from_rankings: float
    """Spearman's rho of each model's place in the two released rankings."""
    from_scores: float
    """Spearman's rho of each model's published scores; of Experiment 1 the recomputed means, of Experiment 2 the flips,
    low first, with the models that never flip (0.00 %) last."""
    n: int

    @property
    def from_rankings_interval(self) -> Interval | None:
        """Fisher's, at the study's 90 %."""
        return fisher(self.from_rankings, self.n)

    @property
    def from_rankings_bonett_wright(self) -> Interval | None:
        """Bonett and Wright's, at 90 %."""
        return bonett_wright(self.from_rankings, self.n)

    @property
    def from_scores_interval(self) -> Interval | None:
        """Fisher's, at 90 %."""
        return fisher(self.from_scores, self.n)


def coefficients() -> list[Coefficient]:
    """Return all fifteen pairs of the six rankings; that of the two experiments was not published."""
    order = list(released_columns())
    named = [*(name for name in order if name in STATIC), *(name for name in order if name not in STATIC)]
    return [_coefficient(x, y) for x, y in combinations(named, 2)]


def _coefficient(x: str, y: str) -> Coefficient:
    where = _published(x, y)
    columns = released_columns()
    ranks = {name: {model: place for place, model in enumerate(places()[name])} for name in (x, y)}
    goodness = {name: _goodness(name) for name in (x, y)}
    models = list(ranks[x])
    return Coefficient(
        x=x,
        y=y,
        table=None if where is None else where[0],
        published=None if where is None else number(where[1]),
        published_text=None if where is None else where[1],
        published_interval=None if where is None else where[2],
        as_released=_rho(_alphabetical(columns[x]), _alphabetical(columns[y])),
        from_rankings=_rho([ranks[x][model] for model in models], [ranks[y][model] for model in models]),
        from_scores=_rho([goodness[x][model] for model in models], [goodness[y][model] for model in models]),
        n=len(models),
    )


def _rho(x: list[float] | list[int], y: list[float] | list[int]) -> float:
    return float(stats.spearmanr(x, y).statistic)


def _alphabetical(names: tuple[str, ...]) -> list[int]:
    """Return what scipy makes of strings: each name's rank in the order of code points, capitals first."""
    ordered = sorted(names)
    return [ordered.index(name) for name in names]


def _goodness(name: str) -> Mapping[str, float]:
    if name in STATIC:
        return {model: float(row["Macro F1"]) for model, row in table(STATIC[name]).items()}
    if name == "Experiment 1":
        return {model: mean for model, mean in recomputed_means().items() if model != BASELINE}
    flips = {model: float(row["Label Flip (%)"]) for model, row in table("4").items() if model != BASELINE}
    return {model: -flip if flip > 0 else float("-inf") for model, flip in flips.items()}


def _published(x: str, y: str) -> tuple[str, str, str] | None:
    """Return table, coefficient and interval; None for the pair that was not published."""
    if y in _EXPERIMENTS and x in STATIC:
        row = table("5")[x]
        return "5", row[_EXPERIMENTS[y]], table("A12")[x][y]
    if x in STATIC and y in STATIC:
        return "A11", table("A11")[x][y], table("A13")[x][y]
    return None


def coefficient_checks() -> list[Check]:
    """Check Tables 5 and A11 to A13: coefficients by the released method and matched by model, and intervals."""
    checks = []
    for item in coefficients():
        if item.table is None or item.published_text is None or item.published is None:
            continue
        row, text = item.x, item.published_text
        checks.append(
            compared(
                item.table, row, f"{item.y}, by the released method", text, item.as_released, "of the names' order"
            )
        )
        checks.append(
            Check(
                table=item.table, row=row, column=item.y, published=item.published, recomputed=item.from_rankings,
                verdict=AGREES if abs(item.from_rankings - item.published) < 1e-4 else DIFFERS,
                note="rank correlation of the models in the released rankings",
            )
        )  # fmt: skip
        checks.append(_interval_check("A12" if item.table == "5" else "A13", item))
        if item.table == "5":
            twice = table("5")[row][f"{_EXPERIMENTS[item.y]}_ci90"]
            checks.append(
                _text_check("5", row, f"{item.y}, CI", twice, item.published_interval or "", "as in Table A12")
            )
    return checks


def _interval_check(key: str, item: Coefficient) -> Check:
    found = fisher(item.as_released, item.n)
    text = "" if found is None else f"({found.low:.3f}, {found.high:.3f})"
    note = "Fisher's interval of the released method's coefficient, n = 20"
    return _text_check(key, item.x, item.y, item.published_interval or "", text, note)


def _text_check(key: str, row: str, column: str, published: str, recomputed: str, note: str) -> Check:
    """Check an interval; its bounds may differ by one in the last place."""
    bounds = [[float(part) for part in text.strip("()").split(",")] for text in (published, recomputed)]
    close = all(abs(one - two) <= 0.001000001 for one, two in zip(*bounds, strict=True))
    return Check(
        table=key, row=row, column=column, published=published, recomputed=recomputed,
        verdict=AGREES if close else DIFFERS, note=note,
    )  # fmt: skip
