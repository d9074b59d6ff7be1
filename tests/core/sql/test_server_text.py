"""Lists and clauses of SQL that a server wrote."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.sql.server_text import after, elements, items, strings, without_parentheses


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("a", ["a"]),
        ("a, b", ["a", "b"]),
        ("f(a, b), c", ["f(a, b)", "c"]),
        ("f((a, b), [c, d])", ["f((a, b), [c, d])"]),
        (
            "disk = disk(type = local, path = '[HIDDEN]'), n = 1",
            ["disk = disk(type = local, path = '[HIDDEN]')", "n = 1"],
        ),
        (r"a = 'x, \', y', `b, c`", [r"a = 'x, \', y'", "`b, c`"]),
        ("a = ')', b = '('", ["a = ')'", "b = '('"]),
    ],
)
def test_items_are_told_from_what_they_hold(text, found):
    assert items(text) == found


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ("(a, b)", "a, b"),
        ("(a * 100) + (b)", "(a * 100) + (b)"),
        ("f(a)", "f(a)"),
        ("(f(')'), b)", "f(')'), b"),
        ("`(`", "`(`"),
        ("", ""),
    ],
)
def test_parentheses_around_all_are_taken_off(text, inner):
    assert without_parentheses(text) == inner


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("f(a)", ["f(a)"]),
        ("(f(a))", ["f(a)"]),
        ("(a, b)", ["a", "b"]),
        ("tuple(f(a))", ["f(a)"]),
        ("tuple(a, f(b))", ["a", "f(b)"]),
        ("tuple(a) = tuple(b)", ["tuple(a) = tuple(b)"]),
        ("(tuple(a), b)", ["tuple(a)", "b"]),
    ],
)
def test_a_tuple_is_taken_apart(text, found):
    assert elements(text) == found


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("MergeTree ORDER BY a", ""),
        ("MergeTree ORDER BY a SETTINGS n = 1, m = 'x'", "n = 1, m = 'x'"),
        ("MergeTree ORDER BY ` SETTINGS x` SETTINGS n = ' SETTINGS y'", "n = ' SETTINGS y'"),
        ("MergeTree ORDER BY f(' SETTINGS x')", ""),
    ],
)
def test_a_clause_is_told_from_names_and_texts(text, settings):
    assert after("SETTINGS", text) == settings


def test_texts_of_an_expression_are_found_once():
    assert strings("f(a, 'UTC', g('Asia/Tokyo', 'UTC'))") == ("UTC", "Asia/Tokyo")
