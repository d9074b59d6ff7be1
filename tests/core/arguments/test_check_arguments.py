"""How checks are written, and what is said of those that are not."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.arguments.check_arguments import Bound, CheckResult, Checks, ColumnCheck, text_of
from airflow_provider_chs3.exceptions import ConfigurationError


def bounds_of(**given: object) -> tuple[Bound, ...]:
    (check,) = Checks.of({"column_mapping": {"fare": {"min": given}}}).requested
    assert isinstance(check, ColumnCheck)
    return check.bounds


@pytest.mark.parametrize(
    ("given", "bounds"),
    [
        ({"equal_to": 10}, [("=", 10)]),
        ({"equal_to": 10, "tolerance": 0.1}, [(">=", 9), ("<=", 11)]),
        ({"equal_to": -10, "tolerance": 0.1}, [(">=", -11), ("<=", -9)]),
        ({"geq_to": -10, "tolerance": 0.5}, [(">=", -15)]),
        ({"greater_than": 10, "leq_to": 20, "tolerance": 0.5}, [(">", 5), ("<=", 30)]),
        ({"less_than": "2026-10"}, [("<", "2026-10")]),
    ],
)
def test_a_tolerance_widens_a_bound(given: dict[str, object], bounds: list[tuple[str, object]]) -> None:
    assert [(each.operator, each.value) for each in bounds_of(**given)] == bounds


def test_bounds_are_named_in_words() -> None:
    given = {"greater_than": 1, "leq_to": 20, "tolerance": 0.1}
    (check,) = Checks.of({"column_mapping": {"fare": {"max": given}}}).requested
    assert (check.name, check.wanted) == ("max of fare", "greater than 1 and at most 20 (tolerance 0.1)")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"columns": {}}, "checks has columns: it takes column_mapping, table_checks, statements"),
        ({"column_mapping": {"fare": {"nulls": {"equal_to": 0}}}}, r"\['fare'\] has nulls: it takes null_check, "),
        ({"column_mapping": {"fare": {"min": {"at_least": 0}}}}, r"\['min'\] has at_least: it takes equal_to, "),
        ({"column_mapping": {"fare": {"min": {}}}}, r"\['min'\] has no bound: set one of equal_to, "),
        ({"column_mapping": {"fare": {"min": {"geq_to": None}}}}, r"\['geq_to'\]=None is not allowed: use a number"),
        ({"column_mapping": {"fare": {"min": {"geq_to": float("nan")}}}}, "=nan is not allowed: use a number"),
        ({"column_mapping": {"fare": {"min": {"geq_to": True}}}}, r"\['geq_to'\]=True is not allowed: use a number"),
        ({"column_mapping": {"a": {"min": {"geq_to": "x", "tolerance": 1}}}}, "has a tolerance, but geq_to='x' is no"),
        ({"column_mapping": {"a": {"min": {"geq_to": 1, "tolerance": "x"}}}}, r"\['tolerance'\]='x' is not a number"),
        ({"table_checks": {"rows": {"statement": "1"}}}, r"\['rows'\] has statement: it takes check_statement, "),
        ({"table_checks": {"rows": {}}}, r"\['check_statement'\]=None is not allowed: write SQL as a text"),
        ({"statements": {"rows": " "}}, r"\['statements'\]\['rows'\]=' ' is not allowed: write SQL as a text"),
        ({"statements": ["SELECT 1"]}, r"checks\['statements'\]=\['SELECT 1'\] is not allowed: use a dict"),
    ],
)
def test_what_is_not_a_check_is_an_error_that_names_its_place(given: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Checks.of(given)


def test_what_failed_is_told_in_one_line() -> None:
    results = [CheckResult("rows", "true", "true", True), CheckResult("min of fare", "at least 0", "-1", False)]
    assert text_of(results) == "min of fare is -1, wanted at least 0"
