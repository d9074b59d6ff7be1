"""The doctor on disks and replicas."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.doctor.disks import check_room, judge_replicas
from tests.core.surroundings import ONE, TWO
from tests.support.driving import drive


@pytest.mark.parametrize(("free_bytes", "count"), [(50, 0), (9, 1)])
def test_a_disk_with_less_than_a_tenth_free_is_a_finding(free_bytes, count):
    check, free = drive(check_room((ONE,)), {ONE: [("default", free_bytes, 100, 0)]}).result
    assert (len(check.findings), free) == (count, {ONE: free_bytes})
    assert "versions" not in check.summary


@pytest.mark.parametrize(
    ("replica", "match"),
    [
        ((1, 1, 0, 0), "has lost its session with Keeper"),
        ((1, 0, 0, 0), "is read-only: check Keeper"),
        ((0, 0, 301, 5), "lags 301 s behind"),
    ],
)
def test_a_replica_that_does_not_follow_is_a_finding(replica, match):
    check = judge_replicas({ONE: [("taxi", "trips", 0, 0, 12, 3)], TWO: [("taxi", "trips", *replica)]})
    assert len(check.findings) == 1
    assert check.findings[0].startswith("ch-2:9000: the replica of taxi.trips ")
    assert match in check.findings[0]


def test_where_nothing_is_replicated_that_is_said():
    assert judge_replicas({ONE: []}).summary == "no table is replicated"
