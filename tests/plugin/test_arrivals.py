"""Tables that are loaded by arrival: an arrival is shown only while it loads, or if it failed."""

from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from tests.integration.lake import Lake
from tests.integration.load.test_held_arrivals import approve, hold
from tests.integration.load.test_spread import Arrivals
from tests.plugin.test_periods import AsUser, periods


def test_arrivals_that_are_loaded_are_no_periods(as_user: AsUser, lake: Lake) -> None:
    arrivals = Arrivals(lake, key="toYYYYMM(at)")
    arrivals.create()
    arrivals.put(10, "a", 0, [10, -20])
    arrivals.put(11, "b", 50, [11, 9])
    arrivals.load(10)
    arrivals.load(11)
    lake.put("raw/2026-11-12/a", b"at,number\n2026-11-12 00:00:00,x\n")
    with pytest.raises(AirflowFailException):
        arrivals.load(12)
    found = periods(as_user, lake)
    assert {name: (period["state"], period["rows"]) for name, period in found.items()} == {
        "2026-10": ("published", 2),
        "2026-11": ("published", 6),
        "2026-11-12": ("failed", 0),
    }


def test_periods_of_a_held_arrival_name_it(as_user: AsUser, lake: Lake) -> None:
    arrivals = Arrivals(lake, key="toYYYYMM(at)")
    arrivals.create()
    arrivals.put(10, "a", -2000, [10, -20])
    hold(arrivals, 10, says="with arrival 2026-11-10; 2026-10 and 1 more, checks failed")
    arrivals.put(11, "b", 5000, [11])
    arrivals.load(11)
    found = periods(as_user, lake)
    assert {name: (period["state"], period["arrival"], period["held_rows"]) for name, period in found.items()} == {
        "2026-10": ("held", "2026-11-10", 2),
        "2026-11": ("published", "", 0),
    }
    approve(arrivals, 10)
    assert {(period["state"], period["arrival"]) for period in periods(as_user, lake).values()} == {("published", "")}
    arrivals.assert_exact()
