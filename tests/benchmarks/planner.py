"""A worker that plans: run as `tests.benchmarks.forked.Forked` does, with its requests counted."""

from __future__ import annotations

import http.client
import time
from dataclasses import dataclass
from typing import Any

from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The plan, over all periods."""

    bucket: str
    key: str
    table: str
    s3_port: int


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The outcome."""

    periods: int
    requests: int
    began_at: float
    ended_at: float


def plan(given: Plan) -> Planned:
    """Plan all periods once."""
    requests, began_at, put_request = [], time.time(), http.client.HTTPConnection.putrequest

    # Whatever speaks HTTP in Python without an event loop comes by here.
    def counted(connection: http.client.HTTPConnection, *args: Any, **kwargs: Any) -> None:
        if connection.port == given.s3_port:
            requests.append(args)
        put_request(connection, *args, **kwargs)

    http.client.HTTPConnection.putrequest = counted
    operator = PlanLoadsOperator(
        task_id="plan", bucket=given.bucket, key=given.key, table=given.table, all_periods=True
    )
    periods = operator.execute({})
    return Planned(periods=len(periods), requests=len(requests), began_at=began_at, ended_at=time.time())
