"""Which merges follow from a publication."""

from __future__ import annotations

from airflow_provider_chs3.plugin.observation.speed.settling import settle_seconds


def test_nothing_merged() -> None:
    assert settle_seconds([(10, 10, "one")]) == {"one": 0}


def test_merges_follow_one_another() -> None:
    assert settle_seconds([(10, 10, "one"), (20, 50, ""), (110, 130, "")]) == {"one": 120}


def test_the_order_of_the_log_is_no_matter() -> None:
    assert settle_seconds([(110, 130, ""), (20, 50, ""), (10, 10, "one")]) == {"one": 120}


def test_merges_side_by_side_end_with_the_last() -> None:
    assert settle_seconds([(10, 10, "one"), (11, 100, ""), (12, 20, "")]) == {"one": 90}


def test_what_comes_long_after_is_not_the_loads() -> None:
    assert settle_seconds([(10, 10, "one"), (20, 50, ""), (171, 900, "")]) == {"one": 40}


def test_each_publication_has_its_own() -> None:
    assert settle_seconds([(0, 5, ""), (10, 10, "one"), (20, 50, ""), (60, 60, "two"), (61, 63, "")]) == {
        "one": 40,
        "two": 3,
    }


def test_all_parts_of_one_publication_are_one() -> None:
    assert settle_seconds([(10, 10, "one"), (11, 11, "one"), (20, 50, "")]) == {"one": 40}
