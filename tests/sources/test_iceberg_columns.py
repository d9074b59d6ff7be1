"""Columns of Iceberg that files have under other names than the table: refused, or loaded by the name in files."""

from __future__ import annotations

import re
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.testbed.trips import Trips
from tests.sources.lakehouses import known_types
from tests.sources.table_lake import TableLake
from tests.sources.trips_target import PERIOD

pytestmark = pytest.mark.parametrize("table_lake", ["iceberg"], indirect=True)
TRIPS = Trips(rows_per_period=2_000)
WRITTEN_OTHERWISE = "was written when the table had other columns"
SELECT = {name: name for name in ("trip_id", "pickup_at", "nested")}
#: Each kind of nesting: its value, its type in ClickHouse, and where the fields x and y are in the table.
_NESTED = {
    "list of structs": ([{"x": 1, "y": 2}], "Array({})", ("element",)),
    "map of structs": ([("k", {"x": 1, "y": 2})], "Map(String, {})", ("value",)),
    "map of lists of structs": ([("k", [{"x": 1, "y": 2}])], "Map(String, Array({}))", ("value", "element")),
}


@pytest.mark.thorough(but=1, first=1)
@pytest.mark.parametrize("within", list(_NESTED))
@pytest.mark.parametrize("change", ["swap", "drop and add"])
def test_fields_within_lists_and_maps_are_refused_in_old_files_too(
    table_lake: TableLake, within: str, change: str
) -> None:
    path = _put_nested(table_lake, within)
    _alter_fields(table_lake.table.table(), path, change)
    wrong = re.escape(repr(".".join((*path, "x"))))
    with pytest.raises(AirflowFailException, match=f"{WRITTEN_OTHERWISE}: {wrong}"):
        table_lake.load(select=SELECT)
    assert table_lake.rows() == 0


@pytest.mark.thorough
def test_fields_within_lists_and_maps_are_loaded_where_ids_and_names_agree(table_lake: TableLake) -> None:
    _put_nested(table_lake, "map of lists of structs")
    _rename_and_back(table_lake.table.table())
    table_lake.load(select=SELECT)
    # The driver cannot read the type.
    counts = table_lake.on_every_node(f"SELECT toString(nested), count() FROM {table_lake.database}.trips GROUP BY 1")
    found = [row for rows in counts for row in rows]
    assert {value for value, _ in found} == {"{'k':[(1,2)]}"}
    assert sum(rows for _, rows in found) == TRIPS.rows_per_period


@pytest.mark.thorough
def test_a_column_that_files_call_otherwise_is_selected_by_that_name(table_lake: TableLake) -> None:
    database = table_lake.database
    table_lake.on_every_node(f"ALTER TABLE {database}.trips ADD COLUMN `a b` Int64")
    rows = known_types(TRIPS.table(PERIOD))
    rows = rows.append_column("a b", rows["trip_id"])
    table = table_lake.table.table(rows.schema)
    table.append(rows)
    _rename_and_back(table)
    table_lake.load(select={"trip_id": "trip_id", "pickup_at": "pickup_at", "a b": "a_x20b"})
    counts = table_lake.on_every_node(f"SELECT count(), countIf(`a b` = trip_id) FROM {database}.trips")
    assert [sum(column) for column in zip(*(row for (row,) in counts), strict=True)] == [2_000, 2_000]


def _rename_and_back(table: Any) -> None:
    """Have footers read: names that changed may say something else than ids."""
    for old, new in (("vendor", "seller"), ("seller", "vendor")):
        with table.update_schema() as change:
            change.rename_column(old, new)


def _put_nested(lake: TableLake, within: str) -> tuple[str, ...]:
    """Put rows with a further column, `nested`, into both tables, and return the path of its structs."""
    import pyarrow as pa

    value, kind, path = _NESTED[within]
    struct: Any = pa.struct([("x", pa.int64()), ("y", pa.int64())])
    for each in reversed(path):
        struct = pa.list_(struct) if each == "element" else pa.map_(pa.string(), struct)
    fields = kind.format("Tuple(x Nullable(Int64), y Nullable(Int64))")
    lake.on_every_node(f"ALTER TABLE {lake.database}.trips ADD COLUMN nested {fields}")
    rows = known_types(TRIPS.table(PERIOD))
    rows = rows.append_column("nested", pa.array([value] * len(rows), struct))
    lake.table.table(rows.schema).append(rows)
    return ("nested", *path)


def _alter_fields(table: Any, path: tuple[str, ...], change: str) -> None:
    """Have ids of fields x and y say something else than their names do in files."""
    from pyiceberg.types import LongType

    if change == "swap":
        for old, new in (("x", "other"), ("y", "x"), ("other", "y")):
            with table.update_schema() as schema:
                schema.rename_column((*path, old), new)
        return
    with table.update_schema() as schema:
        schema.delete_column((*path, "x"))
    with table.update_schema() as schema:
        schema.add_column((*path, "x"), LongType())
