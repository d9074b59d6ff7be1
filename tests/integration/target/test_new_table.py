"""`ddl`: a table for the files of a period, which then holds what they have."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.lake import PERIOD, Lake
from tests.support.refusal import parquet

TRIPS = Trips(rows_per_period=2_000, files_per_period=4)


def ddl(lake: Lake, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    place = ["--bucket", lake.bucket, "--key", "trips/{YYYY-MM}/", "--period", PERIOD, "--database", lake.database]
    code = main(["ddl", "--table", "suggested", *place, *arguments])
    out, err = capsys.readouterr()
    assert (code, err) == (0, ""), err
    return out


def refusal(lake: Lake, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    place = ["--bucket", lake.bucket, "--key", "trips/{YYYY-MM}/", "--period", PERIOD, "--database", lake.database]
    assert main(["ddl", "--table", "suggested", *place, *arguments]) == 2
    return capsys.readouterr().err


def created(lake: Lake, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ddl(lake, capsys, "--output=json"))
    lake.on_every_node(found["statements"][0])
    lake.table = "suggested"
    return {each["name"]: each for each in found["columns"]}


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("file_format", ["parquet", "csv.gz", "jsonl"])
def test_the_table_takes_the_period(lake: Lake, capsys: pytest.CaptureFixture[str], file_format: str) -> None:
    lake.upload(TRIPS, file_format=file_format)
    columns = created(lake, capsys)
    assert columns["zone"]["type"].startswith("LowCardinality(")
    assert lake.load()["rows"] == 2_000
    total = f"SELECT count(), sum(trip_id), uniqExact(trip_id) FROM {lake.database}.suggested"
    ids = TRIPS.table(PERIOD)["trip_id"].to_pylist()
    assert lake.on_node(0, total) == [(len(ids), sum(ids), len(set(ids)))]


def test_the_types_are_the_widest_of_all_files(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    days = pa.array(["2026-10-01", "2026-10-31"]).cast(pa.date32())
    narrow = {"day": days, "n": pa.array([1, -2], pa.int8()), "x": pa.array([0.5, 1.5], pa.float32())}
    wide = {"day": days, "n": pa.array([2**40, None], pa.int64()), "x": pa.array([0.1, 2], pa.float64())}
    lake.put(f"trips/{PERIOD}/a.parquet", parquet(pa.table(narrow)))
    lake.put(f"trips/{PERIOD}/b.parquet", parquet(pa.table(wide | {"late`r": pa.array(["a", "b"])})))
    columns = created(lake, capsys)
    assert {name: each["type"] for name, each in columns.items()} == {
        "day": "Date32",
        "n": "Nullable(Int64)",
        "x": "Float64",
        "late`r": "Nullable(String)",
    }
    assert columns["late`r"]["reason"] == "missing in 1 of the files"
    lake.load(select={"day": "day", "n": "n", "x": "x"})
    rows = lake.on_node(0, f"SELECT n, x FROM {lake.database}.suggested ORDER BY x")
    assert rows == [(2**40, 0.1), (1, 0.5), (-2, 1.5), (None, 2.0)]


@pytest.mark.thorough
def test_another_delimiter_is_named_and_then_read(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.put(f"trips/{PERIOD}/a.csv", b'day;n;x\n2026-10-01;1;"a;b"\n2026-10-31;-2;1,5\n')
    assert "csv={'delimiter': ';'}; chs3 ddl takes it as --csv '{\"delimiter\": \";\"}'" in refusal(lake, capsys)
    statement = json.loads(ddl(lake, capsys, "--output=json", "--csv", '{"delimiter": ";"}'))["statements"][0]
    lake.on_every_node(statement)
    lake.table = "suggested"
    lake.load(csv={"delimiter": ";"})
    assert lake.on_node(0, f"SELECT n, x FROM {lake.database}.suggested ORDER BY n") == [(-2, "1,5"), (1, "a;b")]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("ending", "texts", "says", "column"),
    [
        ("jsonl", [-1, 2**64 - 1], r"a\.jsonl cannot be read .*type UInt64 for column 'n'", "Int128"),
        ("csv", [*[1] * 25_000, "x"], r"row 25,001 of \S*a\.csv cannot be read", "String"),
    ],
)
def test_types_that_the_server_guesses_wrong_are_given_by_hand(
    lake: Lake, capsys: pytest.CaptureFixture[str], ending: str, texts: list[Any], says: str, column: str
) -> None:
    rows = [f"2026-10-01,{text}" if ending == "csv" else f'{{"day":"2026-10-01","n":{text}}}' for text in texts]
    lake.put(f"trips/{PERIOD}/a.{ending}", "\n".join([*["day,n"] * (ending == "csv"), *rows]).encode())
    assert re.search(rf"{says}.*: create the table yourself, with columns that hold", refusal(lake, capsys))
    lake.table = "suggested"
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.suggested (day Date, n {column}) ENGINE = MergeTree "
        "PARTITION BY toYYYYMM(day) ORDER BY n"
    )
    lake.load()
    found = lake.on_node(0, f"SELECT n, count() FROM {lake.database}.suggested GROUP BY n ORDER BY n")
    assert {str(value): number for value, number in found} == Counter(map(str, texts))


@pytest.mark.thorough
def test_texts_that_a_number_would_not_keep_are_texts(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("2026-10-05", "01234", "12345678901234567890123", "0", "0.5"), ("2026-10-06", "99999", "1", "-7", "1.5")]
    lines = [("day", "zip", "id", "n", "x"), *rows]
    lake.put(f"trips/{PERIOD}/a.csv", "\n".join(map(",".join, lines)).encode())
    columns = created(lake, capsys)
    assert {name: each["type"] for name, each in columns.items()} == {
        "day": "Date",
        "zip": "String",
        "id": "String",
        "n": "Int64",
        "x": "Float64",
    }
    assert columns["zip"]["reason"] == "a number would not keep the zeros or digits of 1 row"
    lake.load()
    found = lake.on_node(0, f"SELECT zip, id, n, x FROM {lake.database}.suggested ORDER BY day")
    assert found == [("01234", "12345678901234567890123", 0, 0.5), ("99999", "1", -7, 1.5)]


def test_each_choice_has_its_reason(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"No objects for {PERIOD} under {lake.bucket}/trips/" in refusal(lake, capsys)
    lake.upload(TRIPS)
    assert "The dialect of CSV has no effect on Parquet" in refusal(lake, capsys, "--csv", '{"delimiter": ";"}')
    shown = ddl(lake, capsys)
    assert f"-- 2,000 of 2,000 rows read are of {PERIOD}.\nPARTITION BY toYYYYMM(`pickup_at`)\n" in shown
    assert "values in 2,000 rows" in shown
    assert "`pickup_at`);\n\n-- The rows of all nodes:\n" in shown


@pytest.mark.thorough
def test_columns_that_no_type_holds_are_refused(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.put(f"trips/{PERIOD}/a.parquet", parquet(pa.table({"n": pa.array([[1]])})))
    lake.put(f"trips/{PERIOD}/b.parquet", parquet(pa.table({"n": pa.array(["a"])})))
    assert "No type holds column 'n' of all files" in refusal(lake, capsys)


def test_a_wrong_password_is_not_the_files_fault(
    lake: Lake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.upload(TRIPS)
    connection = json.loads(os.environ["AIRFLOW_CONN_CHS3_DEFAULT"]) | {"password": "another"}
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))
    said = refusal(lake, capsys)
    assert "Authentication failed" in said
    assert ".parquet" not in said


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_a_cluster_gets_a_table_over_all_nodes(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.upload(TRIPS)
    local, over_all = json.loads(ddl(lake, capsys, "--output=json", "--cluster", lake.cluster.name))["statements"]
    lake.on_every_node(local)
    lake.on_every_node(over_all)
    lake.table = "suggested_all"
    assert lake.load(cluster=None)["rows"] == 2_000
    assert lake.on_node(1, f"SELECT count() FROM {lake.database}.suggested_all") == [(2_000,)]
