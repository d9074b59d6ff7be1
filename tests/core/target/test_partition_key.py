"""Which partition is the period, and which keys have none."""

from __future__ import annotations

import calendar
import re
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache

import pytest

from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.steps.operations import QueryNodes
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.target.period_partitions import partitions_of_one
from airflow_provider_chs3.core.target.table_facts import Column
from airflow_provider_chs3.exceptions import PreflightError
from tests.core.surroundings import ONE, TARGET, surroundings, with_target
from tests.support.driving import drive

ID, AT = TARGET.columns


def around_key(partition_key: str = "toStartOfMonth(at)", *columns: Column) -> Target:
    return surroundings(*[with_target(partition_key=partition_key, columns=columns or (ID, AT))] * 3)


def instants(step: QueryNodes) -> list[str]:
    """The instants that the statement has a server make."""
    return _within(tuple(re.findall(r"\((\d+), (\d+), (\d+)\)", step.sql[ONE].text)))


@cache
def _within(ranges: tuple[tuple[str, ...], ...]) -> list[str]:
    milliseconds = sorted({ms for bounds in ranges for ms in range(*map(int, bounds))})
    return [str(datetime.fromtimestamp(ms / 1000, UTC).replace(tzinfo=None)) for ms in milliseconds]


def described(*types: str) -> dict[Node, list[tuple[str, str]]]:
    """Return a server's facts about the target, whose key has parts of these types."""
    return {ONE: [("at", "DateTime"), ("_partition_value", f"Tuple({', '.join(types or ('UInt32',))})")]}


def answer(function, step: QueryNodes) -> dict[Node, list[tuple[int, object]]]:
    """Return the answer of a server whose partition key does `function` to an instant."""
    return {ONE: list({(int(instant[:4] + instant[5:7]), function(instant)) for instant in instants(step)})}


def monthly(step: QueryNodes) -> dict[Node, list[tuple[int, object]]]:
    """Return the answer of a server where the partition key is monthly."""
    return answer(lambda instant: instant[:7], step)


OCTOBER = Period.of_month(2026, 10)


def by(function, *, period: Period = OCTOBER, context: Target | None = None) -> str:
    """Drive the question, with a partition key that does `function` to an instant."""
    asked = partitions_of_one(context or around_key(), period)
    return drive(asked, described(), lambda step: answer(function, step)).result.value


