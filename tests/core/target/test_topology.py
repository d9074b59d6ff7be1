"""Which local table, cluster and sharding key a Distributed table stands for."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.target.topology import TableLocation, TableRequest, check_distribution, resolve_table
from airflow_provider_chs3.exceptions import PreflightError
from tests.support.driving import drive

TARGET = TableName("db", "all")


def found(arguments: str, engine: str = "Distributed"):
    return drive(
        resolve_table(TableRequest(target=TARGET, cluster=None, default_cluster="c")),
        [([(engine, arguments)], [("c", 1, 1, "ch-1", 9000)])],
    ).result


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ("Distributed('c', 'db', 't')", ""),
        ("Distributed('c', 'db', 't') SETTINGS fsync_after_insert = 1", ""),
        ("Distributed('c', 'db', 't', rand())", "rand()"),
        ("Distributed('c', 'db', 't', cityHash64(a, b), 'policy') SETTINGS x = 1", "cityHash64(a, b)"),
        (r"Distributed('c', 'db', 't', hash(a, '),(\'') + `b,)`, 'policy')", r"hash(a, '),(\'') + `b,)`"),
        ("Distributed('c', 'db', 't', arrayElement([1, 2], a))", "arrayElement([1, 2], a)"),
    ],
)
def test_a_sharding_key_is_taken_as_the_server_wrote_it(arguments: str, key: str):
    place = found(arguments)
    assert (place.target, place.sharding_key) == (TableName("db", "t"), key)


def test_a_local_table_has_none():
    place = found("MergeTree ORDER BY a", engine="MergeTree")
    assert (place.target, place.sharding_key) == (TARGET, None)


REPLICAS = [Node(1, replica, f"ch-{replica}", 9000) for replica in (1, 2)]


class TestAShardingKey:
    def check(self, nodes: list[Node], *answers: list[tuple[int]]) -> None:
        place = TableLocation(cluster="c", target=TARGET, ledger=TARGET, nodes=tuple(nodes), sharding_key="rand()")
        drive(check_distribution(place, distribution="sharding_key", target=TARGET), *answers)

    def test_writes_each_row_once_where_replicas_replicate(self):
        self.check(REPLICAS, [(1,)])

    def test_is_refused_where_each_replica_would_be_written_to(self):
        with pytest.raises(PreflightError, match="internal_replication = false"):
            self.check(REPLICAS, [(0,)])

    def test_asks_nothing_of_a_cluster_without_replicas(self):
        self.check([Node(shard, 1, f"ch-{shard}", 9000) for shard in (1, 2)])
