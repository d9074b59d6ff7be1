"""Parts are reckoned back from what is there now."""

from __future__ import annotations

from airflow_provider_chs3.plugin.observation.speed.parts_over_time import PartsAt, parts_over_time


def history(
    parts: dict[str, int], *changes: tuple[str, float, int], now: float = 35, known_since: float = 10
) -> list[tuple[float, int, int]]:
    rows = [("db", "trips", partition, count) for partition, count in parts.items()]
    log = [("db", "trips", *change) for change in changes] + [("", "", "", known_since, 0)]
    points = parts_over_time(rows, log, begun_at=5, until=now, step_seconds=10)
    return [(point.at, point.parts, point.backlog) for point in points]


def test_without_changes_it_was_always_so() -> None:
    assert history({"a": 3, "b": 1}) == [(10, 4, 2), (20, 4, 2), (30, 4, 2), (35, 4, 2)]


def test_an_insert_and_its_merge_rise_and_fall() -> None:
    made, merged = ("a", 10, 5), ("a", 30, -4)
    assert history({"a": 1}, made, merged) == [(10, 0, 0), (20, 5, 4), (30, 5, 4), (35, 1, 0)]


def test_a_backlog_is_counted_by_partition() -> None:
    found = history({"a": 1, "b": 1}, ("a", 10, 1), ("b", 10, 1), now=21)
    assert found == [(10, 0, 0), (20, 2, 0), (21, 2, 0)]


def test_parts_that_go_and_are_not_known_to_have_come_were_there_before() -> None:
    assert history({}, ("a", 20, -2), now=25) == [(10, 2, 1), (20, 2, 1), (25, 0, 0)]


def test_there_are_never_less_than_none() -> None:
    assert history({"a": 1}, ("a", 20, 3), now=25)[0] == (10, 0, 0)


def test_the_last_point_is_now() -> None:
    assert history({"a": 2}, now=12.5)[-1] == (12.5, 2, 1)


def test_what_is_known_since_the_middle_of_a_step_stands_at_its_beginning() -> None:
    assert history({"a": 3}, ("a", 20, 2), known_since=22, now=25) == [(20, 1, 0), (25, 3, 2)]


def test_a_point_is_not_before_the_period() -> None:
    assert history({"a": 3}, known_since=5, now=12) == [(5, 3, 2), (10, 3, 2), (12, 3, 2)]


def test_of_a_log_without_changes_the_present_is_all_that_is_known() -> None:
    assert history({"a": 3}, known_since=25, now=25) == [(25, 3, 2)]
    assert parts_over_time([("db", "trips", "a", 3)], [], begun_at=5, until=25, step_seconds=10) == (PartsAt(25, 3, 2),)
