"""Rows that somebody inserts are never undone without being asked, however much they look like what a crash leaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.exceptions import ClickHouseConnectionError
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.support.lake import PERIOD, Lake, lake_on
from tests.support.narrow_user import WITH_NARROW_USER
from tests.support.strikes import Strikes

CHANGED = "the partition was changed since it was published"
#: The tables: engine, columns beside the time, sorting key.
TABLES = {
    "MergeTree": ("MergeTree", "id UInt32, n UInt64", "id"),
    "ReplacingMergeTree": ("ReplacingMergeTree", "id UInt32, n UInt64", "id"),
    "SummingMergeTree": ("SummingMergeTree", "id UInt32, n UInt64", "id"),
    "one row a period": ("SummingMergeTree", "id UInt32, n UInt64", "tuple()"),
}
ROWS = 20


class Ids:
    """A table, and a file with as many rows each time."""

    def __init__(self, lake: Lake, of: str, key: str) -> None:
        self.lake, self.name = lake, f"{lake.database}.{lake.table}"
        self.period = {} if key else {"period": "all", "key": f"trips/{PERIOD}/"}
        self.rows = 1 if of.startswith("one row") else ROWS
        engine, columns, order_by = TABLES[of]
        lake.on_every_node(
            f"CREATE TABLE {self.name} (at DateTime('UTC'), {columns}) ENGINE = {engine} "
            f"{key and f'PARTITION BY {key}'} ORDER BY {order_by}"
        )

    def put(self, first: int) -> None:
        lines = (f"{PERIOD}-05 12:00:00,{first + number},1\n" for number in range(self.rows))
        self.lake.put(f"trips/{PERIOD}/a.csv", ("at,id,n\n" + "".join(lines)).encode())

    def insert(self, first: int, *, parts: int = 1) -> None:
        """Insert as many rows as a file has; several parts have them together."""
        for begin in range(0, self.rows, max(self.rows // parts, 1)):
            self.lake.on_node(
                0,
                f"INSERT INTO {self.name} SELECT '{PERIOD}-06', {first} + number, 1 "
                f"FROM numbers({begin}, {max(self.rows // parts, 1)})",
            )

    def merge(self) -> None:
        self.lake.on_node(0, f"OPTIMIZE TABLE {self.name} FINAL")

    def found(self) -> list[Any]:
        return self.lake.on_node(0, f"SELECT * FROM {self.name} ORDER BY ALL")

    def load(self, **options: Any) -> str:
        return str(
            self.lake.load(file_format="CSVWithNames", reload_whole_table=True, **self.period, **options)["status"]
        )

    def assert_refused(self) -> None:
        """A load with defaults stops and changes nothing; one that may replace the rows publishes."""
        before = self.found()
        with pytest.raises(AirflowFailException, match=CHANGED):
            self.load()
        assert self.found() == before
        assert self.load(on_target_changed="reload") == "published"
        assert self.load() == "unchanged"


@pytest.fixture(params=["month", "tenants", "whole"])
def key(request: pytest.FixtureRequest) -> str:
    return {"month": "toYYYYMM(at)", "tenants": "(id % 3, toYYYYMM(at))", "whole": ""}[request.param]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("is_merged", [True, False], ids=["merged", "not merged"])
@pytest.mark.parametrize("of", TABLES)
def test_as_many_rows_as_were_replaced(lake: Lake, of: str, key: str, is_merged: bool) -> None:
    """After two loads; objects that change later do not matter."""
    if of == "one row a period" and key.startswith("("):
        pytest.skip("a sum over all tenants has none")
    table = Ids(lake, of, key)
    for first in (0, 100):
        table.put(first)
        assert table.load() == "published"
    table.insert(500)
    if is_merged:
        table.merge()
    table.assert_refused()
    table.insert(500)
    table.put(700)
    table.assert_refused()


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("of", TABLES)
@pytest.mark.parametrize("is_first", [True, False], ids=["never loaded", "loaded before"])
def test_as_many_rows_as_were_staged_by_a_load_that_died(lake: Lake, strikes: Strikes, of: str, is_first: bool) -> None:
    """Between its intent and REPLACE PARTITION, or right after it: merges hide whose rows they joined."""
    table = Ids(lake, of, "toYYYYMM(at)")
    table.put(0)
    if not is_first:
        table.load()
        table.put(100)

    def die() -> None:
        raise KeyboardInterrupt

    strikes.before("Publish", die)
    with pytest.raises(KeyboardInterrupt):
        table.load()
    strikes.reset()
    table.insert(500, parts=2)
    table.merge()
    table.assert_refused()


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[ClickHouseCluster]:
    """A node that may be restarted."""
    with ClickHouseCluster.start(1, **WITH_NARROW_USER) as cluster:
        yield cluster


@pytest.mark.thorough
@pytest.mark.parametrize("of", ["MergeTree", "ReplacingMergeTree"])
def test_blocks_of_a_dropped_partition_that_are_used_again(
    own_cluster: ClickHouseCluster, chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch, of: str
) -> None:
    with lake_on(own_cluster, chs3_s3, chs3_bucket, monkeypatch) as lake:
        table = Ids(lake, of, "toYYYYMM(at)")
        for first in (0, 100):
            table.put(first)
            table.load()
        lake.on_node(0, f"ALTER TABLE {table.name} DROP PARTITION ID '202610'")
        own_cluster.restart(0)
        for first in (500, 600):
            table.insert(first)
        table.merge()
        table.assert_refused()


@pytest.mark.thorough
@pytest.mark.parametrize("is_merged", [False, True], ids=["as they were", "merged"])
def test_what_a_killed_server_shows_twice_heals_by_itself(
    own_cluster: ClickHouseCluster,
    chs3_s3: Any,
    chs3_bucket: str,
    monkeypatch: pytest.MonkeyPatch,
    strikes: Strikes,
    is_merged: bool,
) -> None:
    """Before 26.6, both versions, also once merges have joined them."""
    with lake_on(own_cluster, chs3_s3, chs3_bucket, monkeypatch) as lake:
        table = Ids(lake, "MergeTree", "toYYYYMM(at)")
        table.put(0)
        table.load()
        table.put(100)
        strikes.after("Publish", lambda: own_cluster.kill(0))
        with pytest.raises(ClickHouseConnectionError):
            table.load()
        strikes.reset()
        own_cluster.restart(0)
        is_twice = len(table.found()) == 2 * ROWS
        if is_merged:
            table.merge()
        assert table.load() == "published"
        assert [number for _, number, _ in table.found()] == [*range(100, 100 + ROWS)]
        assert table.load() == "unchanged"
        version = lake.on_node(0, "SELECT version()")[0][0]
        assert is_twice == (tuple(map(int, version.split(".")[:2])) < (26, 6))
