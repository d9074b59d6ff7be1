"""Handle columns of the files that the target lacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from airflow_provider_chs3.core.files.file_groups import Reading
from airflow_provider_chs3.core.files.file_set import Files
from airflow_provider_chs3.core.files.guessed_columns import columns_of
from airflow_provider_chs3.core.files.sample import read_sample
from airflow_provider_chs3.core.files.table_suggestion import new_column
from airflow_provider_chs3.core.load.period_load import PeriodLoad
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, is_table, table
from airflow_provider_chs3.core.steps.operations import Log, QueryNodes, Steps
from airflow_provider_chs3.exceptions import ColumnsAddedError, SourceError


def settle_new_columns(load: PeriodLoad, reading: Reading) -> Steps[None]:
    """Add missing columns to the target, or refuse them, as the policy demands.

    Raises:
        SourceError: If the policy refuses them.
        ColumnsAddedError: If columns were added, and the load must inspect the target again.
    """
    policy = load.policies.on_new_columns
    if policy == "warn" or not load.files.manifest.objects:
        return
    known = {column.name for column in load.context.table_facts.columns}
    lacking = [name for name in (yield from _read_names(load, reading)) if name not in known]
    if not lacking:
        return
    names = ", ".join(map(repr, lacking))
    if policy == "fail":
        raise SourceError(
            f"The files of {load.periods} have columns that {load.context.target} lacks: {names}. Add them to the "
            "table, or load without them with policies={'on_new_columns': 'warn'}."
        )
    yield from _add_columns(load, lacking)
    raise ColumnsAddedError(f"The columns {names} of the files of {load.periods} were added to {load.context.target}.")


def _read_names(load: PeriodLoad, reading: Reading) -> Steps[Sequence[str]]:
    """Return the columns of the files; for JSON a separate query, none for texts without names."""
    if reading.names is not None or not load.files.format.names_columns:
        return reading.names or ()
    return [column.name for column in (yield from columns_of(_guessed_files(load)))]


def _guessed_files(load: PeriodLoad) -> Files:
    """Return the files with the server's type inference: a load reads all fields as text."""
    return replace(load.files, settings=load.request.selection.csv.settings)


def _add_columns(load: PeriodLoad, names: Sequence[str]) -> Steps[None]:
    files = _guessed_files(load)
    columns = [column for column in (yield from columns_of(files)) if column.name in names]
    sample = yield from read_sample(files, columns, load.period)
    # Existing rows have no value.
    new = [new_column(replace(column, lacking_files=len(files.manifest.objects)), sample) for column in columns]
    shown = "\n".join(f"  {column.name} {column.type}" for column in new)
    yield from Log(name=f"The files of {load.periods} have new columns. Adding them to {load.context.target}:\n{shown}")
    clauses = ", ".join(f"ADD COLUMN IF NOT EXISTS {identifier(column.name)} {column.type}" for column in new)
    context, named = load.context, load.request.target
    sql = Sql(f"ALTER TABLE {table(context.target)} {clauses}")
    # A single replica per shard waits for the others. An ALTER evaluates the table's keys under its session's
    # settings, and REPLACE PARTITION then expects parts of that type.
    of_shards = dict.fromkeys(context.publishers, sql)
    settings = {**context.evaluating, **context.ddl_settings_of(context.target.database), "alter_sync": 2}
    yield from QueryNodes(name=f"Add columns to {context.target}", sql=of_shards, settings=settings)
    if named != context.target:
        has_it = Sql(f"SELECT count() FROM system.tables WHERE {is_table(named)}")
        counts = yield from QueryNodes(name=f"Look for {named}", sql=dict.fromkeys(context.nodes, has_it))
        over = Sql(f"ALTER TABLE {table(named)} {clauses}")
        nodes = [node for node, ((count,),) in counts.items() if count]
        yield from QueryNodes(name=f"Add columns to {named}", sql=dict.fromkeys(nodes, over))
