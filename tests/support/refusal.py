"""Helpers of tests of bad input."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.core.load import insert
from airflow_provider_chs3.exceptions import SourceError
from tests.support.lake import Lake


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


def loaded_or_wrongly_refused(lake: Lake, matches: Mapping[str, str], **options: Any) -> dict[str, str]:
    """Insert each column of the period's file alone, in one load, and return those not refused with this error."""
    refused_alone: dict[str, str] = {}
    run = insert._run_insert

    def run_each(load: Any, step: Any) -> Any:
        plan = load.planned
        ((group, batch),) = plan.reading.batches(load.files)
        for each in group.loaded:
            one = replace(group, loaded=(each,))
            alone = replace(load, plan=replace(plan, reading=replace(plan.reading, groups=(one,))))
            query_id = f"{step.query_id}_{each.column.name}"
            sent = insert.insert_step(alone, one, batch, query_id=query_id)
            try:
                yield from run(alone, sent)
            except SourceError as error:
                refused_alone[each.column.name] = str(error)
        raise SourceError("each column was inserted alone")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(insert, "_run_insert", run_each)
        refused(lake, "each column was inserted alone", **options)
    told = {name: refused_alone.get(name, "It was loaded.") for name in matches}
    return {name: error for name, error in told.items() if not re.search(matches[name], error)}
