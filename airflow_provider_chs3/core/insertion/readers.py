"""Which node reads which rows, where the source must know it, and the proof that each was read once."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from airflow_provider_chs3.core.attempt.load_context import LoadContext
from airflow_provider_chs3.core.conversion.column_types import ColumnType
from airflow_provider_chs3.core.conversion.server_casts import is_integer
from airflow_provider_chs3.core.files.file_groups import Reading
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, table
from airflow_provider_chs3.core.workflow.operations import QueryNodes, Steps
from airflow_provider_chs3.exceptions import VerificationError


def with_readers(load: LoadContext) -> Steps[LoadContext]:
    """Return the same load, whose source knows the servers of each shard if it must.

    Args:
        load: The load.
    """
    source = load.files.source
    if not source.server_identity or not load.context.cluster:
        return load
    sql = dict.fromkeys(load.context.nodes, Sql(f"SELECT {source.server_identity}"))
    answers = yield from QueryNodes(name="Ask nodes for their identity", sql=sql)
    servers = defaultdict[int, list[str]](list)
    for node, rows in answers.items():
        servers[node.shard_num].append(rows[0][0])
    shards = [servers[shard] for shard in sorted(servers)]
    return replace(load, files=replace(load.files, source=source.read_by(shards)))


def check_keys(load: LoadContext, reading: Reading) -> Steps[None]:
    """Check that the keys in staging add up to the source's sum, which shows rows in place of others.

    Nothing is checked where the source has no such keys, or they are not loaded as whole numbers.

    Args:
        load: The load.
        reading: How rows are read.

    Raises:
        VerificationError: If they add up to another number.
    """
    source = load.files.source
    if not load.manifest.objects or (checksum := source.checksum_of(load.manifest)) is None:
        return
    loaded = [each for each in reading.loaded if each.source == identifier(checksum.column)]
    column = next((each.column for each in loaded if is_integer(ColumnType(each.column.type).bare)), None)
    if column is None:
        return
    sql = Sql(f"SELECT toString(sum(toInt256({identifier(column.name)}))) FROM {table(load.staging)}")
    answers = yield from QueryNodes(name="Add up the keys", sql=dict.fromkeys(load.context.publishers, sql))
    # A node may have rows without keys alone, which add up to NULL.
    staged = sum(int(rows[0][0] or 0) for rows in answers.values())
    if staged != checksum.total:
        raise VerificationError(
            f"The values of {column.name!r} of {load.request.period} add up to {checksum.total} in {source.place}, but "
            f"to {staged} in staging. The period was not published."
        )
