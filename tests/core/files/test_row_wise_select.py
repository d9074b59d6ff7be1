"""Expressions of `select`: only those that a node can compute row by row.

The answers are what ClickHouse 26.9 gives.
"""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.files.loaded_columns import LoadedColumn
from airflow_provider_chs3.core.files.row_wise_select import check_row_wise
from airflow_provider_chs3.core.target.table_facts import Column
from airflow_provider_chs3.exceptions import ConfigurationError, SourceError
from tests.support.driving import Driven, drive, server_error

TYPES = {"a": "Int64", "b`x": "String"}
X = Column("x", "Int64")
ROW_WISE_PLAN = [('[{"Plan": {"Node Type": "Expression", "Plans": [{"Node Type": "ReadFromStorage"}]}}]',)]


def parsed(*lines: str, select: str = "SelectQuery (children 1)", count: int = 1, union: int = 1) -> list[tuple[str]]:
    """What EXPLAIN AST answers for `SELECT <expression>`; `lines` are those of the expression itself."""
    head = [
        f"SelectWithUnionQuery (children {union})",
        " ExpressionList (children 1)",
        f"  {select}",
        f"   ExpressionList (children {count})",
    ]
    return [(line,) for line in (*head, *lines)]


PLUS = parsed(
    "    Function plus (children 1)", "     ExpressionList (children 2)", "      Identifier a", "      Literal UInt64_1"
)
FILES = {"one": ["a", "b"], "two": ["a"], "three": ["a", "b.c"]}
DESCRIBED = [("x", "Int64", "", "", "", "", "")]
#: Which of the functions users have created.
NONE: list[tuple[str]] = []


def check(*answers, expression: str = "a + 1") -> Driven:
    return drive(check_row_wise({"x": expression}, [X], TYPES, settings={}), *answers)


class TestARowWiseExpression:
    @pytest.mark.parametrize(
        ("expression", "answer"),
        [
            ("a + 1", PLUS),
            ("a", parsed("    Identifier a")),
            ("a -- why", parsed("    Identifier a")),
            ("tuple(a, b)", parsed("    Function tuple (children 1)", "     ExpressionList (children 2)")),
            ("'a\nSubquery'", parsed(r"    Literal 'a\nSubquery'")),
            ("`Subquery`", parsed("    Identifier Subquery")),
            ("concat('Asterisk')", parsed("    Function concat (children 1)", "      Literal 'Asterisk'")),
            ("'(alias b)'", parsed("    Literal '(alias b)'")),
            ("a IN (1, 2)", parsed("    Function in (children 1)", "      Literal Tuple_(UInt64_1, UInt64_2)")),
            (
                "arrayMap(y -> y, z)",
                parsed(
                    "    Function arrayMap (children 1)", "      Function lambda (children 1)", "      Identifier z"
                ),
            ),
            ("arrayJoinish(a)", parsed("    Function arrayJoinish (children 1)")),
        ],
    )
    def test_is_loaded_with_the_type_that_the_server_gives_it(self, expression, answer):
        asked = [NONE] if any(line.strip().startswith("Function ") for (line,) in answer) else []
        driven = check(answer, ROW_WISE_PLAN, DESCRIBED, *asked, expression=expression)
        assert driven.result == [LoadedColumn(X, f"(\n{expression}\n)", "Int64", written=expression)]

    def test_is_parsed_by_the_server(self):
        assert check(PLUS, ROW_WISE_PLAN, DESCRIBED, NONE).steps[0].sql.text == "EXPLAIN AST SELECT a + 1"

    def test_is_read_over_the_files_columns(self):
        _, plan, describe, _ = (step.sql.text for step in check(PLUS, ROW_WISE_PLAN, DESCRIBED, NONE).steps)
        query = plan.removeprefix("EXPLAIN PLAN json = 1 ")
        assert query.startswith("SELECT (\na + 1\n) AS `select 0` FROM null('")
        assert query.endswith(r"`a` Int64, `b\\`x` String')")
        assert describe == f"DESCRIBE ({query})"

    @pytest.mark.parametrize("name", ["_path", "_file", "_size", "_time", "_etag"])
    def test_may_use_what_is_known_of_the_file(self, name):
        assert f"`{name}` " in check(PLUS, ROW_WISE_PLAN, DESCRIBED, NONE).steps[1].sql.text

    def test_each_expression_is_parsed_by_itself(self):
        select = {"x": "a", "y": "b"}
        driven = drive(
            check_row_wise(select, [X, Column("y", "String")], TYPES, settings={}),
            parsed("    Identifier a"),
            parsed("    Identifier b"),
            ROW_WISE_PLAN,
            [*DESCRIBED, ("y", "String", "", "", "", "", "")],
        )
        assert [(each.column.name, each.source_type) for each in driven.result] == [("x", "Int64"), ("y", "String")]


