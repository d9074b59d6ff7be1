"""The parts of a period are reckoned back from what is there now, as far as its log goes."""

from __future__ import annotations

from airflow_provider_chs3.plugin.observation.speed.period_parts import parts_since

PERIOD, LOG = ("d", "t", "202610"), ("", "", "")


def history(parts: int, *changes: tuple[tuple[str, str, str], int, int]) -> list[tuple[float, int]]:
    rows = [(*partition, at, difference) for partition, at, difference in changes]
    return parts_since(parts, rows, until=100)


def test_they_rise_with_a_load_and_fall_with_merges() -> None:
    assert history(1, (PERIOD, 50, -4), (PERIOD, 40, 5), (LOG, 10, 0)) == [(10, 0), (40, 5), (50, 1)]


def test_without_changes_they_are_what_they_are_since_the_log_began() -> None:
    assert history(3, (LOG, 10, 0)) == [(10, 3)]


def test_of_an_empty_log_only_the_present_is_known() -> None:
    assert history(3) == [(100, 3)]


def test_where_events_are_missing_the_line_begins_after_them() -> None:
    assert history(1, (PERIOD, 50, -1), (PERIOD, 40, 3), (PERIOD, 30, 2), (LOG, 10, 0)) == [(40, 2), (50, 1)]
