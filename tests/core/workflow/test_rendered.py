"""Statements that are written when they are sent."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.ledger.recording import NewRecord
from airflow_provider_chs3.core.ledger.table import LedgerKey
from airflow_provider_chs3.core.sql.quoting import Sql
from airflow_provider_chs3.core.values.models import Month, Node, TableName
from airflow_provider_chs3.core.workflow.lockstep import in_lockstep
from airflow_provider_chs3.core.workflow.operations import QueryNodes, Steps
from airflow_provider_chs3.core.workflow.rendered import Rendered

ONE, TWO, THREE = (Node(number, 1, f"ch-{number}", 9000) for number in (1, 2, 3))


def test_each_node_has_its_own() -> None:
    statements = Rendered([ONE, TWO], lambda node: Sql(f"SELECT {node.shard_num}"))
    assert statements == {ONE: Sql("SELECT 1"), TWO: Sql("SELECT 2")}
    with pytest.raises(KeyError):
        statements[THREE]


def test_of_the_records_of_months_in_lockstep_only_the_first_is_also_written_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alone: list[Sql] = []
    target = TableName("db", "t")

    def recorded(month: Month) -> Steps[None]:
        key = LedgerKey(target, "uuid", month, str(month).replace("-", ""))
        new = NewRecord(ledger=TableName("db", "chs3_ledger"), event="intent", values={ONE: (key, {"rows": 1})})
        step = new.step(f"Record {month}")
        assert isinstance(step.sql, Rendered)
        render = step.sql._render
        monkeypatch.setattr(step.sql, "_render", lambda node: alone.append(render(node)) or alone[-1])
        yield from step

    steps = in_lockstep([recorded(Month(2026, number)) for number in (7, 8, 9)], name="chs3_n")
    sent = next(steps)
    assert isinstance(sent, QueryNodes)
    assert all(month in sent.sql[ONE].text for month in ("2026-07", "2026-08", "2026-09"))
    with pytest.raises(StopIteration):
        steps.send({ONE: []})
    assert all("2026-07" in each.text for each in alone), "to see what kind of statement it is"