def called(name: str) -> list[tuple[str]]:
    return parsed(f"    Function {name} (children 1)", "     ExpressionList (children 1)", "      Identifier a")


class TestFunctions:
    @pytest.mark.parametrize("name", ["dictGet", "dictGetOrDefault", "dictHas", "joinGet", "regionToName", "file"])
    def test_that_look_values_up_are_noted(self, name):
        (loaded,) = check(called(name), ROW_WISE_PLAN, DESCRIBED, NONE).result
        assert loaded.depends_on == name

    @pytest.mark.parametrize("name", ["dictionary", "profile", "toDate", "now"])
    def test_that_look_nothing_up_are_not(self, name):
        (loaded,) = check(called(name), ROW_WISE_PLAN, DESCRIBED, NONE).result
        assert loaded.depends_on == ""

    def test_of_users_are_noted_as_their_definition_may_change(self):
        tree = [("QUERY id: 0",), ("      FUNCTION id: 2, function_name: plus, function_type: ordinary",)]
        driven = check(called("double it"), ROW_WISE_PLAN, DESCRIBED, [("double it",)], tree)
        assert driven.result[0].depends_on == "double it"
        assert "name IN ('double it')" in driven.steps[3].sql.text

    @pytest.mark.parametrize(
        ("line", "what"),
        [
            ("          QUERY id: 9, is_subquery: 1", "a sub-query"),
            ("      FUNCTION id: 13, function_name: arrayJoin, function_type: ordinary, result_type: X", "arrayJoin"),
        ],
    )
    def test_of_users_are_looked_into(self, line, what):
        with pytest.raises(ConfigurationError, match=f"A function in select holds {what}"):
            check(called("f"), ROW_WISE_PLAN, DESCRIBED, [("f",)], [("QUERY id: 0",), (line,)])


class TestMoreThanOneExpression:
    @pytest.mark.parametrize(
        ("expression", "answer"),
        [
            ("a, b", parsed("    Identifier a", "    Identifier b", count=2)),
            ("a FROM t", parsed("    Identifier a", "   TablesInSelectQuery", select="SelectQuery (children 2)")),
            ("a WHERE b", parsed("    Identifier a", "   Identifier b", select="SelectQuery (children 2)")),
            ("a LIMIT 1", parsed("    Identifier a", "   Literal UInt64_1", select="SelectQuery (children 2)")),
            ("TOP 1 a", parsed("    Identifier a", "   Literal UInt64_1", select="SelectQuery (children 2)")),
            ("a ORDER BY a", parsed("    Identifier a", "   ExpressionList", select="SelectQuery (children 2)")),
            ("a GROUP BY a", parsed("    Identifier a", "   ExpressionList", select="SelectQuery (children 2)")),
            ("DISTINCT ON (a) a", parsed("    Identifier a", select="SelectQuery (children 3)")),
            ("a SETTINGS max_threads = 1", parsed("    Identifier a", "   Set", select="SelectQuery (children 2)")),
            ("a FORMAT Null", parsed("    Identifier a", " Identifier Null", union=2)),
            ("a INTO OUTFILE 'x'", parsed("    Identifier a", " Literal 'x'", union=2)),
            (
                "a UNION ALL SELECT b",
                [("SelectWithUnionQuery (children 1)",), (" ExpressionList (children 2)",), ("  SelectQuery",)],
            ),
            ("a EXCEPT SELECT b", parsed("   SelectWithUnionQuery", select="SelectIntersectExceptQuery (children 2)")),
        ],
    )
    def test_is_refused(self, expression, answer):
        with pytest.raises(ConfigurationError, match="is more than one expression: set one") as raised:
            check(answer, expression=expression)
        assert "select['x']" in str(raised.value)

    @pytest.mark.parametrize(
        "expression", ["a) AS x, (b", "a; DROP TABLE y", "", "a /*", "{p:UInt8}", "WITH 1 AS y SELECT y"]
    )
    def test_that_the_server_cannot_parse_is_told_with_its_words(self, expression):
        with pytest.raises(ConfigurationError, match="is not an expression: Syntax error: failed at position 21"):
            check(server_error(62, "Syntax error: failed at position 21"), expression=expression)

    @pytest.mark.parametrize("line", ["    Identifier a (alias b)", "    Function plus (alias b) (children 1)"])
    def test_that_names_a_value_is_refused(self, line):
        with pytest.raises(ConfigurationError, match="which the other expressions would see"):
            check(parsed(line), expression="a AS b")

    def test_distinct_is_met_in_brackets(self):
        """EXPLAIN AST does not show it."""
        error = server_error(62, "Syntax error: failed at position 41 (a).")
        with pytest.raises(
            ConfigurationError,
            match=r"The server rejects select: Syntax error.* All files of the period have a, b`x\.",
        ):
            check(parsed("    Identifier a"), error, expression="DISTINCT a")


