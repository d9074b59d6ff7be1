"""Quoting, and statements that hide their secrets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import airflow_provider_chs3
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.sql.quoting import (
    Sql,
    after,
    elements,
    identifier,
    items,
    literal,
    literals,
    strings,
    table,
    without_parentheses,
    without_stack_trace,
)
from airflow_provider_chs3.exceptions import ConfigurationError
from tests.support.server_errors import WITH_STACK_TRACE

HOSTILE = [
    "plain",
    "two words",
    "x; DROP TABLE y",
    "it's",
    "''",
    "'",
    "\\",
    "\\'",
    "\\\\'",
    "ends with \\",
    "`tick`",
    "``",
    "\\`",
    '"double"',
    "-- comment",
    "/* comment */",
    "a\nb",
    "a\r\nb",
    "a\tb",
    "a\0b",
    "%s %(x)s %",
    "{x} {x:String} {{ x }}",
    "$$ $tag$",
    "ünï 🚕",
    "\u2028\u2019\uff07",
    "'); DROP TABLE t --",
]
_UNESCAPED = {"\\n": "\n", "\\r": "\r", "\\t": "\t", "\\0": "\0"}


def unquoted(text: str, quote: str) -> str:
    """What ClickHouse's lexer makes of a quoted text; fails where the quote ends early or never."""
    matched = re.fullmatch(rf"{quote}((?:[^{quote}\\]|\\.)*){quote}", text, re.DOTALL)
    assert matched, text
    return re.sub(r"\\.", lambda found: _UNESCAPED.get(found[0], found[0][1]), matched[1], flags=re.DOTALL)


class TestQuoting:
    @pytest.mark.parametrize("text", ["", *HOSTILE])
    def test_a_literal_is_one_token_that_means_the_text(self, text):
        assert unquoted(literal(text), "'") == text

    @pytest.mark.parametrize("name", HOSTILE)
    def test_an_identifier_is_one_token_that_means_the_name(self, name):
        assert unquoted(identifier(name), "`") == name

    @pytest.mark.parametrize("text", HOSTILE)
    def test_nothing_spreads_over_lines(self, text):
        assert "\n" not in literal(text) + identifier(text)

    def test_an_empty_identifier_is_refused(self):
        with pytest.raises(ConfigurationError, match="empty name"):
            identifier("")

    @pytest.mark.parametrize("name", [TableName("", "t"), TableName("d", "")])
    def test_a_table_needs_both_names(self, name):
        with pytest.raises(ConfigurationError, match="empty name"):
            table(name)

    def test_a_table_is_quoted_in_its_database(self):
        assert table(TableName("a.b", "x; DROP TABLE y")) == "`a.b`.`x; DROP TABLE y`"

    def test_literals_are_a_list(self):
        assert literals(["a", "b'"]) == r"'a', 'b\''"

    def test_no_literals_are_nothing(self):
        assert literals([]) == ""


class TestSecrets:
    SECRET = "s3cr3t'\\x"
    SQL = Sql(f"SELECT * FROM s3('url', 'key', {literal(SECRET)}, {literal('token')})", (SECRET, "token"))

    @pytest.mark.parametrize(
        "show",
        [
            str,
            repr,
            "{}".format,
            "{!r}".format,
            "{!s}".format,
            lambda sql: f"{sql}",
            lambda sql: sql.masked,
        ],
        ids=["str", "repr", "format", "format-r", "format-s", "f-string", "masked"],
    )
    def test_are_hidden_in_whatever_prints_a_statement(self, show):
        shown = show(self.SQL)
        assert "s3cr3t" not in shown
        assert "token" not in shown
        assert shown.count("[HIDDEN]") == 2

    def test_are_hidden_inside_of_containers_and_exceptions(self):
        assert "s3cr3t" not in f"{[self.SQL]} { ({'sql': self.SQL}) } {ValueError(self.SQL)}"

    def test_are_in_the_text_for_the_server(self):
        assert literal(self.SECRET) in self.SQL.text

    def test_the_rest_of_a_statement_is_shown(self):
        assert str(self.SQL) == "SELECT * FROM s3('url', 'key', '[HIDDEN]', '[HIDDEN]')"

    def test_a_statement_without_secrets_is_shown_as_it_is(self):
        assert str(Sql("SELECT 1")) == "SELECT 1"

    @pytest.mark.parametrize("secret", HOSTILE)
    def test_hostile_secrets_are_hidden_too(self, secret):
        assert str(Sql(f"s3({literal(secret)})", (secret,))) == "s3('[HIDDEN]')"


PACKAGE = Path(airflow_provider_chs3.__file__).parent


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


@pytest.mark.parametrize("text", WITH_STACK_TRACE)
def test_a_stack_trace_is_cut_off(text):
    assert without_stack_trace(WITH_STACK_TRACE[text]) == text


def test_no_query_reads_an_error_with_its_stack_trace():
    sources = {
        path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py") if "node_modules" not in path.parts
    }
    columns = r"\b(?:latest_fail_reason|last_exception)\b"
    raw = rf"(?<!readable\(.)(?<! AS ){columns}(?=.*(?:\n.*){{0,3}}FROM system\.)"
    assert [f"{path.name}: {found[0]}" for path, text in sources.items() for found in re.finditer(raw, text)] == []
