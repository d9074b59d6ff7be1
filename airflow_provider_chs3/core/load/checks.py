"""Run the user's checks on staged rows before publication; statements can read the published rows, too."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime

from airflow_provider_chs3.core.arguments.check_arguments import (
    COLUMN_CHECKS,
    Bound,
    Check,
    CheckResult,
    ColumnCheck,
    StatementCheck,
    TableCheck,
    rows_that_fail,
    text_of,
)
from airflow_provider_chs3.core.files.parse_errors import reason_of
from airflow_provider_chs3.core.ledger.records import WITH_ARRIVAL
from airflow_provider_chs3.core.load.publication import P, Publication, Publications, periods_text
from airflow_provider_chs3.core.model.error_codes import is_of_servers
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.model.quantities import quantity
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal, table
from airflow_provider_chs3.core.steps.operations import Log, Row, Steps
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.exceptions import (
    CheckFailedError,
    Chs3Error,
    ClickHouseServerError,
    ConfigurationError,
    TransientError,
)


def try_checks(load: Publication) -> Steps[None]:
    """Let the servers analyze all checks before anything is written, so that unknown columns are found early."""
    target = _Rows(load.context, load.context.target, "0")
    for check in load.requested_checks:
        sql = f"DESCRIBE ({_render_check(check, target, target)})"
        yield from _query_check(load.context, sql, name=f"Try the check {check.name}", checks=(check,))


#: Of the rows that fail a check, enough to recognize the mistake.
_MOST_ROWS, _MOST_COLUMNS, _ROW_CHARACTERS = 5, 8, 300


def check_rows(periods: Publications[P]) -> Steps[None]:
    """Run the checks of every period on its staged rows."""
    yield from periods.advance(_check_period)
    if periods.is_joint:
        _hold_together(periods)


def _hold_together(periods: Publications[P]) -> None:
    """Hold all periods, if any of them is held."""
    reasons = defaultdict[str, list[P]](list)
    for item in periods:
        if item.held_because:
            reasons[item.held_because].append(item)
    if not reasons:
        return
    of_periods = (f"{periods_text(items)}, {reason}" for reason, items in reasons.items())
    text = "; ".join((f"{WITH_ARRIVAL}{periods.first.arrival}", *of_periods))
    periods.update(lambda item: replace(item, held_because=text))


def check_seen(load: Publication) -> None:
    """Check that the checks have seen all rows that are about to be published."""
    staged_rows = sum(load.staged[node].rows for node in load.context.publishers)
    if load.checks and load.checked_rows != staged_rows:
        raise TransientError(
            f"Checks of {load.period} saw {load.checked_rows:,} of {staged_rows:,} staged rows: the replicas that the "
            "servers asked differ from those that publish. A retry loads the period again."
        )


def _check_period(load: P) -> Steps[P]:
    checks, policy = load.requested_checks, load.policies.on_failed_check
    # A dead attempt ran them before its intent.
    if load.intended or not checks:
        return load
    names = (load.staging, load.context.target)
    # Every node searches only its own partitions (seen on 25.8 and 26.9).
    staged, published = (_Rows(load.context, name, load.period_partitions.rows_of(name)) for name in names)
    yield from Log(name=f"{load.period}: checking what is staged ({quantity(len(checks), 'check')}).")
    results, rows = yield from _check_columns(load, staged)
    for check in checks:
        if not isinstance(check, ColumnCheck):
            name = f"Check {check.name} of {load.period}"
            sql = _render_check(check, staged, published)
            answer = yield from _query_check(load.context, sql, name=name, checks=(check,))
            results.append(_make_result(check, answer))
    if failed := text_of(results):
        results = yield from _find_rows(load, checks, results, staged)
        text = rows_that_fail(results)
        if policy == "fail":
            raise CheckFailedError(
                f"{load.context.target} {load.period} was not published, as checks failed: {failed}. The table is "
                "unchanged. Fix the objects or the checks, or publish anyway with "
                f"policies={{'on_failed_check': 'warn'}}.{text and ' Some of the rows that fail:'}{text}"
            )
        if policy == "warn":
            yield from Log(name=f"Warning: {load.period} is published although checks failed: {failed}.")
        if text:
            yield from Log(name=f"Some of the rows of {load.period} that fail:{text}")
    held_because = f"checks failed: {failed}" if failed and policy == "hold" else ""
    reason = "; ".join(filter(None, (load.held_because, held_because)))
    return replace(load, checks=tuple(results), checked_rows=rows, held_because=reason)


def _find_rows(
    load: Publication, checks: Iterable[Check], results: Iterable[CheckResult], staged: _Rows
) -> Steps[list[CheckResult]]:
    """Add to each failed check some of the rows that fail it, where it says which."""
    with_rows, by_name = list[CheckResult](), {check.name: check for check in checks}
    for result in results:
        check = by_name[result.name]
        condition, order = _failing(check, staged)
        if condition and not result.has_passed:
            result = replace(result, rows=(yield from _sample(load, check, condition, order, staged)))
        with_rows.append(result)
    return with_rows


def _failing(check: Check, staged: _Rows) -> tuple[str, str]:
    """Return the condition of the rows that fail a check, and their order; none if it does not say which."""
    match check:
        case TableCheck():
            return f"CASE WHEN (\n{check.statement}\n) THEN 1 ELSE 0 END = 0", ""
        case ColumnCheck(kind="null_check"):
            return f"isNull({identifier(check.column)})", ""
        case ColumnCheck(kind="unique_check"):
            column = identifier(check.column)
            twice = f"SELECT {column} {staged.where(check.clause)} GROUP BY {column} HAVING count() > 1"
            return f"{column} GLOBAL IN ({twice})", column
        case ColumnCheck(kind="min" | "max" as kind):
            column, operators = identifier(check.column), (">", ">=") if kind == "min" else ("<", "<=")
            bounds = [f"{column} {of.operator} {_render_bound(of)}" for of in check.bounds if of.operator in operators]
            return f"NOT ({' AND '.join(bounds)})" if bounds else "", f"{column} {'' if kind == 'min' else 'DESC'}"
    return "", ""


def _sample(load: Publication, check: Check, condition: str, order: str, staged: _Rows) -> Steps[tuple[str, ...]]:
    """Read a few rows that fail a check: its columns, and those that the table is sorted by."""
    facts, clause = load.context.table_facts, getattr(check, "clause", "")
    texts = (getattr(check, "column", ""), getattr(check, "statement", ""), facts.sorting_key)
    text = " ".join((*texts, load.policies.object_column or ""))
    names = [column.name for column in facts.stored if re.search(rf"(?<!\w){re.escape(column.name)}(?!\w)", text)]
    columns = ", ".join(map(identifier, names[:_MOST_COLUMNS] or [facts.stored[0].name]))
    further = f"({condition})" + (f" AND (\n{clause}\n)" if clause else "")
    sql = (
        f"SELECT leftUTF8(formatRowNoNewline('JSONEachRow', {columns}), {_ROW_CHARACTERS + 1}) {staged.where(further)}"
        f"{order and ' ORDER BY '}{order} LIMIT {_MOST_ROWS}"
    )
    name = f"Read some of the rows that fail {check.name}"
    try:
        rows = yield from load.context.on_coordinator(name=name, sql=Sql(sql), settings=load.context.evaluating)
    except Chs3Error:
        # A statement of aggregates is about all rows; and nothing that names rows decides about a load.
        return ()
    return tuple(row if len(row) <= _ROW_CHARACTERS else f"{row[:_ROW_CHARACTERS]} …" for (row,) in rows)


def _check_columns(load: Publication, staged: _Rows) -> Steps[tuple[list[CheckResult], int]]:
    """Check all columns with one query, and count the rows: a replica that lacks some must not go unnoticed."""
    seen, results, by_clause = 0, list[CheckResult](), defaultdict[str, list[ColumnCheck]](list, {"": []})
    for check in load.requested_checks:
        if isinstance(check, ColumnCheck):
            by_clause[check.clause].append(check)
    for clause, checks in by_clause.items():
        name = f"Check columns of {load.period}"
        sql = _render_column_checks(checks, staged, clause)
        (row,) = yield from _query_check(load.context, sql, name=name, checks=checks)
        seen = seen if clause else int(row[0])
        answers = zip(checks, row[1::2], row[2::2], strict=True)
        results += [
            CheckResult(check.name, check.wanted, _show_value(value), bool(passed)) for check, value, passed in answers
        ]
    return results, seen


def _make_result(check: Check, rows: Sequence[Row]) -> CheckResult:
    values = list(rows[0]) if rows else []
    shown, has_passed = ", ".join(map(_show_value, values)) or "no row", bool(values) and all(values)
    if isinstance(check, TableCheck):
        # Without rows, the statement holds.
        has_passed = values != [0]
        shown = str(has_passed).lower()
    return CheckResult(check.name, check.wanted, shown, has_passed)


def _show_value(value: object) -> str:
    return "NULL" if value is None else str(value)


def _query_check(context: Target, sql: str, *, name: str, checks: Sequence[Check]) -> Steps[Sequence[Row]]:
    try:
        return (yield from context.on_coordinator(name=name, sql=Sql(sql), settings=context.evaluating))
    except ClickHouseServerError as error:
        if is_of_servers(error):
            raise
        names = ", ".join(check.name for check in checks)
        raise ConfigurationError(f"The check {names} cannot be computed: {reason_of(error)}.") from error


class _Rows:
    """The rows of a table that match a condition, on all nodes."""

    def __init__(self, context: Target, name: TableName, condition: str) -> None:
        names = f"{identifier(name.database)}, {identifier(name.table)}"
        source = f"cluster({literal(context.cluster)}, {names})" if context.cluster else table(name)
        self._every = f"FROM {source} WHERE {condition}"

    def where(self, clause: str = "") -> str:
        """Render FROM and WHERE; a line break after the clause ends any comment in it."""
        return f"{self._every} AND (\n{clause}\n)" if clause else self._every


def _render_check(check: Check, staged: _Rows, published: _Rows) -> str:
    match check:
        case ColumnCheck():
            return _render_column_checks([check], staged, check.clause)
        case TableCheck():
            passes = f"CASE WHEN (\n{check.statement}\n) THEN 1 ELSE 0 END AS chs3_passes"
            return f"SELECT minOrNull(chs3_passes) FROM (SELECT {passes} {staged.where(check.clause)})"
        case StatementCheck():
            tables = f"staged AS (SELECT * {staged.where()}), published AS (SELECT * {published.where()})"
            return f"WITH {tables} SELECT * FROM (\n{check.statement}\n) LIMIT 1"


def _render_column_checks(checks: Sequence[ColumnCheck], staged: _Rows, clause: str) -> str:
    columns = ["count()"]
    for check in checks:
        value = COLUMN_CHECKS[check.kind].format(identifier(check.column))
        passes = " AND ".join(f"({value} {bound.operator} {_render_bound(bound)})" for bound in check.bounds)
        columns += [f"toString({value})", f"ifNull({passes}, 0)"]
    return f"SELECT {', '.join(columns)} {staged.where(clause)}"


def _render_bound(bound: Bound) -> str:
    value = bound.value
    if isinstance(value, datetime):
        moment = value.astimezone(UTC) if value.tzinfo else value
        zone = ", 'UTC'" if value.tzinfo else ""
        return f"toDateTime64({literal(f'{moment:%Y-%m-%d %H:%M:%S.%f}')}, 6{zone})"
    if isinstance(value, date):
        return f"toDate32({literal(value.isoformat())})"
    return literal(value) if isinstance(value, str) else str(value)
