"""Conversions in an expression are replaced by strict ones. Tests with real servers show the effect."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.sql.select_conversions import is_unparsed, strict


def not_null(call: str, argument: str) -> str:
    text = f"\n{argument}\n"
    return f"if(isNull({text}), NULL, {call.replace('?', f'assumeNotNull({text})')})"


class TestStrict:
    @pytest.mark.parametrize(
        ("expression", "written"),
        [
            ("toInt32(v)", not_null("toInt32(?)", "v")),
            ("toInt32 (v) + 1", not_null("toInt32(?)", "v") + " + 1"),
            ("toDecimal64(f(a, b), 2)", not_null("toDecimal64(?, 2)", "f(a, b)")),
            ("toDate(v -- a, )\n)", not_null("toDate(?)", "v -- a, )\n")),
            ("toInt8('1' || v)", not_null("toInt8(?)", "'1' || v")),
            ("toDate(toDateTime(v, 'UTC'))", not_null("toDate(?)", not_null("toDateTime(?, 'UTC')", "v"))),
        ],
    )
    def test_a_conversion_is_that_of_a_text_which_cannot_be_null(self, expression, written):
        assert strict(expression) == written

    @pytest.mark.parametrize(
        "expression",
        [
            "toInt32OrNull(v)",
            "CAST(v AS Nullable(Int32))",
            "'toInt32(v)'",
            "`toInt32(v)`",
            "v -- toInt32(v)",
            "v /* toInt32(v) */",
            "toIntervalHour(1)",
            "toDate('2026-10-01')",
            "my_toInt32(v)",
        ],
    )
    def test_all_else_stays_as_it_is(self, expression):
        assert strict(expression) == expression
        assert is_unparsed(expression) == "0"
