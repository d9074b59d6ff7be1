"""A table whose merges take as long as a test wants, and whose parts nobody merges by himself."""

from __future__ import annotations

from airflow_provider_chs3.testbed.nodes import RunningNode
from tests.support.lake import Lake

SECONDS_PER_ROW = 0.01

# Merges compute the index, row by row; inserts are told not to.
_CREATE = (
    "CREATE TABLE {} (id UInt64, at DateTime('UTC'), INDEX slow sleepEachRow({}) TYPE minmax) ENGINE = MergeTree "
    "PARTITION BY toYYYYMM(at) ORDER BY id "
    "SETTINGS merge_max_block_size = 10, index_granularity = 10, min_parts_to_merge_at_once = 1000{}"
)


def create(lake: Lake, **settings: str | int) -> None:
    """Create it on every node, with further settings."""
    further = "".join(f", {name} = {value!r}" for name, value in settings.items())
    lake.on_every_node(_CREATE.format(f"{lake.database}.{lake.table}", SECONDS_PER_ROW, further))


def insert(lake: Lake, node: int, period: str, *, parts: int = 4, seconds: float = 0.04) -> None:
    """Parts of a period whose merge takes so long."""
    rows = round(seconds / SECONDS_PER_ROW / parts)
    with lake.cluster.nodes[node].client() as client:
        for _ in range(parts):
            client.execute(
                f"INSERT INTO {lake.database}.{lake.table} SELECT number, toDateTime('{period}-05 00:00:00', 'UTC') "
                f"FROM numbers({rows})",
                settings={"materialize_skip_indexes_on_insert": 0},
            )


def parts(lake: Lake, period: str) -> list[int]:
    """Parts of a period on each node."""
    sql = (
        f"SELECT count() FROM system.parts WHERE active AND database = '{lake.database}' AND table = '{lake.table}' "
        f"AND partition_id = '{period.replace('-', '')}'"
    )
    return [rows[0][0] for rows in lake.on_every_node(sql)]


def running(lake: Lake) -> list[list[str]]:
    """The OPTIMIZEs that run on each node."""
    sql = "SELECT query_id FROM system.processes WHERE startsWith(query_id, 'chs3_optimize_')"
    return [[query_id for (query_id,) in rows] for rows in lake.on_every_node(sql)]


def merging(lake: Lake) -> list[list[str]]:
    """The partitions that merge on each node."""
    sql = f"SELECT partition_id FROM system.merges WHERE database = '{lake.database}'"
    return [[partition_id for (partition_id,) in rows] for rows in lake.on_every_node(sql)]


def address(node: RunningNode) -> str:
    """How results name it."""
    return f"{node.host}:{node.tcp_port}"
