"""A table of one column beside id and time, and files of Arrow's values for it."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

from tests.support.lake import PERIOD, Lake


def create(lake: Lake, column: str) -> None:
    """Create the table, with `v` of this type."""
    lake.table = "unlike"
    sql = (
        f"CREATE TABLE {lake.database}.unlike (id Int64, ts DateTime('UTC'), v {column}) ENGINE = MergeTree "
        "PARTITION BY toYYYYMM(ts) ORDER BY id"
    )
    for node in lake.cluster.nodes:
        # 25.8 has times of day only for those who ask.
        with node.client(settings={"enable_time_time64_type": 1}) as client:
            client.execute(sql)


def put(lake: Lake, number: int, array: pa.Array, *, ending: str = "parquet") -> None:
    """Write a file of the period, as Parquet, ORC or Arrow."""
    times = pa.array([f"{PERIOD}-02"] * len(array)).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    ids = pa.array([number * 10 + place for place in range(len(array))], pa.int64())
    table = pa.table({"id": ids, "ts": times, "v": array})
    body = io.BytesIO()
    if ending == "parquet":
        pq.write_table(table, body)
    elif ending == "orc":
        orc.write_table(table, body)
    else:
        with pa.ipc.new_file(body, table.schema) as writer:
            writer.write_table(table)
    lake.put(f"unlike/{PERIOD}/{number}.{ending}", body.getvalue())


def values(lake: Lake) -> list[str]:
    """What `v` holds, as text, by id."""
    return [value for (value,) in lake.on_node(0, f"SELECT toString(v) FROM {lake.database}.unlike ORDER BY id")]
