"""Lists of structs, loaded into a Nested."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from tests.integration.valued import PREFIX, arrow, create, loaded, no_orc, orc, parquet, values
from tests.support.lake import Lake
from tests.support.refusal import refused

STRUCT = pa.struct([("x", pa.int32()), ("y", pa.string()), ("z", pa.float64())])
ROWS = [[{"x": 1, "y": "a", "z": 0.5}, {"x": 2, "y": None, "z": None}], [], [{"x": 3, "y": "c", "z": 1.0}], None]
FIELDS = "n Nested(y Nullable(String), x Int64)"
LOADED = [([], []), ([], []), ([1, 2], ["a", None]), ([3], ["c"])]


WRITERS = {"parquet": parquet, "arrow": arrow, "orc": orc}
ENDINGS = ("parquet", "arrow", pytest.param("orc", marks=no_orc))


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("ending", ENDINGS)
def test_their_fields_are_the_columns_of_the_nested(lake: Lake, ending: str) -> None:
    create(lake, FIELDS)
    body = WRITERS[ending](n=pa.array(ROWS, pa.list_(STRUCT)))
    assert loaded(lake, f"a.{ending}", body, "(n.x, n.y)") == LOADED
    assert lake.load()["status"] == "unchanged"
    lake.put(f"{PREFIX}b.{ending}", WRITERS[ending](n=pa.array([[{"x": 9}]], pa.list_(STRUCT))))
    assert lake.load()["loaded_objects"] == 1
    assert values(lake, "(n.x, n.y)") == sorted([*LOADED, ([9], [None])])


@pytest.mark.thorough
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_null_that_a_field_cannot_hold_is_refused(lake: Lake, ending: str) -> None:
    create(lake, "n Nested(x Int64, y String)")
    lake.put(f"{PREFIX}a.{ending}", WRITERS[ending](n=pa.array(ROWS, pa.list_(STRUCT))))
    refused(lake, r"Column 'n.y' is Array\(String\), but row 1 of .* has .*NULL")


@pytest.mark.thorough
def test_a_field_that_structs_lack_is_named(lake: Lake) -> None:
    create(lake, "n Nested(x Int64, other String)")
    lake.put(PREFIX + "a.parquet", parquet(n=pa.array(ROWS[:1], pa.list_(STRUCT))))
    refused(lake, r"Column 'n.other' is missing in .*a.parquet. It has 'ts', 'n.x'")


@pytest.mark.thorough
def test_files_with_columns_of_their_own_are_read_beside_them(lake: Lake) -> None:
    create(lake, FIELDS)
    lake.put(PREFIX + "a.parquet", parquet(n=pa.array(ROWS[:1], pa.list_(STRUCT))))
    own = {"n.x": pa.array([[7]], pa.list_(pa.int64())), "n.y": pa.array([["q"]], pa.list_(pa.string()))}
    assert loaded(lake, "b.parquet", parquet(**own), "(n.x, n.y)") == [([1, 2], ["a", None]), ([7], ["q"])]


@pytest.mark.thorough
@pytest.mark.parametrize("select", [None, {"ts": "ts", "n.x": "n.x", "n.y": "n.y"}])
def test_arrays_of_different_lengths_are_refused(lake: Lake, select: dict[str, str] | None) -> None:
    create(lake, FIELDS)
    own = {"n.x": pa.array([[7, 8]], pa.list_(pa.int64())), "n.y": pa.array([["q"]], pa.list_(pa.string()))}
    lake.put(PREFIX + "b.parquet", parquet(**own))
    quoted = select and {name: f"`{of}`" for name, of in select.items()}
    refused(lake, "different (array )?sizes", select=quoted)


@pytest.mark.thorough
@pytest.mark.parametrize("ending", ENDINGS)
def test_times_without_a_zone_are_refused_in_them(lake: Lake, ending: str) -> None:
    create(lake, "n Nested(at DateTime('America/New_York'))")
    noon = pa.array([[{"at": dt.datetime(2026, 10, 5, 12)}]], pa.list_(pa.struct([("at", pa.timestamp("us"))])))
    lake.put(f"{PREFIX}a.{ending}", WRITERS[ending](n=noon))
    refused(lake, "Column 'n.at' in .* has timestamps without a zone")


@pytest.mark.thorough
def test_times_of_day_and_bytes_of_uuids_are_refused_in_them(lake: Lake) -> None:
    create(lake, "n Nested(t DateTime('UTC'))")
    lake.put(PREFIX + "a.parquet", parquet(n=pa.array([[{"t": 5}]], pa.list_(pa.struct([("t", pa.time32("s"))])))))
    refused(lake, "'n.t' in .*a.parquet holds times of day")
    lake.on_every_node(f"DROP TABLE {lake.database}.trips SYNC")
    create(lake, "n Nested(u UUID)")
    u = pa.array([[{"u": bytes(range(16))}]], pa.list_(pa.struct([("u", pa.binary(16))])))
    lake.put(PREFIX + "a.parquet", parquet(n=u))
    refused(lake, "'n.u' in .*a.parquet has bytes that are not declared as UUIDs")
