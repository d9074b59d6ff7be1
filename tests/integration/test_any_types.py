"""Columns of any type (Variant, Dynamic, JSON) hold what the file says, and text that looks like something else."""

from __future__ import annotations

import json

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from tests.integration.lake import Lake
from tests.integration.valued import AT, create, loaded


def test_what_stands_for_null_in_csv_is_no_text_of_a_variant(lake: Lake) -> None:
    create(lake, "v Variant(Int64, String)")
    body = f"ts,v\n{AT},1\n{AT},\\N\n{AT},x\n".encode()
    assert sorted(loaded(lake, "a.csv", body, "if(isNull(v), 'NULL', toString(v))")) == ["1", "NULL", "x"]


def test_an_empty_text_is_no_number_of_a_variant(lake: Lake) -> None:
    create(lake, "v Variant(Int64, String)")
    assert loaded(lake, "a.csv", f'ts,v\n{AT},""\n'.encode(), "toString(variantType(v))") == ["String"]


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


def test_values_of_json_in_a_variant(lake: Lake) -> None:
    create(lake, "v Variant(Int64, String)")
    values = ["", "\\N", 5, 1.5, None, [1, 2]]
    body = "".join(json.dumps({"ts": AT, "v": value}) + "\n" for value in values)
    found = loaded(lake, "a.jsonl", body.encode(), "(toString(variantType(v)), if(isNull(v), '', toString(v)))")
    texts = [("String", text) for text in ("", "\\N", "1.5", "[1, 2]")]
    assert sorted(found) == sorted([*texts, ("Int64", "5"), ("None", "")])


def test_a_date_that_is_none_is_refused_in_a_variant(lake: Lake) -> None:
    create(lake, "v Variant(Date, UInt8)")
    assert loaded(lake, "a.jsonl", f'{{"ts":"{AT}","v":"2024-02-29"}}\n'.encode(), "toString(v)") == ["2024-02-29"]
    with pytest.raises(AirflowFailException, match="Column 'v'"):
        loaded(lake, "a.jsonl", f'{{"ts":"{AT}","v":"2024-02-31"}}\n'.encode(), "toString(v)")


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


def test_text_stays_text_in_dynamic_and_json_columns_of_json(lake: Lake) -> None:
    create(lake, "v Dynamic, j JSON")
    texts = ["2024-02-31", "2024-1-1", "2024-05-01T10:00:00Z", "2024-05-01 25:00:00"]
    lines = [{"ts": AT, "v": text, "j": {"a": text, "l": [text]}} for text in texts]
    body = "".join(json.dumps(line) + "\n" for line in lines).encode()
    found = loaded(lake, "a.jsonl", body, "(toString(v), toString(j.a), toString(j.l))")
    assert sorted(found) == sorted((text, text, f"['{text}']") for text in texts)
