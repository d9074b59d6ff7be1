"""Structs that are NULL, in columns that distinguish them from structs of NULLs."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_chs3.core.sql.quoting import literal
from tests.integration.valued import AT, PREFIX, arrow, create, loaded, orc, parquet, values
from tests.support.lake import Lake
from tests.support.refusal import refused

pytestmark = pytest.mark.newer("Tuple that can be NULL")

STRUCT = pa.struct([("a", pa.int32()), ("b", pa.string())])
WHOLE, OF_NULLS = {"a": 1, "b": "x"}, {"a": None, "b": None}
ALL = [WHOLE, None, OF_NULLS]
NULLABLE = "Nullable(Tuple(a Nullable(Int64), b Nullable(String)))"

#: Column type → Arrow's type, values of rows, and what the column shows.
CASES: dict[str, tuple[pa.DataType, list[Any], list[Any]]] = {
    NULLABLE: (STRUCT, ALL, ["(1,'x')", "(NULL,NULL)", None]),
    "Nullable(Tuple(Int64, String))": (STRUCT, ALL[:2], ["(1,'x')", None]),
    "Nullable(Tuple(Nullable(Int8), Nullable(String)))": (STRUCT, ALL, ["(1,'x')", "(NULL,NULL)", None]),
    f"Array({NULLABLE})": (pa.list_(STRUCT), [ALL, [None]], ["[(1,'x'),NULL,(NULL,NULL)]", "[NULL]"]),
    f"Map(String, {NULLABLE})": (
        pa.map_(pa.string(), STRUCT),
        [list(zip("klm", ALL, strict=True))],
        ["{'k':(1,'x'),'l':NULL,'m':(NULL,NULL)}"],
    ),
    f"Tuple(i {NULLABLE})": (
        pa.struct([("i", STRUCT)]),
        [{"i": each} for each in ALL],
        ["((1,'x'))", "((NULL,NULL))", "(NULL)"],
    ),
    f"Nullable(Tuple(i {NULLABLE}))": (
        pa.struct([("i", STRUCT)]),
        [*({"i": each} for each in ALL), None],
        ["((1,'x'))", "((NULL,NULL))", "(NULL)", None],
    ),
}


def jsonl(n: pa.Array, *, as_lists: bool) -> bytes:
    def written(value: Any) -> Any:
        if isinstance(value, list):
            return dict(value) if value and isinstance(value[0], tuple) else [*map(written, value)]
        return [*value.values()] if as_lists and value else value

    return "".join(f"{json.dumps({'ts': AT, 'n': written(each)})}\n" for each in n.to_pylist()).encode()


@pytest.mark.thorough
@pytest.mark.parametrize("ending", ["arrow", "orc", "jsonl"])
@pytest.mark.parametrize("column_type", CASES)
def test_they_are_loaded_as_they_are(lake: Lake, column_type: str, ending: str) -> None:
    of, given, shown = CASES[column_type]
    create(lake, f"n {column_type}")
    n = pa.array(given, of)
    has_names = " " in column_type.partition("Tuple(")[2].partition(",")[0]
    body = jsonl(n, as_lists=not has_names) if ending == "jsonl" else {"arrow": arrow, "orc": orc}[ending](n=n)
    assert loaded(lake, f"a.{ending}", body, "toString(n)") == shown


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    "column_type",
    [*CASES, "Dynamic", "Nullable(String)", "Variant(Int8, Tuple(a Nullable(Int32), b Nullable(String)))"],
)
def test_those_of_parquet_are_refused_and_others_loaded(lake: Lake, column_type: str) -> None:
    of, given, _ = CASES.get(column_type, CASES[NULLABLE])
    create(lake, f"n {column_type}")
    lake.put(PREFIX + "a.parquet", parquet(n=pa.array(given, of)))
    refused(lake, r"Column 'n' is .* has .*NULL.* Servers read a NULL struct of Parquet as a struct of NULLs")
    if of == STRUCT:
        assert loaded(lake, "a.parquet", parquet(n=pa.array([WHOLE], of)), "toString(n)") == ["(1,'x')"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        (f"CAST(n AS {NULLABLE})", ["(1,'x')", "(NULL,NULL)", "(NULL,NULL)"]),
        ("if(n.a IS NULL AND n.b IS NULL, NULL, n)", ["(1,'x')", None, None]),
    ],
)
def test_select_says_what_a_struct_of_nulls_in_parquet_is(lake: Lake, expression: str, shown: list[Any]) -> None:
    create(lake, f"n {NULLABLE}")
    lake.put(PREFIX + "a.parquet", parquet(n=pa.array(ALL, STRUCT)))
    refused(lake, "Servers read a NULL struct of Parquet", select={"ts": "ts", "n": "n"})
    lake.load(select={"ts": "ts", "n": expression})
    assert values(lake, "toString(n)") == shown


@pytest.mark.thorough
@pytest.mark.parametrize("ending", ["arrow", "orc"])
def test_where_null_cannot_be_stored_they_are_refused_or_the_default(lake: Lake, ending: str) -> None:
    create(lake, "n Tuple(a Nullable(Int64), b Nullable(String)) DEFAULT (7, 'none')")
    lake.put(f"{PREFIX}a.{ending}", {"arrow": arrow, "orc": orc}[ending](n=pa.array(ALL, STRUCT)))
    refused(lake, "Column 'n' is .*row 2 of .* has NULL.*casts={'null_as_default': True} takes the column's default")
    lake.load(null_as_default=True)
    assert values(lake, "toString(n)") == ["(1,'x')", "(7,'none')", "(NULL,NULL)"]


@pytest.mark.thorough
def test_a_key_that_a_line_of_json_lacks_is_null(lake: Lake) -> None:
    create(lake, f"n {NULLABLE}")
    assert loaded(lake, "a.jsonl", f'{{"ts": "{AT}"}}\n'.encode(), "toString(n)") == [None]


@pytest.mark.thorough
@pytest.mark.parametrize("file_format", ["CSVWithNames", "TabSeparatedWithNames"])
@pytest.mark.parametrize("column_type", [NULLABLE, f"Array({NULLABLE})"])
def test_those_of_other_texts_are_null_as_marked(lake: Lake, file_format: str, column_type: str) -> None:
    create(lake, f"n {column_type}")
    texts = ["(1,'x')", "(NULL,NULL)"]
    texts = ["[(1,'x'),NULL,(NULL,NULL)]"] if column_type.startswith("Array") else [*texts, "\\N"]
    csv = file_format.startswith("CSV")
    lines = [f'{AT},"{text}"' if csv and text != "\\N" else f"{AT}{',' if csv else chr(9)}{text}" for text in texts]
    lake.put(PREFIX + "a.txt", "\n".join([f"ts{',' if csv else chr(9)}n", *lines, ""]).encode())
    lake.load(file_format=file_format)
    assert values(lake, "toString(n)") == [None if text == "\\N" else text for text in texts]


@pytest.mark.thorough
@pytest.mark.parametrize("to", [NULLABLE, "Nullable(Tuple(b Nullable(String), a Nullable(Int8)))"])
def test_those_of_clickhouses_own_format_are_cast(lake: Lake, to: str) -> None:
    create(lake, f"n {to}")
    keys = lake.s3._request_signer._credentials
    url = f"{lake.s3.meta.endpoint_url}/{lake.bucket}/{PREFIX}a.native"
    place = f"s3({', '.join(map(literal, (url, keys.access_key, keys.secret_key, 'Native')))})"
    rows = "arrayJoin([(1, 'x'), NULL, (NULL, NULL)]::Array(Nullable(Tuple(a Nullable(Int32), b Nullable(String)))))"
    lake.on_node(0, f"INSERT INTO FUNCTION {place} SELECT toDateTime('{AT}', 'UTC') AS ts, {rows} AS n")
    lake.load(file_format="Native")
    assert values(lake, "if(n IS NULL, NULL, toString((n.a, n.b)))") == ["(1,'x')", "(NULL,NULL)", None]


@pytest.mark.thorough
@pytest.mark.parametrize("ending", ["arrow", "parquet"])
def test_a_new_table_stores_them_where_the_reader_tells_them(lake: Lake, ending: str) -> None:
    body = {"arrow": arrow, "parquet": parquet}[ending](
        n=pa.array(ALL, STRUCT), l=pa.array([ALL] * 3, pa.list_(STRUCT))
    )
    lake.put(f"{PREFIX}a.{ending}", body)
    lake.load(create_table="if_missing")
    null = "NULL" if ending == "arrow" else "(NULL,NULL)"
    assert set(values(lake, "toString(l)")) == {f"[(1,'x'),{null},(NULL,NULL)]"}
    assert values(lake, "toString(n)") == (
        ["(1,'x')", "(NULL,NULL)", None] if ending == "arrow" else ["(1,'x')", "(NULL,NULL)", "(NULL,NULL)"]
    )


@pytest.mark.thorough
def test_those_inside_of_others_may_hold_what_cannot_be_null(lake: Lake) -> None:
    create(lake, "n Nullable(Tuple(Int32, Nullable(Tuple(Date32, Decimal(9, 9)))))")
    rows = [[1, None], None, [2, ["2026-01-02", "0.5"]]]
    body = "".join(json.dumps({"ts": AT, "n": row}) + "\n" for row in rows).encode()
    lake.put(PREFIX + "a.jsonl", body + json.dumps({"ts": AT, "n": [3, ["2026-01-02", "1.5"]]}).encode())
    refused(lake, r"Column 'n' is Nullable\(Tuple.*, but row 4 of \S+a\.jsonl has .*1\.5")
    assert loaded(lake, "a.jsonl", body, "toString(n)") == ["(1,NULL)", "(2,('2026-01-02',0.5))", None]
