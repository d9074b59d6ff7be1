"""The target's parts show who changed a period, and who did not."""

from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.testbed.trips import Trips, create_table_sql
from tests.support.lake import PERIOD, Lake

FIRST = Trips(rows_per_period=3_000, files_per_period=24)
SECOND = Trips(seed=2, rows_per_period=3_600, files_per_period=24)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("change", ["UPDATE {} SET fare = 0 WHERE 1", "DELETE FROM {} WHERE 1"])
def test_a_lightweight_update_is_a_change(lake: Lake, change: str) -> None:
    create = create_table_sql(f"{lake.database}.{lake.table}")
    lake.on_every_node(f"{create} SETTINGS enable_block_number_column = 1, enable_block_offset_column = 1")
    lake.upload(FIRST)
    lake.load()
    rows = lake.rows_per_node()
    settings = {"enable_lightweight_update": 1, "lightweight_delete_mode": "lightweight_update_force"}
    with lake.cluster.nodes[rows.index(max(rows))].client() as client:
        client.execute(change.format(f"{lake.database}.{lake.table}"), settings=settings)
    with pytest.raises(AirflowFailException, match="changed since it was published"):
        lake.load()
    assert lake.load(on_target_changed="reload")["status"] == "published"
    assert lake.facts() == FIRST.facts(PERIOD)
