"""Tasks about the ledger of a lake."""

from __future__ import annotations

from typing import Any

from airflow_provider_chs3.operators.ledger import AdoptPeriodsOperator, ForgetPeriodsOperator, ListLedgerOperator
from tests.support.arguments import grouped
from tests.support.lake import PERIOD, Lake


def where(lake: Lake) -> dict[str, Any]:
    return {"database": lake.database, "cluster": lake.cluster.name}


def adopt(lake: Lake, **options: Any) -> list[dict[str, Any]]:
    arguments = {"task_id": "adopt", "periods": [PERIOD], **lake.place}
    return AdoptPeriodsOperator(**grouped(**(arguments | options))).execute({})


def ledger(lake: Lake, **options: Any) -> list[dict[str, Any]]:
    return ListLedgerOperator(task_id="list", **lake.target, **options).execute({})


def forget(lake: Lake, *periods: str) -> list[dict[str, Any]]:
    return ForgetPeriodsOperator(task_id="forget", periods=list(periods), **lake.target).execute({})
