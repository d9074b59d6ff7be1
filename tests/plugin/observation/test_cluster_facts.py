"""How the nodes of a cluster are looked at: in two statements each, past nodes that are down."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_chs3.core.model.models import Node, NodeSpec
from airflow_provider_chs3.core.steps.operations import Step, TryQueryNodes
from airflow_provider_chs3.core.target.node_capacity import Limits
from airflow_provider_chs3.exceptions import ClickHouseConnectionError
from airflow_provider_chs3.plugin.observation.cluster import NodeOverview
from airflow_provider_chs3.plugin.observation.cluster_facts import look_at_cluster
from tests.support.driving import Driven, drive

GIB = 1024**3
NODES = [Node(1, 1, "a", 9000), Node(2, 1, "b", 9000)]
CLUSTERS = [("main", node.shard_num, node.replica_num, node.host, node.port) for node in NODES]
LIMITS = {"parts_to_delay_insert": "100", "parts_to_throw_insert": "300", "max_parts_in_total": "1000"}
SERVER = [(name, LIMITS.get(name, "1000")) for name in Limits.__slots__]
SIZE = ("26.9.2.1", 60, 8, 30 * GIB, [], ["asynchronous_metrics", "replication_queue"])


def state(**other: Any) -> tuple[Any, ...]:
    """Return the answers of a node at rest."""
    rest = {
        "machine": 32.0 * GIB,
        "in_use": 5,
        "disks": [("default", "Local", 60, 50, 100)],
        "limits": SERVER,
        "replicated_limits": [(name, "7") for name in Limits.__slots__],
        "fullest": [],
        "merges": [],
        "running": 0,
        "pool": [("BackgroundMergesAndMutationsPoolTask", 2), ("BackgroundMergesAndMutationsPoolSize", 16)],
        "replicas": [0, 0, 0],
        "queued": 0,
        "queue": [],
        "processes": [],
    }
    return tuple((rest | other).values())


def look(
    *,
    size: tuple[Any, ...] = SIZE,
    specs: dict[str, NodeSpec] | None = None,
    down: dict[str, int] | None = None,
    **told: Any,
) -> Driven:
    """Both nodes answer alike; a node that is down does not answer the step of that number."""
    asked = 0

    def answer(row: tuple[Any, ...]) -> Any:
        def of(step: Step) -> dict[Node, Any]:
            nonlocal asked
            asked += 1
            assert isinstance(step, TryQueryNodes)
            error = ClickHouseConnectionError("no answer", "node:9000", "id")
            return {node: error if (down or {}).get(node.host) == asked else [row] for node in step.sql}

        return of

    return drive(look_at_cluster("main", specs or {}), CLUSTERS, answer(size), answer(state(**told)))


def first(**options: Any) -> NodeOverview:
    return look(**options).result.nodes[NODES[0]]


def full(settings: str = "", *, engine: str = "MergeTree", parts: int = 1, in_all: int = 1, size: int = 0) -> str:
    table = ("taxi", "trips", engine, f"{engine} ORDER BY id{settings}", "202610", parts, size, in_all)
    return first(fullest=[table]).fullest[0].inserts


def test_every_node_is_asked_twice() -> None:
    assert [len(step.sql) if isinstance(step, TryQueryNodes) else 1 for step in look().steps] == [1, 2, 2]


@pytest.mark.parametrize("number", [1, 2])
def test_a_node_that_does_not_answer_is_left_out_and_told_of(number: int) -> None:
    seen = look(down={"b": number}).result
    assert (list(seen.nodes), list(seen.down)) == (NODES[:1], NODES[1:])


def test_a_declared_size_stands_beside_the_measured_one() -> None:
    node = first(specs={"a": NodeSpec(4, 8 * GIB)})
    assert str(node.size) == "4 cores, 8.0 GiB (connection's node_specs)"
    assert (node.measured, node.machine_memory_bytes) == (NodeSpec(8, 30 * GIB), 32 * GIB)


def test_more_than_the_machine_has_is_told_as_loads_will_tell_it() -> None:
    node = first(specs={"default": NodeSpec(9, GIB)})
    assert node.size is None
    assert node.size_error.startswith("Node a:9000: connection's node_specs declare 9 cores, but the machine has 8")


def test_macros_that_cannot_be_read_stop_no_look() -> None:
    assert "its macros {'cores': 'many'}" in first(size=(*SIZE[:4], [("cores", "many")], [])).size_error


def test_a_disk_tells_what_is_reserved_of_what_is_free() -> None:
    (disk,) = first().disks
    assert (disk.free_bytes, disk.reserved_bytes, disk.total_bytes) == (60, 10, 100)


def test_a_storage_without_an_end_has_no_size() -> None:
    (disk,) = first(disks=[("s3", "ObjectStorage", 2**64 - 1, 2**64 - 1, 2**64 - 1)]).disks
    assert (disk.free_bytes, disk.reserved_bytes, disk.total_bytes) == (None, None, None)


@pytest.mark.parametrize(
    ("told", "inserts"),
    [
        ({"parts": 99, "in_all": 999}, "accepted"),
        ({"parts": 100}, "delayed"),
        ({"parts": 300}, "rejected"),
        ({"parts": 300, "size": 300 * 1001}, "accepted"),
        ({"in_all": 1000}, "rejected"),
        ({"parts": 99, "settings": " SETTINGS parts_to_delay_insert = 50"}, "delayed"),
        ({"parts": 5, "in_all": 7, "engine": "ReplicatedMergeTree"}, "rejected"),
    ],
)
def test_what_becomes_of_inserts_follows_from_the_limits(told: dict[str, Any], inserts: str) -> None:
    assert full(**told) == inserts


def test_a_node_without_replicated_tables_has_no_replication() -> None:
    assert first().replication is None


def test_the_oldest_of_a_replication_queue_are_told_with_their_reasons() -> None:
    entry = ("taxi", "trips", "GET_PART", "202610_1_1_0", 90, 3, "no replica has it", "")
    replication = first(replicas=[2, 1, 40], queued=12, queue=[entry]).replication
    assert replication is not None
    assert (replication.tables, replication.readonly_tables, replication.delay_seconds) == (2, 1, 40)
    assert (replication.queued, replication.oldest[0].last_exception) == (12, "no replica has it")


@pytest.mark.parametrize(
    ("seen", "unread"), [(["replication_queue"], "asynchronous_metrics"), (SIZE[5][:1], "replication_queue")]
)
def test_what_cannot_be_read_is_told_in_place_of_made_up_entries(seen: list[str], unread: str) -> None:
    entry = ("taxi", "trips", "GET_PART", "", 0, 0, "", "")
    node = first(size=(*SIZE[:5], seen), replicas=[2, 0, 0], queued=1, queue=[entry])
    assert node.replication is not None
    assert (node.replication.queued, len(node.replication.oldest)) == (1, int("replication_queue" in seen))
    reason = "the connection's user may not read it; docs/privileges.md has the GRANT"
    assert node.unread == (f"system.{unread}: {reason}",)


def test_an_insert_is_told_once_for_all_nodes() -> None:
    process = ("chs3_a_insert1", 0, 10, 100, 7, 9, 4, 3.0)
    (insert,) = look(processes=[process]).result.inserts
    assert (insert.read_rows, insert.read_bytes, insert.memory_bytes) == (20, 200, 14)
    assert (insert.peak_memory_bytes, insert.seconds) == (9, 3.0)
