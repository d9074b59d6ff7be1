"""How a cluster is looked at: in a few statements, and past nodes that are down."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_chs3.core.model.models import Node, TableName
from airflow_provider_chs3.core.steps.operations import Step, TryQueryNodes
from airflow_provider_chs3.core.target.node_capacity import Limits
from airflow_provider_chs3.core.target.node_facts import RecordTable
from airflow_provider_chs3.core.target.topology import LEDGER_TABLE, LOADS_TABLE
from airflow_provider_chs3.exceptions import ClickHouseConnectionError
from airflow_provider_chs3.plugin.observation.periods_facts import look_at_all_tables
from tests.support.driving import Driven, drive

NODES = [Node(1, 1, "a", 9000), Node(2, 1, "b", 9000)]
CLUSTERS = [("main", node.shard_num, node.replica_num, node.host, node.port) for node in NODES]
NO_RECORD = ("", "published", "", 0, 2, 0, 0, 0, 0, "", 0, "", 0, "", "d")
LIMITS = [(name, "1") for name in Limits.__slots__]


def records(tables: int, periods: int) -> list[tuple[Any, ...]]:
    loads = (0, *[""] * 5, 0, *[""] * 6, "", 0.0, 0)
    return [
        ("taxi", f"t{table}", "uuid", name, 1, 1, *NO_RECORD, *loads)
        for table in range(tables)
        for name in names(periods)
    ]


def names(periods: int) -> list[str]:
    return [f"20{10 + period // 12}-{period % 12 + 1:02}" for period in range(periods)]


def summaries(tables: int, periods: int) -> list[tuple[Any, ...]]:
    others = [(name, []) for name in names(periods)]
    return [("taxi", f"t{table}", "", others, [], 0, "", [], []) for table in range(tables)]


def circumstances(tables: int) -> tuple[Any, ...]:
    found = [("taxi", f"t{table}", "MergeTree", "MergeTree", "uuid", "default", "", 1, 1) for table in range(tables)]
    activity = ([], [], [], [], LIMITS, LIMITS, [("default", ["default"])], [("default", 10)], 0, 5, 1.0)
    return (found, [], [], [], [], [], [], *activity)


def look(tables: int, periods: int, *, down: dict[str, int] | None = None) -> Driven:
    """All answer alike; a node that is down does not answer the step of that number."""
    asked = 0

    def answer(rows: list[Any]) -> Any:
        def of(step: Step) -> dict[Node, Any]:
            nonlocal asked
            asked += 1
            assert isinstance(step, TryQueryNodes)
            error = ClickHouseConnectionError("no answer", "node:9000", "id")
            return {node: error if (down or {}).get(node.host) == asked else rows for node in step.sql}

        return of

    ledgers = [(name, "taxi", *RecordTable()) for name in (LEDGER_TABLE, LOADS_TABLE)]
    answers = [ledgers, [], [], summaries(tables, periods), [circumstances(tables)], records(tables, periods), []]
    return drive(look_at_all_tables("main"), CLUSTERS, *map(answer, answers))


@pytest.mark.parametrize(("tables", "periods"), [(1, 1), (20, 50)])
def test_the_number_of_statements_does_not_grow_with_tables_and_periods(tables: int, periods: int) -> None:
    looked = look(tables, periods)
    assert [len(step.sql) if isinstance(step, TryQueryNodes) else 1 for step in looked.steps] == [1, *([2] * 7)]
    assert [sum(map(len, node.records.values())) for node in looked.result.nodes.values()] == [tables * periods] * 2


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 6, 7])
def test_a_node_that_does_not_answer_is_left_out_and_told_of(number: int) -> None:
    seen = look(2, 3, down={"b": number}).result
    assert list(seen.nodes) == NODES[:1]
    assert list(seen.down) == NODES[1:]
    assert TableName("taxi", "t1") in seen.nodes[NODES[0]].tables
