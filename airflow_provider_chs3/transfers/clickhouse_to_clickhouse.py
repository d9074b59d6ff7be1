"""Load a period of rows that a SELECT makes of another ClickHouse table, exactly once."""

from __future__ import annotations

from typing import Any

from airflow_provider_chs3.operators._support.period_load_task import PeriodLoadTask
from airflow_provider_chs3.sources.clickhouse import ClickHouseRows


class ClickHouseToClickHouseOperator(PeriodLoadTask):
    """Make a period's partition hold exactly the rows that a SELECT makes of that period of another table, its base.

    It does what `S3ToClickHouseOperator` does and takes the same arguments, except those about files; these are in
    place of `key`, `bucket` and the credentials for S3. A period whose base has not changed is not loaded again. For a
    nightly load of the periods that changed, see `scheduled_load` with `objects=ClickHouseRows(…)`.

    Args:
        sql: A SELECT over the base, or a file of the DAG folder that ends in `.sql`. Each shard runs it
            over its own rows.
        from_table: The base, a local MergeTree table, partitioned as `table` or by shorter periods: `trips`, or
            `taxi.trips`. Without a database, it is that of `table`.
        view: In place of both, a materialized view: its SELECT, over the table that it is on.

    Returns:
        As `S3ToClickHouseOperator`.
    """

    template_ext = (".sql",)

    def __init__(
        self, *, sql: str | None = None, from_table: str | None = None, view: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(objects=ClickHouseRows(sql=sql, from_table=from_table, view=view), **kwargs)
