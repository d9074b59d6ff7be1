"""Render the statement that inserts objects, and others that read them alike."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_chs3.core.files.loaded_columns import DOES_NOT_FIT, FileGroup
from airflow_provider_chs3.core.files.reading import Batch
from airflow_provider_chs3.core.load.period_load import InsertPlan, PeriodLoad
from airflow_provider_chs3.core.sql.complete_answers import passed_on
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal, table
from airflow_provider_chs3.core.steps.operations import Insert

#: The error text for a row of another period.
OF_ANOTHER_PERIOD = "a row belongs to another period than its file"
#: An alias for the condition on the files of the period. No column of a file has this name.
_OF_PERIOD = "`chs3: of the period`"


def insert_step(load: PeriodLoad, plan: InsertPlan, group: FileGroup, batch: Batch, *, query_id: str) -> Insert:
    """Return the step that inserts a batch of objects."""
    null_as_default = load.request.selection.null_as_default
    names = ", ".join(identifier(loaded_column.column.name) for loaded_column in group.loaded)
    values = [loaded_column.cast(null_as_default=null_as_default).value for loaded_column in group.loaded]
    sql = select_objects(load, group, batch, values).between(f"INSERT INTO {_render_target(load)} ({names}) ")
    what = load.files.source.kind.contents.inserted(len(batch.paths))
    return Insert(
        name=f"Insert {what} of {load.periods}",
        sql=passed_on(sql, {**load.files.neutral, **load.files.settings, **plan.setting_values}),
        settings={**load.context.permissions, **plan.setting_values},
        query_id=query_id,
        attempt=load.attempt.nonce,
        cluster=load.context.cluster,
        total_rows=plan.reading.rows,
        paths=batch.paths,
        bytes_event=load.files.source.kind.bytes_event,
    )


def select_objects(load: PeriodLoad, group: FileGroup, batch: Batch, values: Sequence[str]) -> Sql:
    """Return the SELECT over a batch of objects that fails if their insert would."""
    return load.files.source.select(
        values,
        function=load.files.read(batch.glob, structure=group.structure),
        condition=_render_condition(load, group, batch),
        cluster=load.context.cluster,
    )


def _render_condition(load: PeriodLoad, group: FileGroup, batch: Batch) -> str:
    """Render the condition that keeps the period's rows, and fails on values that differ from the file's.

    If several periods are loaded together, it also fails on rows outside the period of their file: row counts would
    not detect two files that swapped rows.
    """
    null_as_default = load.request.selection.null_as_default
    rows = load.files.source.rows_of(batch)
    held = [held for loaded_column in group.loaded if (held := loaded_column.holds(null_as_default=null_as_default))]
    thrown = [(" AND ".join(held), DOES_NOT_FIT)] if held else []
    if load.group:
        thrown.append((load.group.is_of_period, OF_ANOTHER_PERIOD))
    checks = [f"NOT throwIf({_OF_PERIOD} AND NOT ifNull({must}, 0), {literal(text)})" for must, text in thrown]
    return " AND ".join([f"({rows} AS {_OF_PERIOD})", *checks]) if checks else rows


def _render_target(load: PeriodLoad) -> str:
    """Render the target: `cluster(…)`, because an insert by the table's name writes only on the first node."""
    context, into = load.context, load.staging
    if not context.cluster:
        return table(into)
    arguments = [literal(context.cluster), identifier(into.database), identifier(into.table)]
    if load.policies.distribution == "sharding_key" and context.sharding_key:
        # The server itself wrote this key in the definition of the Distributed table.
        arguments.append(context.sharding_key)
    return f"FUNCTION cluster({', '.join(arguments)})"
