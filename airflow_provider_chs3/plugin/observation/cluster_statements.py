"""The two statements that tell how a node is: their answers do not grow with tables, partitions and merges."""

from __future__ import annotations

from airflow_provider_chs3.core.cluster.node_capacity import physical_memory
from airflow_provider_chs3.core.cluster.node_facts import SIZE, NodeFacts
from airflow_provider_chs3.core.sql.quoting import Sql, one_of
from airflow_provider_chs3.core.values.merge_tree_limits import Limits

#: Tables, merges and entries of replication queues that are named for each node; of the rest, the number is told.
NAMED = 10
#: Threads for merges and mutations: how many work, how many there are.
POOL_METRICS = ("BackgroundMergesAndMutationsPoolTask", "BackgroundMergesAndMutationsPoolSize")


def size() -> Sql:
    """Ask a node for its version, the seconds since its start, and its size."""
    return Sql(f"SELECT version(), uptime(), {SIZE}")


def state(facts: NodeFacts) -> Sql:
    """Ask a node for memory, disks, the tables nearest to their limits, inserts of loads, merges and replication.

    Args:
        facts: What it said of its size.
    """
    limits = one_of("name", Limits.__slots__)
    return Sql(f"""
SELECT
    {physical_memory(facts)},
    (SELECT sum(memory_usage) FROM system.processes),
    (SELECT groupArray((name, type, free_space, unreserved_space, total_space)) FROM system.disks),
    (SELECT groupArray((name, value)) FROM system.merge_tree_settings WHERE {limits}),
    (SELECT groupArray((name, value)) FROM system.replicated_merge_tree_settings WHERE {limits}),
    {_fullest_tables()},
    (SELECT groupArray((initial_query_id, is_initial_query, read_rows, read_bytes, memory_usage, peak_memory_usage,
            elapsed)) FROM system.processes WHERE match(initial_query_id, '^chs3_.*_insert')),
    (SELECT groupArray((database, table, partition_id, toBool(is_mutation), progress, elapsed,
            total_size_bytes_compressed, num_parts))
        FROM (SELECT * FROM system.merges ORDER BY elapsed DESC LIMIT {NAMED})),
    (SELECT count() FROM system.merges),
    (SELECT groupArray((metric, value)) FROM system.metrics WHERE {one_of("metric", POOL_METRICS)}),
    (SELECT [count(), countIf(is_readonly), max(absolute_delay)] FROM system.replicas),
    (SELECT count() FROM system.replication_queue),
    (SELECT groupArray((database, table, type, new_part_name, dateDiff('second', create_time, now()), num_tries,
            toValidUTF8(last_exception), postpone_reason))
        FROM (SELECT * FROM system.replication_queue ORDER BY create_time LIMIT {NAMED}))
""")


def _fullest_tables() -> str:
    """Those that have come nearest to what their settings allow, with the partition that has most parts."""
    # Only their order goes by this; a limit that is written as '2K' counts as the server's there.
    return f"""(SELECT groupArray((database, table, engine, engine_full, fullest.1, fullest.2, fullest.3, parts)) FROM (
        SELECT database, table, engine, engine_full, fullest, parts FROM (
            SELECT database, table, argMax((partition_id, number, bytes), number) AS fullest, sum(number) AS parts
            FROM (SELECT database, table, partition_id, count() AS number, sum(bytes_on_disk) AS bytes
                FROM system.parts WHERE active AND database != 'system' GROUP BY ALL)
            GROUP BY ALL) AS counted
        INNER JOIN (SELECT database, name AS table, engine, engine_full FROM system.tables) AS named
        USING (database, table)
        ORDER BY greatest(fullest.2 / {_limit("parts_to_delay_insert")}, parts / {_limit("max_parts_in_total")}) DESC
        LIMIT {NAMED}))"""


def _limit(name: str) -> str:
    server = f"(SELECT any(toUInt64(value)) FROM system.merge_tree_settings WHERE name = '{name}')"
    own = f"toUInt64OrZero(extract(engine_full, '{name} = (\\\\d+)'))"
    return f"if({own} > 0, {own}, {server})"
