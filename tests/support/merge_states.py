"""States of merges, and limits that they reach."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.target.node_capacity import Limits
from airflow_provider_chs3.core.watch.health import Health, Thresholds, Verdict, judge
from airflow_provider_chs3.core.watch.merge_observation import Merge, MergeState, Replica, UnfinishedMutation
from tests.core.surroundings import ONE

GIB = 1024**3
HOUR_SECONDS = 3600
LIMITS = Limits(
    parts_to_delay_insert=1000,
    parts_to_throw_insert=3000,
    max_parts_in_total=100_000,
    max_bytes_to_merge_at_max_space_in_pool=150 * GIB,
    max_avg_part_size_for_too_many_parts=GIB,
)
FEW = MergeState(
    node=ONE,
    period=Period.of_month(2026, 10),
    parts=3,
    size_bytes=3 * GIB,
    two_smallest_bytes=2 * GIB,
    unchanged_seconds=HOUR_SECONDS,
    merges=(),
    mutations=(),
    limits=LIMITS,
    table_parts=3,
    free_bytes=1000 * GIB,
    pool_is_busy=False,
    at_seconds=1_800_000_000.0,
)
MANY = replace(FEW, parts=501, table_parts=501)
MERGE = Merge(progress=0.25, seconds=10, size_bytes=400 * 1024**2, parts=3)
REPLICA = Replica(is_readonly=False, delay_seconds=0)
WAITING = UnfinishedMutation(command="DELETE WHERE x", fail_reason="", age_seconds=HOUR_SECONDS)
FAILED = replace(WAITING, fail_reason="Code: 395. Value passed to 'throwIf'\nStack trace: …")


def verdict(state: MergeState, **thresholds: Any) -> Verdict:
    return judge(state, Thresholds(**thresholds))


#: Situation → verdict, as docs/merge-health.md has them.
ON_REPLICAS = {
    "a replica whose fetches were stopped a moment ago": Health.SETTLING,
    "a replica whose fetches are stopped for ten minutes": Health.STUCK,
    "a replica whose Keeper is gone": Health.STUCK,
}
