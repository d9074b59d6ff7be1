"""When periods are due, and whether a table has them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_chs3.core.model.freshness import FreshBy, Freshness
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.exceptions import ConfigurationError


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("fresh_by", "zone", "period", "due"),
    [
        ("07:00", "UTC", "2026-11-28", "2026-11-29 07:00"),
        ("00:00", "UTC", "2026-11-28", "2026-11-29 00:00"),
        ("6h", "UTC", "2026-11-28", "2026-11-29 06:00"),
        ("07:00", "Europe/Berlin", "2026-11-28", "2026-11-29 06:00"),
        ("07:00", "Europe/Berlin", "2026-07-14", "2026-07-15 05:00"),
        ("07:00", "America/New_York", "2026-11", "2026-12-01 12:00"),
        ("48h", "UTC", "2026-W48", "2026-12-02 00:00"),
        # The period ends at 14:00 UTC, 15:00 in Berlin: the next seven o'clock there is that of the next day.
        ("07:00", "Europe/Berlin", "2026-11-28T13Z", "2026-11-29 06:00"),
        ("07:00", "Europe/Berlin", "2026-11-28T05Z", "2026-11-28 06:00"),
        # The clocks skip the hour from two to three, and have it twice.
        ("07:00", "Europe/Berlin", "2026-03-28", "2026-03-29 05:00"),
        ("02:30", "Europe/Berlin", "2026-03-28", "2026-03-29 01:30"),
        ("02:30", "Europe/Berlin", "2026-10-24", "2026-10-25 00:30"),
    ],
)
def test_a_period_is_due(fresh_by: str, zone: str, period: str, due: str) -> None:
    parsed = FreshBy.parse(fresh_by, zone)
    assert parsed.due_at(Period.parse(period)) == at(due)
    assert FreshBy.recorded(str(parsed)) == parsed


@pytest.mark.parametrize("text", ["7:00", "24:00", "07:60", "6", "0h", "h", "6 h", "-6h", "\u0667:00", ""])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="set a time of the day"):
        FreshBy.parse(text, "UTC")


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="Mars"):
        FreshBy.parse("07:00", "Mars")


def judged(looks: dict[str, str], moment: str, fresh_by: str = "07:00") -> Freshness:
    return Freshness.of(
        FreshBy.parse(fresh_by, "UTC"),
        {Period.parse(name): at(looked_at) for name, looked_at in looks.items()},
        at(moment),
    )


class TestFreshness:
    def test_a_table_is_fresh_until_the_next_period_is_due(self) -> None:
        looks = {"2026-11-26": "2026-11-27 03:00", "2026-11-27": "2026-11-28 03:00"}
        fresh = judged(looks, "2026-11-29 06:59")
        assert (fresh.is_fresh, str(fresh.complete), fresh.missing) == (True, "2026-11-27", 1)
        assert str(fresh) == "fresh until 2026-11-29 07:00 UTC"
        late = judged(looks, "2026-11-29 07:00")
        assert (late.is_fresh, late.due_at, late.missing) == (False, at("2026-11-29 07:00"), 1)
        later = judged(looks, "2026-12-01 09:00")
        assert str(later) == "2026-11-28 was due 2026-11-29 07:00 UTC, 2 days 2 h ago"
        assert later.missing == 3

    def test_a_look_before_a_period_has_ended_does_not_complete_it(self) -> None:
        looks = {"2026-10": "2026-11-01 03:00", "2026-11": "2026-11-30 23:59"}
        assert judged(looks, "2026-12-01 06:00").is_fresh
        assert not judged(looks, "2026-12-01 07:00").is_fresh
        looks["2026-11"] = "2026-12-01 00:00"
        assert judged(looks, "2026-12-31 07:00").is_fresh

    def test_the_first_period_of_a_table_is_due_like_any_other(self) -> None:
        looks = {"2026-11": "2026-11-20 03:00"}
        fresh = judged(looks, "2026-11-29 07:00")
        assert (fresh.is_fresh, fresh.complete, fresh.missing) == (True, None, 0)
        assert not judged(looks, "2026-12-01 07:00").is_fresh

    def test_nothing_is_known_of_a_table_that_was_never_loaded(self) -> None:
        unknown = judged({}, "2026-12-01 07:00")
        assert (unknown.is_fresh, str(unknown), unknown.missing) == (False, "never loaded", 0)
        assert unknown.as_json()["due_at"] is None

    def test_a_table_without_periods_is_due_every_day(self) -> None:
        looks = {"all": "2026-11-28 03:00"}
        assert judged(looks, "2026-11-29 06:59").is_fresh
        late = judged(looks, "2026-11-29 07:00")
        assert (late.is_fresh, str(late.next_period)) == (False, "2026-11-28")
        fresh_by, today = FreshBy.parse("07:00", "Europe/Berlin"), at("2026-11-28 23:00")
        whole = Period.parse("all")
        assert fresh_by.newest_ended([whole], today + timedelta(minutes=5)) == (whole, today)
        months = [Period.parse(month) for month in ("2026-09", "2026-10", "2026-11")]
        assert fresh_by.newest_ended(months, today) == (months[1], at("2026-10-31 23:00"))
        assert fresh_by.newest_ended(months[2:], today) is None

    def test_hours_after_the_end(self) -> None:
        looks = {"2026-11-28T10Z": "2026-11-28 11:20"}
        assert judged(looks, "2026-11-28 13:59", "2h").is_fresh
        assert not judged(looks, "2026-11-28 14:00", "2h").is_fresh
