"""Rows of every type, on several nodes, in partitions of every kind: a proof compares what is stored."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.core.periods.digests import digest_columns
from airflow_provider_chs3.operators.ledger import AdoptPeriodsOperator
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.lake import PERIOD, Lake
from tests.support.proofs import prove, proved

TRIPS = Trips(rows_per_period=900, files_per_period=6)
#: Type → a value of JSON, the same in SQL, and what it could be mistaken for.
TYPES: dict[str, tuple[Any, str, str]] = {
    "Nullable(Int32)": (None, "NULL", "0"),
    "LowCardinality(Nullable(String))": (None, "NULL", "''"),
    "LowCardinality(String)": ("a", "'a'", "'b'"),
    "LowCardinality(FixedString(16))": ("abcd", "'abcd'", "'abc'"),
    "Array(Nullable(String))": (["a", None], "['a', NULL]", "['a', '']"),
    "Array(String)": (["ab", "c"], "['ab', 'c']", "['a', 'bc']"),
    "Tuple(a Nullable(Int32), b String)": ({"a": None, "b": "x"}, "(NULL, 'x')", "(0, 'x')"),
    "Map(String, Int32)": ({"a": 1, "b": 2}, "map('a', 1, 'b', 2)", "map('a', 2, 'b', 1)"),
    "Decimal(20, 3)": ("1.125", "1.125", "1.126"),
    "Float64": (0.0, "0.0", "-0.0"),
    "DateTime64(6, 'America/New_York')": (
        "2026-10-05 12:00:00.000001",
        "'2026-10-05 12:00:00.000001'",
        "'2026-10-05 12:00:00'",
    ),
    "FixedString(4)": ("abcd", "'abcd'", "'abc'"),
    "Enum8('a' = 1, 'b' = 2)": ("a", "'a'", "'b'"),
    "IPv6": ("::1", "'::1'", "'::2'"),
    "JSON": ({"b": {"x": 1}, "a": [1, 2]}, '\'{"a": [1, 2], "b": {"x": 1}}\'', '\'{"a": [1, 2], "b": {"x": 1.0}}\''),
    "Array(JSON)": ([{"b": 1, "a": 2}], '[\'{"a": 2, "b": 1}\']', '[\'{"a": 1, "b": 2}\']'),
    "Dynamic": ("1", "'1'", "1"),
    "Variant(Int64, String)": ("a", "'a'", "'b'"),
}
AS_JSON_LINES = {"key": "typed/{YYYY-MM}/", "definition": {"files": {"file_format": "JSONEachRow"}}}


def test_each_type_is_compared_by_all_that_its_values_are(lake: Lake) -> None:
    alike = {}
    for kind, (_, value, other) in TYPES.items():
        digest = digest_columns([("v", kind)])
        (one,), (another,) = (
            lake.on_node(0, f"SELECT {digest} FROM (SELECT CAST({each} AS {kind}) AS v)") for each in (value, other)
        )
        alike[kind] = [place for place, pair in enumerate(zip(one[1], another[1], strict=True)) if len({*pair}) == 1]
    assert alike == {kind: [] for kind in TYPES}


def test_values_of_each_type_are_the_same_in_files_and_in_parts_that_others_wrote_and_merged(lake: Lake) -> None:
    lake.table = "typed"
    names = {f"v{number}": kind for number, kind in enumerate(TYPES)}
    columns = ", ".join(f"{name} {kind}" for name, kind in names.items())
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.typed (ts DateTime('UTC'), {columns}) ENGINE = MergeTree "
        "PARTITION BY toYYYYMM(ts) ORDER BY tuple()"
    )
    row = {"ts": "2026-10-05 12:00:00"} | {name: TYPES[kind][0] for name, kind in names.items()}
    lake.put(f"typed/{PERIOD}/1.jsonl", (json.dumps(row) + "\n").encode() * 2)
    values = ", ".join(f"CAST({TYPES[kind][1]} AS {kind})" for kind in names.values())
    for _ in range(2):
        lake.on_node(0, f"INSERT INTO {lake.database}.typed SELECT '2026-10-05 12:00:00', {values}")
    lake.on_node(0, f"OPTIMIZE TABLE {lake.database}.typed FINAL")
    found = prove(lake, **AS_JSON_LINES)
    assert (found["status"], found["reason"], found["left_out"]) == ("equal", "2 rows", {})


@pytest.mark.three_nodes
def test_rows_that_are_spread_over_nodes_are_those_of_the_objects_wherever_they_are(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    trips_lake.load()
    where = {"key": "trips/{YYYY-MM}/"}
    target = f"{trips_lake.database}.trips"
    trips_lake.on_node(
        0,
        f"CREATE TABLE {trips_lake.database}.all AS {target} ENGINE = Distributed('{trips_lake.cluster.name}', "
        f"{trips_lake.database}, trips)",
    )
    equal = prove(trips_lake, table="all", cluster=None, **where)
    assert (equal["status"], equal["reason"]) == ("equal", "900 rows")
    # A row that is on two nodes, and another that is on none: as many as there should be.
    # Which node reads which object differs.
    place = next(place for place in range(3) if trips_lake.on_node(place, f"SELECT count() FROM {target}") != [(0,)])
    row = trips_lake.on_node(place, f"SELECT * FROM {target} ORDER BY trip_id LIMIT 1")
    last = f"SELECT max(trip_id) FROM {target}"
    trips_lake.on_node(place, f"ALTER TABLE {target} DELETE WHERE trip_id = ({last}) SETTINGS mutations_sync = 2")
    with trips_lake.cluster.nodes[(place + 1) % 3].client() as client:
        client.execute(f"INSERT INTO {target} VALUES", row)
    found = prove(trips_lake, **where)
    assert (found["status"], found["rows"]) == ("differs", 900)
    assert "trip_id" in found["columns"]


@pytest.mark.thorough
def test_a_period_may_own_the_partitions_of_many_tenants_or_an_hour_that_a_clock_repeats(lake: Lake) -> None:
    for name, key in (("tenants", "(toYYYYMM(ts), tenant)"), ("hours", "toStartOfHour(ts)"), ("whole", "")):
        lake.on_node(
            0,
            f"CREATE TABLE {lake.database}.{name} (ts DateTime('America/New_York'), tenant String) "
            f"ENGINE = MergeTree {key and f'PARTITION BY {key}'} ORDER BY tuple()",
        )
    # 01:30 of that night, twice.
    hours = {"2026-11-01T05": 1793511000, "2026-11-01T06": 1793514600}
    for tenant, (hour, at) in zip("ab", hours.items(), strict=True):
        for prefix in ("tenants/2026-11", f"hours/{hour}", "whole"):
            lake.put(f"{prefix}/{tenant}.csv", f"ts,tenant\n{at},{tenant}\n".encode())
        for name in ("tenants", "hours", "whole"):
            lake.on_node(0, f"INSERT INTO {lake.database}.{name} SELECT {at}, '{tenant}'")

    def found(table: str, key: str) -> dict[str, str]:
        return {
            each["period"]: each["reason"]
            for each in proved(lake, table=table, key=key, periods=None, all_periods=True)
        }

    assert found("tenants", "tenants/{YYYY-MM}/") == {"2026-11": "2 rows"}
    assert found("hours", "hours/{YYYY-MM-DD}T{HH}/") == {"2026-11-01T05Z": "1 row", "2026-11-01T06Z": "1 row"}
    assert found("whole", "whole/") == {"all": "2 rows"}


@pytest.mark.thorough
def test_merges_that_remove_rows_are_named_as_what_may_have_done_it(lake: Lake) -> None:
    lake.table = "fares"
    lake.on_node(
        0,
        f"CREATE TABLE {lake.database}.fares (id Int64, ts DateTime('UTC')) ENGINE = ReplacingMergeTree "
        "PARTITION BY toYYYYMM(ts) ORDER BY id",
    )
    lake.put(f"fares/{PERIOD}/1.csv", b"id,ts\n1,2026-10-05\n1,2026-10-05\n")
    lake.on_node(0, f"INSERT INTO {lake.database}.fares VALUES (1, '2026-10-05')")
    assert prove(lake)["reason"].endswith("A ReplacingMergeTree may have removed rows itself")


def test_only_what_is_proved_is_adopted(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    trips_lake.insert_objects()
    adopt = AdoptPeriodsOperator(
        task_id="adopt",
        table="trips",
        database=trips_lake.database,
        cluster=trips_lake.cluster.name,
        bucket=trips_lake.bucket,
        key="trips/{YYYY-MM}/",
        periods=[PERIOD],
        prove=True,
    )
    update = f"ALTER TABLE {trips_lake.database}.trips UPDATE fare = fare {{}} 1 WHERE 1 SETTINGS mutations_sync = 2"
    trips_lake.on_every_node(update.format("+"))
    with pytest.raises(
        AirflowFailException, match="refused: its rows are not those of its objects: other values in fare"
    ):
        adopt.execute({})
    trips_lake.on_every_node(update.format("-"))
    assert adopt.execute({})[0]["reason"] == "its rows are those of its objects: 900 rows"
    assert trips_lake.load()["status"] == "unchanged"
