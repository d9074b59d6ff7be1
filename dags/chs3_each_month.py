"""Tasks that follow a load, only for the months that it published.

`chs3_nightly` emits an event of the asset `chs3_trips` for each of them, once its merges have settled. From Airflow 3.3
on each event starts a run of its own, whose partition key is the month; with older versions one run has all months that
were published since the last one. What it does is mapped over the months, which is right for both: here, it compares
the table's rows with the number that the load reported.

It needs the connection `chs3_default` (ClickHouse).
"""

from __future__ import annotations

from datetime import datetime

from airflow.providers.common.sql.operators.sql import SQLValueCheckOperator
from airflow.sdk import DAG, Asset, Param, task

from airflow_provider_chs3.assets import each_month, emitted_periods

with DAG(
    dag_id="chs3_each_month",
    description="For each month of trips that was loaded",
    schedule=each_month(Asset("chs3_trips")),
    start_date=datetime(2026, 1, 1),
    catchup=False,
    doc_md=__doc__,
    params={
        "database": Param("taxi", type="string"),
        "table": Param("trips_all", type="string", description="MergeTree, or a Distributed table over it"),
    },
):

    @task
    def months(**context) -> list[dict]:
        table = "{database}.{table}".format(**context["params"])
        return [
            {
                "sql": f"SELECT count() FROM {table} WHERE formatDateTime(pickup_at, '%Y-%m') = '{event['period']}'",
                "pass_value": event["rows"],
            }
            for event in emitted_periods(context)
        ]

    # Any operator of the common-sql provider runs on a connection of type chs3.
    SQLValueCheckOperator.partial(task_id="rows", conn_id="chs3_default").expand_kwargs(months())
