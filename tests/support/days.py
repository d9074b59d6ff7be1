"""A table of days."""

from __future__ import annotations

import logging
from typing import Any

from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.doctor.disks import check_room
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.core.target.node_facts import inspect_target
from airflow_provider_chs3.core.target.topology import TableRequest
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.operators.versions import ListVersionsOperator, RestorePeriodsOperator, UnpinPeriodsOperator
from tests.support.lake import PERIOD, Lake


class Days:
    """A table of days and values, and a file of each period that nights overwrite."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake

    def create(self, engine: str = "MergeTree", key: str = "toYYYYMM(day)") -> None:
        by = f"PARTITION BY {key}" if key else ""
        columns = "(day Date, tenant UInt8, value UInt32)"
        self.lake.on_every_node(f"CREATE TABLE {self.name} {columns} ENGINE = {engine} {by} ORDER BY value")

    @property
    def name(self) -> str:
        return f"{self.lake.database}.{self.lake.table}"

    def put(self, values: range, *, period: str = PERIOD, tenant: int = 1, name: str = "a") -> None:
        lines = "".join(f"{period}-05,{tenant},{value}\n" for value in values)
        self.lake.put(f"d/{period}/{name}.csv", f"day,tenant,value\n{lines}".encode())

    def load(self, *, keep: int = 1, **options: Any) -> Any:
        arguments = {"key": "d/{YYYY-MM}/", "file_format": "CSVWithNames", "period": PERIOD, "keep_versions": keep}
        return self.lake.operator(**(arguments | options)).execute({})

    def night(self, values: range, **options: Any) -> Any:
        self.put(values)
        return self.load(**options)

    def of(self, kind: type, **options: Any) -> Any:
        return kind(task_id="task", **self.lake.target, **({"periods": [PERIOD]} | options)).execute({})

    def restore(self, **options: Any) -> Any:
        return self.of(RestorePeriodsOperator, **options)

    def unpin(self) -> Any:
        return self.of(UnpinPeriodsOperator)

    def versions(self, **options: Any) -> Any:
        return self.of(ListVersionsOperator, **options)

    def room(self) -> str:
        """Return the doctor's text about the disks."""
        hook, target = ClickHouseHook(), TableName(self.lake.database, self.lake.table)
        request = TableRequest(target=target, cluster=self.lake.cluster.name, default_cluster=None)

        def steps() -> Steps[str]:
            context = yield from inspect_target(request)
            return (yield from check_room(context.nodes))[0].summary

        return Runner(session=hook, log=logging.getLogger(__name__)).run(steps())

    def values(self, period: str = PERIOD) -> list[int]:
        table = f"cluster('{self.lake.cluster.name}', {self.lake.database}, {self.lake.table})"
        sql = f"SELECT value FROM {table} WHERE toYYYYMM(day) = {period.replace('-', '')} ORDER BY value"
        return [value for (value,) in self.lake.on_node(0, sql)]