class TestAColumnThatAFileLacks:
    def refusal(self, name: str) -> str:
        said = f"Unknown expression or function identifier `{name}`. Maybe you meant: ['a']. In scope SELECT (a) AS"
        steps = check_row_wise({"x": name}, [X], {"a": "Int64"}, settings={}, by_file=FILES)
        with pytest.raises((SourceError, ConfigurationError)) as raised:
            drive(steps, parsed(f"    Identifier {name}"), server_error(47, said))
        return str(raised.value)

    def test_is_named_with_the_file(self):
        assert self.refusal("b").startswith("Column 'b' is missing in two. It has 'a'. Add it there")

    def test_and_so_is_a_field_of_it(self):
        assert self.refusal("b.c").startswith("Column 'b.c' is missing in two. It has 'a'.")

    def test_a_field_that_no_file_is_known_to_lack_is_told_without_sql(self):
        expected = "identifier `a.c`. Maybe you meant: ['a']. All files of the period have a."
        assert self.refusal("a.c") == f"The server rejects select: Unknown expression or function {expected}"


class TestWhatEachNodeWouldDoForItself:
    @pytest.mark.parametrize(
        ("expression", "lines", "what"),
        [
            ("(SELECT 1)", ["    Subquery (children 1)"], "a sub-query"),
            ("a IN (SELECT 1)", ["    Function in (children 1)", "      Subquery (children 1)"], "a sub-query"),
            ("exists(SELECT 1)", ["    Function exists (children 1)", "      Subquery (children 1)"], "a sub-query"),
            ("sum(a) OVER ()", ["    Function sum (children 2)", "     WindowDefinition"], "a window function"),
            ("arrayJoin(z)", ["    Function arrayJoin (children 1)"], "arrayJoin"),
            (
                "1 + arrayJoin(z) AS y",
                ["    Function plus", "      Function arrayJoin (alias y) (children 1)"],
                "arrayJoin",
            ),
            ("unnest(z)", ["    Function unnest (children 1)"], "arrayJoin"),
            ("UNNEST(z)", ["    Function UNNEST (children 1)"], "arrayJoin"),
            ("untuple((a, b))", ["    Function untuple (children 1)"], "untuple"),
            ("*", ["    Asterisk"], "an asterisk"),
            ("* EXCEPT b", ["    Asterisk (children 1)"], "an asterisk"),
            ("t.*", ["    QualifiedAsterisk (children 1)"], "an asterisk"),
            ("COLUMNS('a')", ["    ColumnsRegexpMatcher"], "a column matcher"),
            ("COLUMNS(a, b)", ["    ColumnsListMatcher (children 1)"], "a column matcher"),
        ],
    )
    def test_is_refused_when_it_is_parsed(self, expression, lines, what):
        with pytest.raises(ConfigurationError, match=rf"select\['x'\] holds {what}: every node loads its own files"):
            check(parsed(*lines), expression=expression)

    @pytest.mark.parametrize(
        ("expression", "node", "what"),
        [
            ("sum(a)", "Aggregating", "an aggregate function"),
            ("count()", "Aggregating", "an aggregate function"),
            ("a IN system.one", "CreatingSets", "a table after IN"),
        ],
    )
    def test_is_refused_when_it_is_planned(self, expression, node, what):
        plan = f'[\n  {{\n    "Plan": {{\n      "Node Type": "{node}",\n      "Node Id": "{node}_3"\n    }}\n  }}\n]'
        with pytest.raises(ConfigurationError, match=f"select holds {what}"):
            check(parsed("    Function f (children 1)"), [(plan,)], DESCRIBED, expression=expression)

    def test_the_way_out_is_told(self):
        with pytest.raises(
            ConfigurationError, match="Use row-wise expressions, and aggregate in the table or downstream"
        ):
            check(parsed("    Asterisk"))


@pytest.mark.parametrize("at", [1, 2])
def test_an_unknown_column_is_told_with_those_of_the_files(at):
    error = server_error(47, "Unknown expression or function identifier `nope`.")
    answers = [PLUS, ROW_WISE_PLAN][:at]
    with pytest.raises(
        ConfigurationError, match=r"Unknown expression .*`nope`\. All files of the period have a, b`x\."
    ):
        check(*answers, error)
