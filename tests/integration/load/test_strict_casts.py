"""Expressions of `select` over text: what they cannot parse is an error, never NULL."""

from __future__ import annotations

import pytest

from tests.integration.valued import AT, PREFIX, create, create_each, loaded
from tests.support.lake import Lake
from tests.support.refusal import loaded_or_wrongly_refused

END = r"select=\{…\}\.$"
UNPARSED = {
    "csv": [
        ("Nullable(Int32)", "toInt32(v)"),
        ("Nullable(Int32)", "toInt32(nullIf(v, 'NA'))"),
        ("Nullable(Decimal(9, 2))", "if(v = 'NA', NULL, toDecimal64(trimBoth(v), 2))"),
        ("Nullable(Date)", "toDate(d)"),
    ],
    "jsonl": [("Int32", "toInt32(v) -- as a number")],
}


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("ending", UNPARSED)
def test_a_text_that_cannot_be_parsed_is_shown(lake: Lake, ending: str) -> None:
    columns = create_each(lake, [column_type for column_type, _ in UNPARSED[ending]])
    if ending == "csv":
        body = f"ts,v,d\n{AT},1,2026-10-01\n{AT},12abc,12abc\n"
    else:
        body = "".join(f'{{"ts": "{AT}", "v": "{text}"}}\n' for text in ("1", "12abc"))
    lake.put(f"{PREFIX}a.{ending}", body.encode())
    expressions = [expression for _, expression in UNPARSED[ending]]
    select = {"ts": "toDateTime(ts, 'UTC')", **dict(zip(columns, expressions, strict=True))}
    matches = {
        name: rf"Column '{name}' is .* row 2 of .*a.{ending} has [vd]='12abc' for it \(1 such row in all\)\. "
        r"Change its expression in select=\{…\} \(fields are text there\), widen the column, or fix the file\.$"
        for name in columns
    }
    assert loaded_or_wrongly_refused(lake, matches, select=select) == {}


@pytest.mark.thorough
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
