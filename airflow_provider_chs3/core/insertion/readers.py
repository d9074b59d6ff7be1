"""Which node reads which rows of a table in a database, and the proof that each was read once."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from airflow_provider_chs3.core.attempt.load_context import LoadContext
from airflow_provider_chs3.core.conversion.column_types import ColumnType
from airflow_provider_chs3.core.conversion.server_casts import is_integer
from airflow_provider_chs3.core.files.file_groups import Reading
from airflow_provider_chs3.core.rows.sql_source import SERVER, SqlSource, rows_and_keys
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, table
from airflow_provider_chs3.core.workflow.operations import QueryNodes, Steps
from airflow_provider_chs3.exceptions import VerificationError


def with_readers(load: LoadContext) -> Steps[LoadContext]:
    """Return the same load, whose source knows the servers of each shard if it reads rows on a cluster.

    Args:
        load: The load.
    """
    source = load.files.source
    if not isinstance(source, SqlSource) or not load.context.cluster:
        return load
    sql = dict.fromkeys(load.context.nodes, Sql(f"SELECT {SERVER}"))
    answers = yield from QueryNodes(name="Ask nodes what tells them apart", sql=sql)
    servers = defaultdict[int, list[str]](list)
    for node, rows in answers.items():
        servers[node.shard_num].append(rows[0][0])
    shards = tuple(tuple(servers[shard]) for shard in sorted(servers))
    return replace(load, files=replace(load.files, source=replace(source, shards=shards)))


def check_keys(load: LoadContext, reading: Reading) -> Steps[None]:
    """Check that the keys in staging add up to what the database says: a row in place of another one would show.

    Nothing is checked where there is no key of whole numbers, or it is not loaded as one.

    Args:
        load: The load.
        reading: How rows are read.

    Raises:
        VerificationError: If they add up to another number.
    """
    source = load.files.source
    if not isinstance(source, SqlSource) or not load.manifest.objects:
        return
    keys = {each.name for each in source.columns if each.is_integer and each.name == source.table.key_column}
    loaded = [each for each in reading.loaded if keys and each.source == identifier(*keys)]
    column = next((each.column for each in loaded if is_integer(ColumnType(each.column.type).bare)), None)
    if column is None:
        return
    sql = Sql(f"SELECT toString(sum(toInt256({identifier(column.name)}))) FROM {table(load.staging)}")
    answers = yield from QueryNodes(name="Add up the keys", sql=dict.fromkeys(load.context.publishers, sql))
    staged = sum(int(rows[0][0]) for rows in answers.values())
    _, wanted = rows_and_keys(load.manifest.objects[0].etag)
    if staged != wanted:
        raise VerificationError(
            f"The values of {column.name!r} of {load.request.month} add up to {wanted} in {source.place}, but to "
            f"{staged} in staging. Nothing was published."
        )
