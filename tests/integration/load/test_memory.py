"""No load takes more of a node's memory than the share that was declared, however much it loads, and however."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.lake import PERIOD, Lake

pytestmark = pytest.mark.three_nodes

#: Loads may have a quarter of it.
MEMORY: dict[str, Any] = {"node_specs": {"default": {"cores": 2, "memory": "2GiB"}}, "memory_share": 0.25}
SHARE_BYTES = 512 * 1024**2
#: In rows of nine columns of eight bytes.
ROWS = 300_000
#: 2.4 MB each, where rows have 300 columns.
SMALL_GROUPS = "output_format_parquet_row_group_size = 1000"
#: As large as ClickHouse makes them.
ONE_GROUP = (
    "output_format_parquet_row_group_size = 100000000, output_format_parquet_row_group_size_bytes = 100000000000, "
    "output_format_parquet_parallel_encoding = 0"
)


def fill(lake: Lake, s3: Any, period: str, *, rows: int, files: int, columns: int = 8, settings: str = "") -> None:
    """Have a node write a period's files."""
    numbers = ", ".join(f"cityHash64(number, {column}) AS c{column}" for column in range(columns))
    for file in range(files):
        url = f"{s3.endpoint_url}/{lake.bucket}/trips/{period}/{file}.parquet"
        lake.on_node(
            file % 3,
            f"INSERT INTO FUNCTION s3('{url}', '{s3.access_key}', '{s3.secret_key}', 'Parquet') SELECT "
            f"toDateTime('{period}-01', 'UTC') + number % 1000000 AS at, {numbers} FROM numbers({rows // files}) "
            f"SETTINGS {settings or 'output_format_parquet_row_group_size = 50000'}",
        )


def create(lake: Lake, *, columns: int = 8) -> None:
    names = ", ".join(f"c{column} UInt64" for column in range(columns))
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.trips (at DateTime('UTC'), {names}) "
        "ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY at"
    )


def peaks_by_node(lake: Lake) -> list[int]:
    """The peaks of all inserts of a node's loads together; of one that began again, the highest."""
    lake.on_every_node("SYSTEM FLUSH LOGS query_log")
    sql = (
        "SELECT sum(peak) FROM (SELECT max(memory_usage) AS peak FROM system.query_log WHERE type != 'QueryStart' "
        "AND match(initial_query_id, '^chs3_[^_]+_[^_]+_insert') AND query_kind = 'Insert' "
        f"AND has(databases, '{lake.database}') GROUP BY splitByChar('_', initial_query_id)[2])"
    )
    return [peak for ((peak,),) in lake.on_every_node(sql)]


def inserts(lake: Lake) -> int:
    lake.on_every_node("SYSTEM FLUSH LOGS query_log")
    sql = (
        "SELECT uniqExact(initial_query_id) FROM system.query_log WHERE query_kind = 'Insert' "
        f"AND match(initial_query_id, '^chs3_[^_]+_[^_]+_insert') AND has(databases, '{lake.database}')"
    )
    return max(number for ((number,),) in lake.on_every_node(sql))


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("data", "columns"),
    [
        pytest.param({"rows": ROWS, "files": 3}, 8, id="little"),
        pytest.param({"rows": 10 * ROWS, "files": 6}, 8, id="ten times as much"),
        pytest.param({"rows": 21_000, "files": 3, "columns": 300, "settings": SMALL_GROUPS}, 300, id="wide rows"),
        pytest.param({"rows": 5 * ROWS, "files": 1, "settings": ONE_GROUP}, 8, id="one large row group"),
    ],
)
def test_a_period_stays_within_its_share(lake: Lake, chs3_s3: Any, data: dict[str, Any], columns: int) -> None:
    create(lake, columns=columns)
    fill(lake, chs3_s3, PERIOD, **data)
    assert lake.load(**MEMORY, parallel_loads=1)["rows"] == data["rows"]
    assert max(peaks_by_node(lake)) < SHARE_BYTES


@pytest.mark.thorough
def test_so_do_six_periods_side_by_side(lake: Lake, chs3_s3: Any) -> None:
    """Also where one node reads all files of a period, as it may when others are busy."""
    create(lake)
    periods = [f"2026-{number:02}" for number in range(1, 7)]
    for period in periods:
        fill(lake, chs3_s3, period, rows=ROWS, files=3)

    def load(period: str) -> Any:
        return lake.load(period=period, parallel_loads=6, **MEMORY)["rows"]

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(load, periods)) == 6 * ROWS
    assert max(peaks_by_node(lake)) < SHARE_BYTES


@pytest.mark.thorough
def test_what_does_not_fit_begins_again_with_less_and_at_last_says_so(lake: Lake, chs3_s3: Any) -> None:
    """The one group of rows is 144 MB, and as much again once it is decoded."""
    create(lake, columns=300)
    fill(lake, chs3_s3, PERIOD, rows=60_000, files=1, columns=300, settings=ONE_GROUP)
    with pytest.raises(Exception, match="smallest blocks and the fewest threads") as caught:
        lake.load(**{**MEMORY, "memory_share": 0.1}, parallel_loads=1)
    assert "memory_share" in str(caught.value)
    assert inserts(lake) > 3
    assert max(peaks_by_node(lake)) < 256 * 1024**2
