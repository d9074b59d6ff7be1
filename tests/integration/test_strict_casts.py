"""Expressions of `select` over text: what they cannot parse is an error, never NULL."""

from __future__ import annotations

import pytest

from tests.integration.lake import Lake
from tests.integration.refusal import refused
from tests.integration.valued import AT, PREFIX, create, loaded


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("column_type", "expression", "ending"),
    [
        ("Nullable(Int32)", "toInt32(v)", "csv"),
        ("Int32", "toInt32(v) -- as a number", "jsonl"),
        ("Nullable(Int32)", "toInt32(nullIf(v, 'NA'))", "csv"),
        ("Nullable(Decimal(9, 2))", "if(v = 'NA', NULL, toDecimal64(trimBoth(v), 2))", "csv"),
        ("Nullable(Date)", "toDate(v)", "csv"),
    ],
)
def test_a_text_that_cannot_be_parsed_is_shown(lake: Lake, column_type: str, expression: str, ending: str) -> None:
    create(lake, f"v {column_type}")
    good = "2026-10-01" if "Date" in column_type else "1"
    if ending == "csv":
        body = f"ts,v,w\n{AT},{good},\n{AT},12abc,\n"
    else:
        body = "".join(f'{{"ts": "{AT}", "v": "{text}"}}\n' for text in (good, "12abc"))
    lake.put(f"{PREFIX}a.{ending}", body.encode())
    refused(
        lake,
        rf"Column 'v' is .* row 2 of .*a.{ending} has v='12abc' for it \(1 such rows in all\).* select=\{{…\}}\.$",
        select={"ts": "toDateTime(ts, 'UTC')", "v": expression},
    )


def test_null_is_null_where_the_expression_says_so(lake: Lake) -> None:
    create(lake, "a Nullable(Int32), b Nullable(Int32), c Nullable(Int32), d Nullable(Int32), e Int32")
    select = {
        "ts": "toDateTime(ts, 'UTC')",
        "a": "toInt32OrNull(v)",
        "b": "toInt32(nullIf(v, 'NA'))",
        "c": "if(v = 'NA', NULL, toInt32(v))",
        "d": "toInt32(w)",
        "e": "multiIf(v = 'NA', 0, isNull(w), toInt32(v), 2)",
    }
    body = f"ts,v,w\n{AT},NA,\n{AT},7,\n".encode()
    assert loaded(lake, "a.csv", body, "(a, b, c, d, e)", select=select) == [
        (7, 7, 7, None, 7),
        (None, None, None, None, 0),
    ]
