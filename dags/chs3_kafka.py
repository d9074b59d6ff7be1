"""Events from a Kafka topic, every hour: landed in S3 as Parquet, and from there into ClickHouse.

Each run lands the messages of its hour and loads the months that got some, also those of late messages: a month's
new objects alone, as long as nothing else of it changed.

It needs the extra `kafka`, the connections `kafka_default` (Apache Kafka), `aws_default` (S3) and
`chs3_default` (ClickHouse), and the table on every node:

    CREATE TABLE taxi.events (at DateTime64(3, 'UTC'), trip UInt64, event String, partition Int32, offset Int64)
    ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY at
"""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG, Param
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_chs3.operators.retries import retries_by_error
from airflow_provider_chs3.transfers.kafka_to_s3 import KafkaToS3Operator
from airflow_provider_chs3.transfers.scheduled_load import scheduled_load

KEY = "{{ params.prefix }}/{YYYY-MM}/"

with DAG(
    dag_id="chs3_kafka",
    description="Events of a topic, from Kafka through S3 into ClickHouse, every hour",
    schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1),
    # Otherwise no run lands the hours that are left out.
    catchup=True,
    # Two runs at a time would load the same months.
    max_active_runs=1,
    default_args=retries_by_error(),
    doc_md=__doc__,
    params={
        "topic": Param("events", type="string"),
        "bucket": Param("taxi", type="string"),
        "prefix": Param("events", type="string", description="folder of the landed objects"),
        "database": Param("taxi", type="string"),
        "table": Param("events", type="string", description="MergeTree, or a Distributed table over it"),
    },
):
    land = KafkaToS3Operator(task_id="land", topic="{{ params.topic }}", bucket="{{ params.bucket }}", key=KEY)
    load = scheduled_load(
        group_id="events",
        # An hour without messages checks its own month, which may have none yet.
        periods="{{ ti.xcom_pull('land')['periods'] | join(',') }}",
        bucket="{{ params.bucket }}",
        key=KEY,
        database="{{ params.database }}",
        table="{{ params.table }}",
        policies={"on_no_objects": "skip"},
        select={
            "at": "timestamp",
            "trip": "JSONExtractUInt(assumeNotNull(value), 'trip')",
            "event": "JSONExtractString(assumeNotNull(value), 'event')",
            "partition": "partition",
            "offset": "offset",
        },
    )
    land >> load
