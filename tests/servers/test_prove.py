"""Replicas of a shard: those with the same parts are read once, and those that lag are named."""

from __future__ import annotations

import pytest

from tests.support.lake import Lake
from tests.support.proofs import prove

WHERE = {"key": "trips/{YYYY-MM}/"}


@pytest.mark.thorough
def test_a_row_counts_once_and_a_replica_that_lags_is_named(lake: Lake) -> None:
    lake.load()
    target = f"{lake.database}.{lake.table}"
    equal = prove(lake, **WHERE)
    assert (equal["status"], equal["reason"]) == ("equal", "12,000 rows")
    # A single shard may have read all files.
    row = lake.on_node(0, f"SELECT * FROM cluster('{lake.cluster.name}', {lake.database}, {lake.table}) LIMIT 1")
    with (
        lake.cluster.lagging(1, target),
        lake.cluster.nodes[0].client(settings={"insert_deduplicate": 0}) as client,
    ):
        client.execute(f"INSERT INTO {target} VALUES", row)
        lags = prove(lake, **WHERE)
    assert lags["status"] == "refused"
    assert "than on" in lags["reason"]
    assert prove(lake, **WHERE)["reason"] == "1 row more than the objects"
