"""Tasks that merge a lake."""

from __future__ import annotations

from typing import Any

from airflow_provider_chs3.operators.optimize import OptimizePartitionOperator
from tests.support.lake import Lake

JUNE, JULY, AUGUST = "2025-06", "2025-07", "2025-08"


def operator(lake: Lake, **options: Any) -> OptimizePartitionOperator:
    arguments = {"task_id": "optimize", "poll_interval_seconds": 0.2, "deferrable": False, **lake.target}
    return OptimizePartitionOperator(**(arguments | options))


def optimize(lake: Lake, **options: Any) -> dict[str, Any]:
    return operator(lake, **options).execute({})
