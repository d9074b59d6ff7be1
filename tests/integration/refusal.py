"""What tests of bad input share."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from tests.integration.lake import Lake


def parquet(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def refused(lake: Lake, match: str, **options: Any) -> None:
    """The load stops with one error, and nothing was written to the target."""
    with pytest.raises(AirflowFailException, match=match):
        lake.load(**options)
    assert lake.left_behind() == []
    exists = lake.on_node(0, f"EXISTS {lake.database}.{lake.table}")[0][0]
    assert not exists or lake.on_node(0, f"SELECT count() FROM {lake.database}.{lake.table}") == [(0,)]
