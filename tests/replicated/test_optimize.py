"""What OPTIMIZE does to replicated tables: one replica gets it, and the others follow."""

from __future__ import annotations

import pytest

from tests.replicated.conftest import FIRST, OTHER_SHARD, Replicated
from tests.support.waiting import wait_until

#: The servers in `tests/servers` have replicas on every change.
pytestmark = pytest.mark.thorough


def parts(replicated: Replicated) -> list[int]:
    sql = f"SELECT count() FROM system.parts WHERE active AND table = '{replicated.table}'"
    return [rows[0][0] for rows in replicated.on_all(sql)]


def test_one_replica_of_a_shard_is_told_and_all_of_the_shard_merge(replicated: Replicated) -> None:
    for first in range(3):
        replicated.stage(replicated.table, FIRST, 10, first=10 * first)
        replicated.stage(replicated.table, OTHER_SHARD, 10, first=10 * first)
    replicated.wait()
    assert parts(replicated) == [3, 3, 3, 3]
    # `alter_sync` and PARTITION ID came later.
    settings = {"replication_alter_partitions_sync": 0, "optimize_throw_if_noop": 1}
    replicated.ask(FIRST, f"OPTIMIZE TABLE {replicated.table} PARTITION 202610", **settings)
    wait_until(lambda: parts(replicated) == [1, 1, 3, 3])
