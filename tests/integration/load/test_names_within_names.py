"""Columns whose names begin with the name of another: `log` and `log.x`."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from tests.integration.valued import AT, PREFIX, arrow, create, loaded, no_orc, orc, parquet, values
from tests.support.lake import Lake
from tests.support.refusal import refused

TEXTS = "log Nullable(String), `log.x` Nullable(String)"
OBJECT = {"log": {"x": "i", "y": 2}}
WHOLE = '{"x":"i","y":2}'
INSIDE = (
    r"'log\.x': row 1 of .*a\.jsonl has 'log\.x' inside the object 'log', which this load reads as a whole: .*select="
)


def lines(*rows: dict[str, Any]) -> bytes:
    return "".join(json.dumps({"ts": AT, **row}, separators=(",", ":")) + "\n" for row in rows).encode()


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("columns", "row", "expected"),
    [
        (TEXTS, {"log": "t", "log.x": "f"}, ("t", "f")),
        (TEXTS, {"log": None, "log.x": "f"}, (None, "f")),
        ("log Nullable(String), `log.z` Nullable(String)", OBJECT, (WHOLE, None)),
        ("log String, `log.z` String DEFAULT 'no'", OBJECT | {"log.z": "f"}, (WHOLE, "f")),
        ("log Dynamic, `log.z` Nullable(String)", OBJECT, ("('i',2)", None)),
        ("log JSON, `log.z` Nullable(String)", OBJECT, ('{"x":"i","y":2}', None)),
        ("log Map(String, String), `log.z` Nullable(String)", OBJECT, ("{'x':'i','y':'2'}", None)),
        ("`log.x` String, `log.y` Int8", OBJECT, ("i", "2")),
    ],
)
def test_keys_of_json_are_read_by_their_whole_names(
    lake: Lake, columns: str, row: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    create(lake, columns)
    names = [each.split()[0] for each in columns.replace("String, String", "").split(", ")]
    assert loaded(lake, "a.jsonl", lines(row), f"tuple({', '.join(f'toString({name})' for name in names)})") == [
        expected
    ]


@pytest.mark.thorough
@pytest.mark.parametrize("log", ["Nullable(String)", "String", "Dynamic", "JSON", "Map(String, String)"])
def test_a_key_inside_an_object_that_is_read_as_a_whole_is_refused(lake: Lake, log: str) -> None:
    create(lake, f"log {log}, `log.x` Nullable(String)")
    lake.put(f"{PREFIX}a.jsonl", lines(OBJECT))
    refused(lake, INSIDE)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "row", [{"log": {"x": {"y": "i"}, "z": 5}}, {"log.x": {"y": "i"}, "log.z": 5}, {"log": {"x.y": "i"}, "log.z": 5}]
)
def test_a_key_two_objects_deep_is_no_null(lake: Lake, row: dict[str, Any]) -> None:
    create(lake, "`log.x.y` Nullable(String), `log.z` Nullable(Int8)")
    expression, names = "(`log.x.y`, `log.z`)", {"ts": "ts", "log.x.y": "`log.x.y`", "log.z": "`log.z`"}
    assert loaded(lake, "a.jsonl", lines({"log.x.y": "f", "log.z": 5}), expression) == [("f", 5)]
    told = r"'log\.x\.y': row {} of .*\.jsonl has 'log\.x\.y' inside"
    lake.put(f"{PREFIX}a.jsonl", lines({"log.x.y": "f", "log.z": 5}, row))
    with pytest.raises(AirflowFailException, match=told.format(2)):
        lake.load(select=names)
    lake.put(f"{PREFIX}a.jsonl", lines(row))
    with pytest.raises(AirflowFailException, match=told.format(1)) as error:
        lake.load()
    advised = re.search(r"select=\{…, ('log.x.y': .*)\} \(1 such", str(error.value))
    assert advised
    z = "JSONExtract(log, 'z', 'Nullable(Int8)')" if "z" in row.get("log", {}) else "`log.z`"
    lake.load(select=names | {"log.z": z} | ast.literal_eval(f"{{{advised[1]}}}"))
    assert values(lake, expression) == [("i", 5)]


@pytest.mark.thorough
def test_the_advice_reads_both(lake: Lake) -> None:
    create(lake, TEXTS)
    lake.put(f"{PREFIX}a.jsonl", lines(OBJECT))
    with pytest.raises(AirflowFailException) as error:
        lake.load()
    advised = re.search(r"select=\{…, ('log.x': .*)\} \(1 such", str(error.value))
    assert advised
    lake.load(select=ast.literal_eval(f"{{'ts': 'ts', 'log': 'log', {advised[1]}}}"))
    assert values(lake, "(log, `log.x`)") == [(WHOLE, "i")]


@pytest.mark.thorough
def test_a_tuple_shows_no_other_keys(lake: Lake) -> None:
    create(lake, "log Tuple(x String), `log.y` Nullable(Int8)")
    lake.put(f"{PREFIX}a.jsonl", lines(OBJECT))
    refused(lake, r"Columns 'log' and 'log\.y' cannot both be loaded: 'log' reads the object .*, where 'y' may be")


@pytest.mark.thorough
@pytest.mark.parametrize(
    "rows", [[{"log": "t", "log.x": "f"}, {"log": {"x": "i"}}], [{"log.x": "f"}, {"log": {"x": "i"}}]]
)
def test_in_select_a_name_is_a_whole_key(lake: Lake, rows: list[dict[str, Any]]) -> None:
    create(lake, "v Nullable(String)")
    select = {"ts": "ts", "v": "`log.x`"}
    assert loaded(lake, "a.jsonl", lines(*rows[:1]), "v", select=select) == ["f"]
    lake.put(f"{PREFIX}a.jsonl", lines(*rows))
    with pytest.raises(AirflowFailException, match=r"'v': row 2 of .*a\.jsonl has 'log\.x' inside the object 'log'"):
        lake.load(select=select)
    assert values(lake, "v") == ["f"]


STRUCT = pa.array([{"x": "i", "y": "j"}])


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("ending", "body"),
    [
        ("parquet", parquet(log=STRUCT, **{"log.x": pa.array(["f"])})),
        pytest.param("orc", orc(log=pa.array(["t"]), **{"log.x": pa.array(["f"])}), marks=no_orc),
    ],
)
@pytest.mark.parametrize("column", ["log", "log.x"])
def test_columns_that_a_server_takes_for_fields_are_refused(lake: Lake, ending: str, body: bytes, column: str) -> None:
    create(lake, f"`{column}` Nullable(String)")
    lake.put(f"{PREFIX}a.{ending}", body)
    refused(lake, rf"Columns 'log' and 'log\.x' in .*a\.{ending} cannot be told apart", columns=["ts", column])
    assert lake.load(columns=["ts"])["rows"] == 1


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("ending", "body"),
    [
        ("csv", f"ts,log.x,log\n{AT},f,t\n".encode()),
        ("parquet", parquet(**{"log": pa.array(["t"]), "log.x": pa.array(["f"])})),
        ("arrow", arrow(**{"log": pa.array(["t"]), "log.x": pa.array(["f"])})),
    ],
)
def test_other_formats_keep_names_apart(lake: Lake, ending: str, body: bytes) -> None:
    create(lake, TEXTS)
    for options in ({}, {"select": {name: f"`{name}`" for name in ("ts", "log", "log.x")}}):
        assert loaded(lake, f"a.{ending}", body, "(log, `log.x`)", **options) == [("t", "f")]
