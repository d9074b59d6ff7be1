"""Situations of a period's parts, made for real; docs/merge-health.md has them as a table."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_chs3.core.arguments.merge_arguments import Thresholds
from airflow_provider_chs3.core.watch.health import Health
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.trips import create_table_sql
from tests.integration import slow_merges
from tests.support.lake import PERIOD, Lake
from tests.support.merge_sensors import PART_BY_PART
from tests.support.waiting import wait_until

#: Waiting is not what is tried here.
AT_ONCE = Thresholds(settled_after_seconds=0, stuck_after_seconds=0)


@dataclass(frozen=True, kw_only=True)
class Situation:
    """One of them, on the first node."""

    made: Callable[[Lake], AbstractContextManager[None]]
    health: Health
    reason: str = "^$"
    thresholds: Thresholds = AT_ONCE


def insert(lake: Lake, node: int = 0, *, parts: int = 1, rows: int = 1) -> None:
    """Parts of the period, each of so many rows."""
    settings = {**PART_BY_PART, "max_block_size": rows, "min_insert_block_size_rows": rows}
    with lake.cluster.nodes[node].client() as client:
        client.execute(
            f"INSERT INTO {lake.database}.{lake.table} (trip_id, pickup_at, fare) "
            f"SELECT number, toDateTime('{PERIOD}-05 00:00:00'), rand() / 1000000 FROM numbers({parts * rows})",
            settings=settings,
        )


def merges(lake: Lake, verb: str) -> None:
    """`STOP` or `START` them on the first node."""
    lake.on_node(0, f"SYSTEM {verb} MERGES {lake.database}.{lake.table}")


def create(lake: Lake) -> None:
    """A table in which 100 parts are many."""
    lake.on_every_node(
        f"{create_table_sql(f'{lake.database}.{lake.table}')} "
        "SETTINGS parts_to_delay_insert = 200, parts_to_throw_insert = 1000"
    )


@contextmanager
def stopped(lake: Lake, parts: int) -> Iterator[None]:
    create(lake)
    merges(lake, "STOP")
    insert(lake, parts=parts)
    yield
    merges(lake, "START")


@contextmanager
def fresh(lake: Lake) -> Iterator[None]:
    create(lake)
    insert(lake)
    yield


@contextmanager
def empty(lake: Lake) -> Iterator[None]:
    create(lake)
    yield


@contextmanager
def large_with_small(lake: Lake) -> Iterator[None]:
    with stopped(lake, 5):
        insert(lake, rows=100_000)
        yield


@contextmanager
def merging(lake: Lake) -> Iterator[None]:
    slow_merges.create(lake)
    slow_merges.insert(lake, 0, PERIOD, parts=200, seconds=15)
    lake.on_node(
        0,
        f"ALTER TABLE {lake.database}.{lake.table} MODIFY SETTING min_parts_to_merge_at_once = 0, "
        "parts_to_delay_insert = 300",
    )
    wait_until(lambda: slow_merges.merging(lake)[0])
    time.sleep(0.5)
    yield


@contextmanager
def mutation_failed(lake: Lake) -> Iterator[None]:
    create(lake)
    insert(lake)
    with _mutation(lake, "DELETE WHERE throwIf(trip_id >= 0, 'no good')"):
        failed = f"SELECT 1 FROM system.mutations WHERE database = '{lake.database}' AND latest_fail_reason != ''"
        wait_until(lambda: lake.on_node(0, failed))
        yield


@contextmanager
def mutation_waits(lake: Lake) -> Iterator[None]:
    with stopped(lake, 1), _mutation(lake, "DELETE WHERE trip_id = 7"):
        yield


@contextmanager
def _mutation(lake: Lake, command: str) -> Iterator[None]:
    lake.on_node(0, f"ALTER TABLE {lake.database}.{lake.table} {command} SETTINGS mutations_sync = 0")
    yield
    lake.on_node(0, f"KILL MUTATION WHERE database = '{lake.database}' SYNC")


@contextmanager
def broken(lake: Lake) -> Iterator[None]:
    create(lake)
    insert(lake)
    sql = f"SELECT path FROM system.parts WHERE active AND database = '{lake.database}' AND table = '{lake.table}'"
    ((path,),) = lake.on_node(0, sql)
    cluster = lake.cluster
    assert isinstance(cluster, ClickHouseCluster)
    cluster.kill(0)
    (Path(path) / "columns.txt").write_text("no columns")
    cluster.restart(0)
    yield


@contextmanager
def disk_full(lake: Lake) -> Iterator[None]:
    # Parts of about 0.7 MiB.
    create(lake)
    merges(lake, "STOP")
    insert(lake, parts=12, rows=50_000)
    folder = lake.cluster.nodes[0].folder
    assert folder is not None
    filler = folder / "filler"
    with filler.open("wb") as file:
        file.write(bytes(shutil.disk_usage(folder).free - 1024**2))
    merges(lake, "START")
    yield
    filler.unlink()


STEADY = Thresholds()
ON_THE_CLUSTER = {
    "a period without parts": Situation(made=empty, health=Health.HEALTHY),
    "one fresh part": Situation(made=fresh, health=Health.HEALTHY),
    "one large part with five tiny ones that nothing merges": Situation(made=large_with_small, health=Health.HEALTHY),
    "two hundred parts that are merged": Situation(
        made=merging, health=Health.SETTLING, reason=r"^merging, \d+%.* done.*, .*about \d+ s left$"
    ),
    "two hundred parts, merges stopped a moment ago": Situation(
        made=lambda lake: stopped(lake, 200), health=Health.SETTLING, reason="which may be a pause", thresholds=STEADY
    ),
    "two hundred parts, merges stopped for ten minutes": Situation(
        made=lambda lake: stopped(lake, 200), health=Health.STUCK, reason="SYSTEM START MERGES"
    ),
    "a dozen parts that nothing merges": Situation(
        made=lambda lake: stopped(lake, 12), health=Health.SETTLED_WITH_TOO_MANY_PARTS, reason="OPTIMIZE TABLE"
    ),
    "a mutation that failed": Situation(made=mutation_failed, health=Health.STUCK, reason="failed: .*no good"),
    "a mutation that waits, merges stopped a moment ago": Situation(
        made=mutation_waits, health=Health.SETTLING, reason="may be a pause", thresholds=STEADY
    ),
}
ON_A_CLUSTER_OF_ITS_OWN = {
    "a broken part, found when the server started": Situation(
        made=broken, health=Health.STUCK, reason="^rows are missing.*broken-on-start_202610_1_1_0"
    ),
    "a disk without room for the smallest merge": Situation(made=disk_full, health=Health.STUCK, reason="^disk full"),
}
