"""Proofs of a lake."""

from __future__ import annotations

from typing import Any

from airflow_provider_chs3.operators.prove import ProvePeriodsOperator
from tests.support.arguments import grouped
from tests.support.lake import PERIOD, Lake


def proved(lake: Lake, **options: Any) -> list[dict[str, Any]]:
    arguments = {
        "task_id": "prove",
        **{**lake.place, "key": "fares/{YYYY-MM}/"},
        "periods": [PERIOD],
        "fail_on_difference": False,
    }
    given = arguments | options
    return ProvePeriodsOperator(**(grouped(**given) if "definition" in given else given)).execute({})


def prove(lake: Lake, **options: Any) -> dict[str, Any]:
    (found,) = proved(lake, **options)
    return found
