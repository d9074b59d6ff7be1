"""Counts and sizes as people write them."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.model.quantities import duration_text, quantity, size_text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 objects"), (1, "1 object"), (2, "2 objects"), (12_345, "12,345 objects")]
)
def test_a_noun_follows_its_count(count: int, text: str) -> None:
    assert quantity(count, "object") == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1,023 bytes"),
        (1024, "1.0 KiB"),
        (1024**2 - 1, "1,024.0 KiB"),
        (5 * 1024**3 // 2, "2.5 GiB"),
        (5_000 * 1024**4, "5,000.0 TiB"),
    ],
)
def test_a_size_has_the_largest_unit_that_fits(size_bytes: int, text: str) -> None:
    assert size_text(size_bytes) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (119.4, "119 s"),
        (120, "2 min"),
        (3_599, "1 h 0 min"),
        (11_100, "3 h 5 min"),
        (1e7, "115 days 17 h"),
    ],
)
def test_a_duration_has_two_units_at_most(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
