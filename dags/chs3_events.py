"""Taxi trips, minutes after their objects are in S3: events name the months to plan.

S3 sends notifications to a queue of SQS; the triggerer receives them, and each burst of them starts one run, which
plans the months of the keys. It loads those that are not as published. Notifications may get lost, as messages are
deleted when they are received: `chs3_nightly`, which looks into the bucket, is what guarantees that nothing is missed.

It needs the extra `events`, the connections `chs3_default` (ClickHouse) and `aws_default` (S3, SQS), and
the queue's URL in the environment variable `CHS3_EVENTS_QUEUE` of the DAG processor.
"""

from __future__ import annotations

import os
from datetime import datetime

from airflow.providers.common.messaging.triggers.msg_queue import MessageQueueTrigger
from airflow.sdk import DAG, Asset, AssetWatcher, Param, task

from airflow_provider_chs3.operators.retries import retries_by_error
from airflow_provider_chs3.transfers.scheduled_load import scheduled_load

QUEUE = os.environ.get("CHS3_EVENTS_QUEUE", "https://sqs.eu-central-1.amazonaws.com/123456789012/taxi")

# Messages of one reception are one event: a reception takes 50 of them, every ten seconds.
objects = Asset(
    "chs3_objects",
    watchers=[
        AssetWatcher(
            name="chs3_objects",
            trigger=MessageQueueTrigger(scheme="sqs", sqs_queue=QUEUE, max_messages=10, num_batches=5, waiter_delay=10),
        )
    ],
)

with DAG(
    dag_id="chs3_events",
    description="Taxi trips, from S3 into ClickHouse, as soon as their objects arrive",
    schedule=[objects],
    start_date=datetime(2026, 1, 1),
    catchup=False,
    # Events that come while one runs share the next run.
    max_active_runs=1,
    doc_md=__doc__,
    params={
        "bucket": Param("taxi", type="string"),
        "key": Param("trips/{YYYY-MM}/*.parquet", type="string", description="which objects belong to which month"),
        "database": Param("taxi", type="string"),
        "table": Param("trips_all", type="string", description="MergeTree, or a Distributed table over it"),
    },
):

    @task.short_circuit(inlets=[objects])
    def months(**context) -> list[str]:
        from airflow_provider_chs3.sources.s3.events import periods_of_events

        params = context["params"]
        return periods_of_events(context, objects, bucket=params["bucket"], key=params["key"])

    scheduled_load(
        group_id="trips",
        periods=months(),
        bucket="{{ params.bucket }}",
        key="{{ params.key }}",
        database="{{ params.database }}",
        table="{{ params.table }}",
        default_args=retries_by_error(),
    )
