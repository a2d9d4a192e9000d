"""Cells as text, years out of text."""

from __future__ import annotations

import datetime as dt
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hatevolution.adapters.datasets.values import Years, as_text, gold_labels, lost_digits
from hatevolution.configs.dataset_schema import Labels
from hatevolution.domain import Label


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("  as it is ", "  as it is "),
        (None, None),
        (math.nan, None),
        (1, "1"),
        (1.0, "1"),  # Excel has no integers: label 1 arrives as 1.0
        (0.0, "0"),
        (0.5, "0.5"),
        (True, "true"),
        (625688620444180481, "625688620444180481"),
        (dt.date(2022, 1, 10), "2022-01-10"),
        (dt.datetime(2022, 1, 10, 3, 4, tzinfo=dt.UTC), "2022-01-10T03:04:00+00:00"),
    ],
)
def test_a_typed_cell_is_the_text_a_csv_file_would_hold(value: object, text: str | None) -> None:
    assert as_text(value) == text


@pytest.mark.parametrize("value", [["a", "b"], {"a": 1}, b"bytes", dt.timedelta(1)])
def test_a_cell_that_is_no_single_value_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match=type(value).__name__):
        as_text(value)


@given(st.integers(-(10**30), 10**30))
def test_integers_keep_every_digit(value: int) -> None:
    assert as_text(value) == str(value)
    assert not lost_digits(value)


def test_large_floating_point_ids_are_recognised() -> None:
    assert lost_digits(6.25688620444180481e17)
    assert not lost_digits(123456789012345.0)
    assert not lost_digits("625688620444180481")


@given(st.integers(1000, 2999))
def test_years_are_read_from_numbers_and_from_dates(year: int) -> None:
    years, dates = Years(dates=False), Years(dates=True)
    assert years[str(year)] == years[f"{year}.0"] == years[f" {year}"] == year
    assert dates[f"{year:04}-02-28"] == dates[f"{year:04}-02-28T23:59:59Z"] == dates[f"{year:04}-02-28 01:00"] == year


@pytest.mark.parametrize("cell", ["20177", "0999", "3000", "2021.5", "twenty", "2021-05-30", "-2021", "2021a", " "])
def test_what_is_no_year_is_refused(cell: str) -> None:
    with pytest.raises(ValueError, match="is not a year such as 2021"):
        Years(dates=False)[cell]


@pytest.mark.parametrize("cell", ["2021", "30/05/2021", "2021-13-01", "2021-02-30", "2021-05-30x", "1641812360.0"])
def test_what_is_no_date_is_refused(cell: str) -> None:
    with pytest.raises(ValueError, match="is not a date such as 2021-05-30"):
        Years(dates=True)[cell]


def test_no_year_is_said_by_empty_cells_and_by_agreed_words() -> None:
    years = Years(dates=False, none=["No Date"])
    assert years["No Date"] is None
    assert years[""] is None
    assert years[None] is None
    with pytest.raises(ValueError, match="'no date'"):
        years["no date"]


def test_the_memory_for_years_is_bounded() -> None:
    dates = Years(dates=True)
    for second in range(60_000):
        assert dates[f"2021-05-30T{second}"] == 2021
    assert len(dates) < 51_000


def test_labels_may_be_spelled_as_numbers_booleans_or_text() -> None:
    golds = gold_labels(Labels(toxic=(1, "hate", True), respectful=(0.0, "nothate", False)))
    assert golds == {
        "1": Label.TOXIC,
        "hate": Label.TOXIC,
        "true": Label.TOXIC,
        "0": Label.RESPECTFUL,
        "nothate": Label.RESPECTFUL,
        "false": Label.RESPECTFUL,
    }
    assert gold_labels(None) == {}
