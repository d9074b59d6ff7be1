"""Is what is in a table what is in the objects, whoever wrote it?"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.core.load.retry_policy import Reload, reload_of
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.model.period import Period
from tests.support.lake import PERIOD, Lake
from tests.support.proofs import prove, proved

_COLUMNS = "id Int64, ts DateTime('UTC'), name String, fare Nullable(Float64), tip Float64"
_HEADER = "id,ts,name,fare,tip\n"
#: Three objects of unlike rows; of the first, `fare` is NULL, and `tip` is 0 or 1.
OBJECTS = {
    "a": [f"{number},2026-10-05 12:00:00,name {number % 3},\\N,{number % 2}" for number in range(10)],
    "b": [f"{number},2026-10-06 12:00:00,name {number % 4},{number}.5,1" for number in range(10, 30)],
    "c": [f"{number},2026-10-07 12:00:00,name {number % 5},{number}.5,2" for number in range(30, 70)],
}


def put(lake: Lake, name: str, rows: list[str], period: str = PERIOD) -> str:
    lake.put(f"fares/{period}/{name}.csv", (_HEADER + "\n".join(rows) + "\n").encode())
    return f"{lake.bucket}/fares/{period}/{name}.csv"


@pytest.fixture
def fares(lake: Lake) -> Lake:
    """A table that nobody loads with this package, and three objects whose rows it holds."""
    lake.table = "fares"
    lake.on_node(
        0,
        f"CREATE TABLE {lake.database}.fares ({_COLUMNS}, file String, seen DateTime DEFAULT now()) "
        "ENGINE = MergeTree PARTITION BY toYYYYMM(ts) ORDER BY tuple()",
    )
    for name, rows in OBJECTS.items():
        put(lake, name, rows)
    fill(lake)
    return lake


def fill(lake: Lake, names: str = "abc") -> None:
    """Write the rows of objects as a cron job does."""
    for name in names:
        rows = ", ".join(
            f"({row[0]}, '{row[1]}', '{row[2]}', {row[3]}, {row[4]}, '{lake.bucket}/fares/{PERIOD}/{name}.csv')"
            for row in (text.replace("\\N", "NULL").split(",") for text in OBJECTS[name])
        )
        lake.on_node(0, f"INSERT INTO {lake.database}.fares (id, ts, name, fare, tip, file) VALUES {rows}")


def change(lake: Lake, command: str) -> None:
    lake.on_node(0, f"ALTER TABLE {lake.database}.fares {command} SETTINGS mutations_sync = 2")


def test_a_table_that_a_cron_job_filled_is_equal_to_its_objects_in_all_columns_that_they_have(fares: Lake) -> None:
    found = prove(fares)
    assert (found["status"], found["rows"], found["source_rows"], found["reason"]) == ("equal", 70, 70, "70 rows")
    assert found["left_out"] == {
        "file": "no file has it",
        "seen": "no file has it",
    }
    # Columns that the definition leaves out are not missing from files.
    for definition in ({"columns": ["id", "ts"]}, {"select": {"id": "id", "ts": "ts"}}):
        left_out = prove(fares, definition=definition)["left_out"]
        assert left_out == dict.fromkeys(("name", "fare", "tip", "file", "seen"), "the load leaves it out")
    with pytest.raises(
        AirflowFailException, match=rf"object_column='nope': {fares.database}\.fares has no such column"
    ):
        prove(fares, object_column="nope")
    with pytest.raises(AirflowFailException, match=r"object_column='id' is Int64 in \S+\.fares, which holds no path"):
        prove(fares, object_column="id")
    # Rows of other periods are counted, but not compared.
    put(fares, "late", ["99,2026-11-01 00:00:00,late,1.5,1"])
    found = prove(fares)
    assert (found["status"], found["rows"], found["other_rows"]) == ("equal", 70, 1)
    assert found["reason"] == "70 rows; 1 row of its objects belong to other periods"


FAULTS: dict[str, tuple[Callable[[Lake], None], str, list[str]]] = {
    "one value": (lambda lake: change(lake, "UPDATE fare = 3 WHERE id = 50"), "other values in fare", ["fare"]),
    "NULL for the default": (
        lambda lake: change(lake, "UPDATE fare = 0 WHERE id = 3"),
        "other values in fare",
        ["fare"],
    ),
    "minus zero": (lambda lake: change(lake, "UPDATE tip = tip * -1 WHERE id = 4"), "other values in tip", ["tip"]),
    "two values swapped between rows": (
        lambda lake: change(lake, "UPDATE name = if(id = 10, 'name 3', 'name 2') WHERE id IN (10, 11)"),
        "each column has the objects' values, but in other rows",
        [],
    ),
    "two rows instead of others": (
        lambda lake: change(lake, "UPDATE id = 10 WHERE id = 11"),
        "other values in id",
        ["id"],
    ),
    "rows that were deleted": (lambda lake: change(lake, "DELETE WHERE id < 5"), "5 rows fewer than the objects", []),
}


def test_a_proof_finds_what_a_count_does_not_see(fares: Lake) -> None:
    found = {}
    for fault, (do, *_) in FAULTS.items():
        do(fares)
        one = prove(fares)
        found[fault] = (one["status"], one["reason"], one["columns"])
        fares.on_node(0, f"TRUNCATE TABLE {fares.database}.fares")
        fill(fares)
    assert found == {fault: ("differs", *expected) for fault, (_, *expected) in FAULTS.items()}


def test_the_object_whose_rows_alone_are_doubled_or_missing_is_named_without_any_column_that_says_it(
    fares: Lake,
) -> None:
    fill(fares, "b")
    doubled = prove(fares)
    with pytest.raises(AirflowFailException, match=rf"{PERIOD} differs: 20 rows more than the objects; .*b\.csv is"):
        prove(fares, fail_on_difference=True)
    change(fares, "DELETE WHERE id >= 10 AND id < 30")
    missing = prove(fares)
    path = f"{fares.bucket}/fares/{PERIOD}/b.csv"
    assert doubled["reason"] == f"20 rows more than the objects; {path} is doubled"
    assert doubled["objects"] == [{"path": path, "status": "doubled", "source_rows": 20, "rows": 40}]
    assert missing["reason"] == f"20 rows fewer than the objects; {path} is missing"


def test_a_column_of_objects_names_all_that_are_missing_doubled_stale_or_gone(fares: Lake) -> None:
    fill(fares, "b")
    change(fares, "DELETE WHERE id < 10")
    put(fares, "c", [*OBJECTS["c"][:-1], OBJECTS["c"][-1].replace("69.5", "7")])
    fares.s3.delete_object(Bucket=fares.bucket, Key=f"fares/{PERIOD}/b.csv")
    put(fares, "d", OBJECTS["b"])
    found = prove(fares, object_column="file")
    assert {each["path"].rpartition("/")[2]: (each["status"], each["rows"]) for each in found["objects"]} == {
        "a.csv": ("missing", 0),
        "b.csv": ("unlisted", 40),
        "c.csv": ("stale", 40),
        "d.csv": ("missing", 0),
    }


@pytest.mark.thorough
def test_nan_is_nan_of_either_sign(fares: Lake) -> None:
    put(fares, "a", [f"{row.rpartition(',')[0]},nan" for row in OBJECTS["a"]])
    change(fares, "UPDATE tip = materialize(0.) / 0 WHERE id < 10")
    assert prove(fares)["reason"] == "70 rows"
    change(fares, "UPDATE tip = 0 WHERE id = 3")
    assert prove(fares)["columns"] == ["tip"]


@pytest.mark.thorough
def test_a_sample_reads_a_few_objects_and_their_rows_alone(fares: Lake) -> None:
    change(fares, "UPDATE fare = 3 WHERE id = 5")
    few, all_of_them = prove(fares, object_column="file", sample=2), prove(fares, object_column="file", sample=3)
    assert (few["compared_objects"], few["rows"], all_of_them["rows"]) == (2, 30, 70)
    assert [each["path"].rpartition("/")[2] for each in few["objects"]] == ["a.csv"]
    change(fares, "UPDATE fare = NULL WHERE id = 5")
    assert prove(fares, object_column="file", sample=2)["reason"] == "30 rows of 2 objects in a sample"


@pytest.mark.thorough
def test_one_period_that_cannot_be_compared_does_not_stop_the_others(fares: Lake) -> None:
    path = put(fares, "bad", ["1,2026-11-05 12:00:00,x,0,not a number"], "2026-11")
    equal, refused, without = proved(fares, periods=[PERIOD, "2026-11", "2026-12"])
    assert (equal["status"], refused["status"]) == ("equal", "refused")
    assert path in refused["reason"]
    assert "'tip'" in refused["reason"]
    assert (without["status"], without["reason"]) == ("equal", "0 rows")


@pytest.mark.thorough
def test_all_periods_are_those_of_the_bucket_and_those_that_only_the_table_has(fares: Lake) -> None:
    fares.on_node(0, f"INSERT INTO {fares.database}.fares (id, ts) VALUES (1, '2025-03-01 00:00:00')")
    put(fares, "new", ["1,2026-11-05 12:00:00,x,0,1"], "2026-11")
    found = {each["period"]: each["reason"] for each in proved(fares, periods=None, all_periods=True)}
    assert found == {
        "2025-03": "1 row more than the objects",
        PERIOD: "70 rows",
        "2026-11": f"1 row fewer than the objects; {fares.bucket}/fares/2026-11/new.csv is missing",
    }


def test_the_command_names_the_run_that_repairs_what_differs_and_nothing_else(
    fares: Lake, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    line = f"prove --table {fares.database}.fares --bucket {fares.bucket} --key fares/{{YYYY-MM}}/ --period {PERIOD}"
    assert main(line.split()) == 0
    assert "airflow" not in capsys.readouterr().out
    change(fares, "UPDATE fare = 3 WHERE id = 50")
    assert main(line.split()) == 1
    # No load has written them: the arguments of the one that will may make what there is.
    of_others = capsys.readouterr().out
    assert f"No load is known to have written the rows of {PERIOD}" in of_others
    assert "airflow" not in of_others
    file, names = tmp_path / "loads.yaml", {"table": "fares", "database": fares.database}
    file.write_text(json.dumps({"loads": [{**names, "bucket": fares.bucket, "key": "fares/{YYYY-MM}/"}]}))
    assert main(["prove", "--loads", str(file), "--period", PERIOD]) == 1
    *_, asked = capsys.readouterr().out.splitlines()
    assert asked.startswith("airflow dags trigger <dag_id> --conf ")
    conf = json.loads(shlex.split(asked)[-1])
    assert reload_of(conf) == Reload(
        target=TableName(fares.database, "fares"), periods=(Period.parse(PERIOD),), replace_rows_of_others=True
    )
    assert (
        fares.load(key="fares/{YYYY-MM}/", columns=["id", "ts", "name", "fare", "tip"], replace_unknown=True)["rows"]
        == 70
    )
    assert main(line.split()) == 0


#: The arguments of a load about its files; without them, a proof would find other values.
TOLD: dict[str, Any] = {
    "select": {"id": "id", "ts": "toDateTime(ts) - 3600", "name": "upper(name)", "fare": "fare", "tip": "tip"},
    "settings": {"session_timezone": "Europe/Berlin"},
}


def test_what_a_load_made_is_compared_as_it_made_it(fares: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    line = f"prove --table {fares.database}.fares --bucket {fares.bucket} --key fares/{{YYYY-MM}}/ --period {PERIOD}"
    fares.load(key="fares/{YYYY-MM}/", replace_unknown=True, **TOLD)
    assert main(line.split()) == 0
    assert "70 rows; compared by the select of its load, as recorded" in capsys.readouterr().out
    assert prove(fares)["definition"] == {"select": TOLD["select"]}
    change(fares, "UPDATE fare = 3 WHERE id = 50")
    assert main(line.split()) == 1
    out = capsys.readouterr().out
    assert "other values in fare; compared by the select of its load" in out
    assert ("No load is known" in out, "replace_rows_of_others" in out) == (False, True)
    assert prove(fares, definition={})["columns"] == ["ts", "name", "fare"]


def test_a_difference_is_not_claimed_where_nobody_knows_how_rows_were_made(
    fares: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    """A key in `select` is in no record."""
    line = f"prove --table {fares.database}.fares --bucket {fares.bucket} --key fares/{{YYYY-MM}}/ --period {PERIOD}"
    select = {
        **{name: name for name in _HEADER.strip().split(",")},
        "name": "hex(encrypt('aes-128-ecb', name, 'key of 16 bytes.'))",
    }
    fares.load(key="fares/{YYYY-MM}/", replace_unknown=True, select=select)
    ledger = fares.on_node(0, f"SELECT * FROM {fares.database}.chs3_ledger")
    assert "key of 16 bytes." not in str(ledger)
    assert main(line.split()) == 1
    out = capsys.readouterr().out
    assert "refused" in out
    assert "cannot tell: as a load without arguments reads the objects, other values in name" in out
    assert "airflow dags trigger" not in out
    assert prove(fares, definition={"select": select})["status"] == "equal"
