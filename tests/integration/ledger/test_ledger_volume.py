"""A look-up reads little of a ledger in which loads have written for years."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from airflow_provider_chs3.core.ledger.queries import look_up, periods_on_node
from airflow_provider_chs3.core.ledger.table import LedgerKey, create_ledger
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.model.period import Grain, Period
from airflow_provider_chs3.core.sql.quoting import literal
from airflow_provider_chs3.core.target.period_partitions import PeriodPartitions
from tests.support.lake import Lake

#: As long as that of a few parts.
EVIDENCE_BYTES = 400
#: Bytes of the columns of the key, however often they are read.
KEY_BYTES = 150


@pytest.fixture
def ledger(trips_lake: Lake) -> Iterator[TableName]:
    name = TableName(trips_lake.database, "chs3_ledger")
    trips_lake.on_node(0, create_ledger(name).text)
    yield name
    trips_lake.on_node(0, f"DROP TABLE {name} SYNC")


def keys_of(lake: Lake, *periods: str) -> list[LedgerKey]:
    of_table = f"database = '{lake.database}' AND name = '{lake.table}'"
    ((target_uuid,),) = lake.on_node(0, f"SELECT toString(uuid) FROM system.tables WHERE {of_table}")
    target = TableName(lake.database, lake.table)
    return [LedgerKey(target, target_uuid, Period.parse(period), period.replace("-", "")) for period in periods]


def record(lake: Lake, ledger: TableName, keys: list[LedgerKey], *, loads: int) -> None:
    """As so many loads of each period record it: an intent, and that it is published."""
    periods = ", ".join(f"({literal(str(key.period))}, {literal(key.partition_id)})" for key in keys)
    lake.on_node(
        0,
        f"INSERT INTO {ledger} (sequence, event, target_database, target_table, target_uuid, period, partition_id, "
        f"partitions, attempt, evidence, rows) SELECT number + 1, number % 2 ? 'published' : 'intent', "
        f"'{lake.database}', '{lake.table}', '{keys[0].target_uuid}', of_period.1, of_period.2, [of_period.2], "
        f"toString(intDiv(number, 2)), repeat(toString(cityHash64(number, of_period)), {EVIDENCE_BYTES // 20}), number "
        f"FROM numbers({2 * loads}) ARRAY JOIN [{periods}] AS of_period SETTINGS max_block_size = 1000000",
    )


def read(lake: Lake, ledger: TableName, keys: list[LedgerKey]) -> tuple[list[int], int]:
    """Rows of the newest record of each period, and the bytes that it took to find them."""
    query_id, owns = uuid.uuid4().hex, {key.period: PeriodPartitions(key.partition_id) for key in keys}
    with lake.cluster.nodes[0].client() as client:
        ((*row,),) = client.execute(look_up(ledger, keys[0], owns, with_records=True).text, query_id=query_id)
        client.execute("SYSTEM FLUSH LOGS")
        ((read_bytes,),) = client.execute(
            f"SELECT read_bytes FROM system.query_log WHERE query_id = '{query_id}' AND type = 'QueryFinish'"
        )
    return [period.record.rows for period in periods_on_node(row, owns).values() if period.record], read_bytes


def test_of_a_load_each_five_minutes_only_the_newest_evidence_is_read(trips_lake: Lake, ledger: TableName) -> None:
    keys, loads = keys_of(trips_lake, "2026-10"), 50_000
    record(trips_lake, ledger, keys, loads=loads)
    rows, read_bytes = read(trips_lake, ledger, keys)
    assert rows == [2 * loads - 1]
    assert read_bytes < 2 * loads * KEY_BYTES < 2 * loads * EVIDENCE_BYTES / 2


def test_of_many_periods_the_newest_record_of_each_is_found(trips_lake: Lake, ledger: TableName) -> None:
    first = Period.parse("2020-01-01")
    assert first.grain is Grain.DAY
    keys = keys_of(trips_lake, *(str(first.shifted(number)) for number in range(1_500)))
    record(trips_lake, ledger, keys, loads=5)
    rows, _ = read(trips_lake, ledger, keys)
    assert rows == [9] * 1_500
