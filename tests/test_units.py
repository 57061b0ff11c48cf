"""Lengths and durations: parsing, formatting, and messages that repeat no coordinate."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import whereish as wh
from whereish.units import duration, km, length_km


@given(st.floats(1e-3, 1e4))
def test_a_formatted_length_parses_to_the_same_length(value: float) -> None:
    assert length_km(km(value)) == pytest.approx(value, rel=0.06)


@pytest.mark.parametrize("text", ["650", "48.856614", "-1km", "0m", "1e999km", "km", "", "1.2.3km"])
def test_a_length_needs_a_number_and_a_unit(text: str) -> None:
    with pytest.raises(wh.InputError, match="radius must be a length with its unit") as refused:
        length_km(text, "radius")
    assert "856614" not in str(refused.value)


def test_durations_are_in_the_unit_a_person_would_choose() -> None:
    seconds = (0.2, 1, 119, 120, 7199, 7200)
    assert [duration(value) for value in seconds] == [
        "a second", "a second", "119 seconds", "2 minutes", "120 minutes", "2 hours",
    ]  # fmt: skip
