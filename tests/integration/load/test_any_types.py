"""Columns of any type (Variant, Dynamic, JSON) hold what the file says, and text that looks like something else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from tests.integration.valued import AT, PREFIX, create, loaded
from tests.support.lake import Lake


@pytest.mark.thorough
def test_what_stands_for_null_in_csv_is_no_text_of_a_variant(lake: Lake) -> None:
    create(lake, "v Variant(Int64, String)")
    body = f"ts,v\n{AT},1\n{AT},\\N\n{AT},x\n".encode()
    assert sorted(loaded(lake, "a.csv", body, "if(isNull(v), 'NULL', toString(v))")) == ["1", "NULL", "x"]


@pytest.mark.thorough
def test_an_empty_text_is_no_number_of_a_variant(lake: Lake) -> None:
    create(lake, "v Variant(Int64, String)")
    assert loaded(lake, "a.csv", f'ts,v\n{AT},""\n'.encode(), "toString(variantType(v))") == ["String"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("key", "head", "line"),
    [
        ("a.csv", "ts,v\n", f'{AT},"%s"\n'),
        ("a.tsv", "ts\tv\n", f"{AT}\t%s\n"),
        ("a.jsonl", "", f'{{"ts":"{AT}","v":"%s"}}\n'),
    ],
)
def test_a_text_that_a_number_does_not_have_is_none_of_a_variant(lake: Lake, key: str, head: str, line: str) -> None:
    create(lake, "v Variant(Int64, String)")
    body = head + "".join(line % text for text in ("007", "+5", "12", "x"))
    found = loaded(lake, key, body.encode(), "(toString(variantType(v)), toString(v))")
    assert sorted(found) == [("Int64", "12"), ("String", "+5"), ("String", "007"), ("String", "x")]


@pytest.mark.thorough
def test_values_of_json_in_a_variant(lake: Lake) -> None:
    create(lake, "v Variant(Int64, String)")
    values = ["", "\\N", 5, 1.5, None, [1, 2]]
    body = "".join(json.dumps({"ts": AT, "v": value}) + "\n" for value in values)
    found = loaded(lake, "a.jsonl", body.encode(), "(toString(variantType(v)), if(isNull(v), '', toString(v)))")
    texts = [("String", text) for text in ("", "\\N", "1.5", "[1, 2]")]
    assert sorted(found) == sorted([*texts, ("Int64", "5"), ("None", "")])


@pytest.mark.thorough
def test_a_date_that_is_none_is_refused_in_a_variant(lake: Lake) -> None:
    create(lake, "v Variant(Date, UInt8)")
    assert loaded(lake, "a.jsonl", f'{{"ts":"{AT}","v":"2024-02-29"}}\n'.encode(), "toString(v)") == ["2024-02-29"]
    with pytest.raises(AirflowFailException, match="Column 'v'"):
        loaded(lake, "a.jsonl", f'{{"ts":"{AT}","v":"2024-02-31"}}\n'.encode(), "toString(v)")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("key", "head", "line"),
    [("a.csv", "ts,v\n", f"{AT},%s\n"), ("a.tsv", "ts\tv\n", f"{AT}\t%s\n")],
)
def test_text_stays_text_in_a_dynamic_column(lake: Lake, key: str, head: str, line: str) -> None:
    create(lake, "v Dynamic")
    texts = [" 1", "007", "0.12345678901234567890", "2024-02-31", "2024-05-01T10:00:00Z", "5"]
    body = head + "".join(line % text for text in [*texts, "\\N"])
    found = loaded(lake, key, body.encode(), "(dynamicType(v), toString(v))")
    assert sorted(found) == sorted([*(("String", text) for text in texts), ("None", "")])


@pytest.mark.thorough
def test_text_stays_text_in_dynamic_and_json_columns_of_json(lake: Lake) -> None:
    create(lake, "v Dynamic, j JSON")
    texts = ["2024-02-31", "2024-1-1", "2024-05-01T10:00:00Z", "2024-05-01 25:00:00"]
    lines = [{"ts": AT, "v": text, "j": {"a": text, "l": [text]}} for text in texts]
    body = "".join(json.dumps(line) + "\n" for line in lines).encode()
    found = loaded(lake, "a.jsonl", body, "(toString(v), toString(j.a), toString(j.l))")
    assert sorted(found) == sorted((text, text, f"['{text}']") for text in texts)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("column", "value", "expression", "expected"),
    [
        ("Map(String, Dynamic)", {"a": 1, "b": "x", "c": 1.5}, "mapValues(v)", [1, "x", 1.5]),
        ("Array(Dynamic)", [5, "x", 1.5, "007", True, 2**53 + 1], "v", [5, "x", 1.5, "007", True, 2**53 + 1]),
        ("Array(Array(Dynamic))", [[5], []], "arrayFlatten(v)", [5]),
        ("Tuple(d Dynamic)", {"d": 5}, "[v.d]", [5]),
        ("Map(String, Variant(Array(Int64), String))", {"a": [1], "b": "x"}, "mapValues(v)", [[1], "x"]),
    ],
)
def test_values_of_any_type_in_containers_have_the_type_of_json(
    lake: Lake, column: str, value: Any, expression: str, expected: list[Any]
) -> None:
    create(lake, f"v {column}")
    body = json.dumps({"ts": AT, "v": value}).encode()
    of_each = "dynamicType" if "Dynamic" in column else "variantType"
    types = {int: "Int64", float: "Float64", str: "String", bool: "Bool", list: "Array(Int64)"}
    shown = f"arrayMap(e -> (toString({of_each}(e)), toString(e)), {expression})"
    (found,) = loaded(lake, "a.jsonl", body, shown)
    texts = [str(each).lower() if isinstance(each, bool) else str(each) for each in expected]
    assert found == [(types[type(each)], text) for each, text in zip(expected, texts, strict=True)]


@pytest.mark.thorough
@pytest.mark.parametrize(("column", "value"), [("Array(Dynamic)", [5, None]), ("Map(String, Dynamic)", {"a": None})])
def test_null_among_values_of_any_type_is_refused(lake: Lake, column: str, value: Any) -> None:
    create(lake, f"v {column}")
    lake.put(f"{PREFIX}a.jsonl", json.dumps({"ts": AT, "v": value}).encode())
    with pytest.raises(AirflowFailException, match="ClickHouse cannot read a JSON null into a Dynamic"):
        lake.load()


@pytest.mark.thorough
def test_a_missing_container_of_values_of_any_type_is_refused(lake: Lake) -> None:
    create(lake, "v Map(String, Dynamic)")
    lake.put(
        f"{PREFIX}a.jsonl", json.dumps({"ts": AT, "w": 1}).encode() + b"\n" + json.dumps({"ts": AT, "v": {}}).encode()
    )
    with pytest.raises(AirflowFailException, match=r"Column 'v' is Map\(String, Dynamic\), but row 1 of .* has NULL"):
        lake.load()


@pytest.mark.thorough
def test_json_that_may_be_null(lake: Lake) -> None:
    create(lake, "v Nullable(JSON)")
    body = "".join(
        f"{line}\n" for line in (f'{{"ts":"{AT}","v":{{"a":1}}}}', f'{{"ts":"{AT}","v":null}}', f'{{"ts":"{AT}"}}')
    )
    assert loaded(lake, "a.jsonl", body.encode(), "ifNull(toString(v), 'NULL')") == ["NULL", "NULL", '{"a":1}']


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("column", "value", "shown"),
    [
        ("Point", [1.5, -2.25], "(1.5,-2.25)"),
        ("Ring", [[0, 0], [1.5, 0]], "[(0,0),(1.5,0)]"),
        ("Polygon", [[[0, 0], [1.5, 0]], []], "[[(0,0),(1.5,0)],[]]"),
        ("MultiPolygon", [[[[0, 0], [1.5, 0.1]]]], "[[[(0,0),(1.5,0.1)]]]"),
        ("Array(Point)", [[0.1, 0.2]], "[(0.1,0.2)]"),
    ],
)
def test_shapes_are_arrays_of_json(lake: Lake, column: str, value: list[Any], shown: str) -> None:
    create(lake, f"v {column}")
    assert loaded(lake, "a.jsonl", json.dumps({"ts": AT, "v": value}).encode(), "toString(v)") == [shown]


@pytest.mark.thorough
@pytest.mark.parametrize("value", ['["x", 1]', "[1e400, 1]", "null"])
def test_what_is_no_point_is_refused(lake: Lake, value: str) -> None:
    create(lake, "v Point")
    lake.put(f"{PREFIX}a.jsonl", f'{{"ts": "{AT}", "v": {value}}}'.encode())
    with pytest.raises(AirflowFailException, match="Column 'v' is Point, but row 1 of "):
        lake.load()