class TestPartitionOfAPeriod:
    @pytest.mark.parametrize("of", ["Date", "Date32", "DateTime", "DateTime('Asia/Tokyo')", "DateTime64(3, 'UTC')"])
    @pytest.mark.parametrize(("name", "key"), [("at", "toYYYYMM(at)"), ("a t", "toYYYYMM(`a t`)")])
    def test_of_the_usual_key_is_known_and_nobody_is_asked(self, name, key, of):
        context = around_key(key, Column(name, of, in_partition_key=True))
        assert drive(partitions_of_one(context, OCTOBER)).result.value == "202610"

    @pytest.mark.parametrize(
        ("key", "of"),
        [
            ("toYYYYMM(at)", "Nullable(DateTime)"),
            ("toYYYYMM(at)", "LowCardinality(Date)"),
            ("toYYYYMM(at, 'UTC')", "DateTime"),
            ("toYYYYMMDD(at)", "DateTime"),
            ("tuple(toYYYYMM(at))", "DateTime"),
        ],
    )
    def test_of_any_other_key_is_asked_for(self, key, of):
        with pytest.raises(AssertionError, match="asked for more than expected"):
            drive(partitions_of_one(around_key(key, Column("at", of, in_partition_key=True)), OCTOBER))

    def test_is_what_the_server_says(self):
        assert by(lambda instant: instant[:7].replace("-", "")) == "202610"

    def test_is_asked_of_one_node(self):
        steps = drive(partitions_of_one(around_key(), OCTOBER), described(), monthly).steps
        assert [list(step.sql) for step in steps] == [[ONE], [ONE]]

    def test_is_asked_with_the_servers_defaults_of_what_changes_expressions(self):
        defaults = {"function_date_trunc_return_type_behavior": "0", "input_format_csv_skip_first_lines": "0"}
        facts = with_target(partition_key="toStartOfMonth(at)", columns=(ID, AT))
        permitted = replace(facts, reading_defaults=defaults, permissions=frozenset({"allow_suspicious_types"}))
        context = surroundings(*[permitted] * 3)
        step = drive(partitions_of_one(context, OCTOBER), described(), monthly).steps[1]
        assert step.settings == {"function_date_trunc_return_type_behavior": "0", "allow_suspicious_types": 1}

    @pytest.mark.parametrize("number", [2, 10, 12])
    def test_every_day_and_the_periods_of_ten_years_each_way_are_asked(self, number):
        period = Period.of_month(2026, number)
        asked = set()
        by(lambda instant: asked.add(instant[:10]) or instant[:7], period=period)
        last_day = calendar.monthrange(2026, number)[1]
        assert {f"{period}-{day:02d}" for day in range(1, last_day + 1)} <= asked
        assert {str(period.shifted(by)) for by in range(-120, 121)} <= {day[:7] for day in asked}

    def test_the_first_and_last_millisecond_of_a_period_are_asked(self):
        asked = set()
        by(lambda instant: asked.add(instant) or instant[:7])
        assert {"2026-10-01 00:00:00", "2026-10-31 23:59:59.999000"} <= asked

    @pytest.mark.parametrize("of_period", [True, False])
    def test_every_second_of_the_minute_and_minute_of_the_day_is_asked_of_it_and_of_others(self, of_period):
        asked = set()
        by(lambda instant: ((instant[:7] == "2026-10") is of_period and asked.add(instant)) or instant[:7])
        assert len({instant[11:16] for instant in asked}) == 24 * 60
        assert len({instant[17:19] for instant in asked}) == 60

    @pytest.mark.parametrize("period", [Period.of_month(1971, 1), Period.of_month(2104, 12)])
    def test_the_first_and_the_last_period_can_be_asked_for(self, period):
        assert by(lambda instant: instant[:7], period=period) == str(period)

    def test_the_parts_of_a_tuple_are_asked_for_as_the_table_does(self):
        asked = partitions_of_one(around_key("(toYear(at), toMonth(at))"), OCTOBER)
        sql = drive(asked, described("UInt16", "UInt8"), monthly).steps[1].sql[ONE].text
        assert "CAST(toYear(at) AS UInt16) AS `chs3: key 0`, CAST(toMonth(at) AS UInt8) AS `chs3: key 1` " in sql
        assert "partitionId(`chs3: key 0`, `chs3: key 1`)" in sql

    def test_parentheses_that_are_no_tuple_stay(self):
        driven = drive(
            partitions_of_one(around_key("(toYear(at) * 100) + (toMonth(at))"), OCTOBER), described(), monthly
        )
        assert ", CAST((toYear(at) * 100) + (toMonth(at)) AS UInt32) AS `chs3: key 0` " in driven.steps[1].sql[ONE].text

    def test_is_asked_in_the_time_zone_of_the_column(self):
        context = around_key("toStartOfMonth(at)", Column("at", "DateTime64(3, 'Asia/Tokyo')", in_partition_key=True))
        text = drive(partitions_of_one(context, OCTOBER), described(), monthly).steps[1].sql[ONE].text
        assert "SELECT DISTINCT toYYYYMM(`at`) AS " in text
        assert " AS DateTime64(3, 'Asia/Tokyo')) AS `at` FROM " in text

    def test_a_column_without_a_time_zone_has_that_of_the_servers_whatever_the_session_has(self):
        context = around_key("toStartOfMonth(at)", Column("at", "DateTime", in_partition_key=True))
        text = drive(partitions_of_one(context, OCTOBER), described(), monthly).steps[1].sql[ONE].text
        assert " AS DateTime('UTC')) AS `at` FROM " in text

    def test_is_asked_in_the_time_zone_that_the_key_names(self):
        context = around_key("toYYYYMM(at, 'Asia/Tokyo')")
        driven = drive(partitions_of_one(context, OCTOBER), described(), {ONE: [("Asia/Tokyo",)]}, monthly)
        assert [step.name for step in driven.steps] == [
            "Ask for the types of the partition key",
            "Ask for the time zones of the partition key",
            "Ask for the partition of 2026-10",
        ]
        assert "SELECT DISTINCT toYYYYMM(`at`, 'Asia/Tokyo') AS " in driven.steps[2].sql[ONE].text

    def test_is_asked_in_that_of_the_column_where_the_key_is_not_monthly_in_its_own(self):
        def daily(step):
            return answer(lambda instant: instant[:10], step)

        context = around_key("toYYYYMM(at + (toTimeZone(at, 'Asia/Tokyo') > 0))")
        driven = drive(partitions_of_one(context, OCTOBER), described(), {ONE: [("Asia/Tokyo",)]}, daily, monthly)
        assert "SELECT DISTINCT toYYYYMM(`at`) AS " in driven.steps[3].sql[ONE].text

    def test_a_text_in_the_key_that_is_no_time_zone_is_none(self):
        asked = partitions_of_one(around_key("dateTrunc('month', at)"), OCTOBER)
        driven = drive(asked, described("Date"), {ONE: []}, monthly)
        assert "SELECT DISTINCT toYYYYMM(`at`) AS " in driven.steps[2].sql[ONE].text

    @pytest.mark.parametrize("of", ["Nullable(Date)", "LowCardinality(Date)", "LowCardinality(Nullable(Date))"])
    def test_a_wrapped_date_is_the_number_of_its_day(self, of):
        context = around_key("toStartOfMonth(at)", Column("at", of, in_partition_key=True))
        driven = drive(partitions_of_one(context, OCTOBER), described(of), monthly)
        assert f", toUInt16(CAST(toStartOfMonth(at) AS {of})) AS `chs3: key 0` " in driven.steps[1].sql[ONE].text

    @pytest.mark.parametrize(
        ("function", "why"),
        [
            (lambda instant: instant[:10], "2026-10 falls into 31 partitions"),
            (lambda instant: instant[11:13], "2026-10 falls into 24 partitions"),
            (lambda instant: (instant[:7], instant[11:13] == "02"), "2026-10 falls into 2 partitions"),
            (lambda instant: instant[8] < "2", "2026-10 falls into 2 partitions"),
            (lambda instant: instant[:4], "2026-10 shares a partition with other months"),
            (lambda instant: "all", "2026-10 shares a partition with other months"),
            (lambda instant: instant[5:7] > "09", "2026-10 shares a partition with other months"),
            (lambda instant: instant[5:7] > "10", "2026-10 shares a partition with other months"),
            (lambda instant: instant[5:7], "2026-10 shares a partition with other months"),
        ],
        ids=[
            "day",
            "hour",
            "one hour",
            "weeks",
            "year",
            "constant",
            "with the next",
            "with the one before",
            "of every year",
        ],
    )
    def test_a_key_that_is_not_monthly_is_refused(self, function, why):
        with pytest.raises(PreflightError, match=why):
            by(function)

    @pytest.mark.parametrize(
        ("partition_key", "columns"),
        [
            ("id % 10", (replace(ID, in_partition_key=True), replace(AT, in_partition_key=False))),
            ("toYYYYMM(at) + id", (replace(ID, in_partition_key=True), AT)),
            ("(toYYYYMM(at), toDate(until))", (AT, replace(AT, name="until"))),
            ("period", (Column("period", "String", in_partition_key=True), Column("at", "Date"))),
            ("e", (Column("e", "Enum8('Date' = 1)", in_partition_key=True),)),
            ("days[1]", (Column("days", "Array(Date)", in_partition_key=True),)),
        ],
    )
    def test_a_key_of_other_columns_is_refused_and_nothing_is_asked(self, partition_key, columns):
        with pytest.raises(PreflightError, match="a part of it must depend on a Date or DateTime column alone"):
            drive(partitions_of_one(around_key(partition_key, *columns), Period.of_month(2026, 10)))

    def test_the_refusal_shows_the_key_and_what_to_use(self):
        with pytest.raises(PreflightError, match=r"its key is 'toYear\(at\)'; .* PARTITION BY toYYYYMM\(`at`\)"):
            by(lambda instant: instant[:4], context=around_key("toYear(at)"))

    def test_the_refusal_of_a_table_without_dates_says_so(self):
        context = around_key("id", replace(ID, in_partition_key=True))
        with pytest.raises(PreflightError, match="with a Date or DateTime column and PARTITION BY toYYYYMM of it"):
            drive(partitions_of_one(context, Period.of_month(2026, 10)))

    def test_the_refusal_names_no_column_of_dates_within_another_type(self):
        context = around_key("toYYYYMM(t.d)", Column("t", "Tuple(d Date)", in_partition_key=True))
        with pytest.raises(PreflightError, match="with a Date or DateTime column and PARTITION BY toYYYYMM of it"):
            drive(partitions_of_one(context, OCTOBER))

    def test_a_hostile_column_name_is_quoted(self):
        context = around_key("toStartOfMonth(`a\\`t`)", Column("a`t", "DateTime", in_partition_key=True))
        driven = drive(partitions_of_one(context, OCTOBER), described(), monthly)
        assert "AS `a\\`t`" in driven.steps[1].sql[ONE].text
