"""Load a period of rows that a SELECT makes of another ClickHouse table, exactly once."""

from __future__ import annotations

from airflow_provider_chs3.operators._support.period_load_task import PeriodLoadTask
from airflow_provider_chs3.sources.clickhouse import ClickHouseRows


class ClickHouseToClickHouseOperator(PeriodLoadTask, storage=ClickHouseRows):
    """Make a period's partition hold exactly the rows that a SELECT makes of that period of another table, its base.

    It does what `S3ToClickHouseOperator` does and takes the same arguments, except those about files; these are in
    place of `key`, `bucket` and the credentials for S3. A period whose base has not changed is not loaded again. For a
    nightly load of the periods that changed, see `scheduled_load` with `objects=ClickHouseRows(…)`. The SELECT may be a
    file of the DAG folder that ends in `.sql`.

    Returns:
        As `S3ToClickHouseOperator`.
    """

    template_ext = (".sql",)
