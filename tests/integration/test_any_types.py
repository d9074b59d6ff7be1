"""Columns of any type (Variant, Dynamic, JSON) hold what the file says, and text that looks like something else."""

from __future__ import annotations

import json

import pytest

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
