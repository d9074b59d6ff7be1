"""Whoever follows the advice of a load that stopped gets the rows that it promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.exceptions import NotReadyError
from tests.integration.valued import AT, PREFIX, create, values
from tests.support.lake import PERIOD, Lake

FOREIGN = f"INSERT INTO trips VALUES ('{AT}', 9)"


def csv(*numbers: int) -> bytes:
    return "\n".join(["ts,n", *(f"{AT},{number}" for number in numbers)]).encode()


def run(lake: Lake, sql: str) -> None:
    lake.on_every_node(sql.replace("trips", f"{lake.database}.trips"))


def put(name: str, body: bytes) -> Callable[[Lake], None]:
    return lambda lake: lake.put(f"{PREFIX}{name}", body)


def delete_object(lake: Lake) -> None:
    lake.load()
    lake.s3.delete_object(Bucket=lake.bucket, Key=f"{PREFIX}a.csv")


@dataclass(frozen=True)
class Advice:
    """A load that stops, and one that follows its advice."""

    before: Callable[[Lake], Any]
    says: str
    followed: dict[str, Any]
    numbers: list[int]
    given: dict[str, Any] = field(default_factory=dict)


ROWS = [1, 2, 3]
CASES = {
    "rows of others, replaced": Advice(
        lambda lake: run(lake, FOREIGN), r"set policies=\{'replace_unknown': True\}", {"replace_unknown": True}, ROWS
    ),
    "no objects": Advice(delete_object, "'empty' publishes it without rows", {"on_no_objects": "empty"}, []),
    "several formats": Advice(
        put("b.jsonl", b'{"ts": "2026-10-05 12:00:00", "n": 8}'),
        "a key template that matches only one of them",
        {"key": "trips/{YYYY-MM}/*.csv"},
        ROWS,
    ),
    "a format by another name": Advice(
        put("b.json", csv(8)),
        r"looks like .*Set files=\{'file_format': …\}",
        {"file_format": "CSVWithNames"},
        [*ROWS, 8],
    ),
    "a column too narrow for objects": Advice(
        lambda lake: run(lake, "ALTER TABLE trips ADD COLUMN o UInt8"),
        "make it String or LowCardinality.String., or leave object_column out",
        {"columns": ["ts", "n"]},
        ROWS,
        {
            "object_column": "o",
            "select": {"o": "_path", "ts": "parseDateTimeBestEffort(ts)", "n": "toUInt8(n)"},
        },
    ),
    "no table": Advice(
        lambda lake: run(lake, "DROP TABLE trips SYNC"),
        "create_table='if_missing' lets a load create it",
        {"create_table": "if_missing"},
        ROWS,
    ),
    "a column of objects": Advice(
        lambda lake: run(lake, "ALTER TABLE trips ADD COLUMN o String"),
        r"select=\{'o': '_path', …\}",
        {
            "object_column": "o",
            "select": {"o": "_path", "ts": "parseDateTimeBestEffort(ts)", "n": "toUInt8(n)"},
        },
        ROWS,
        {"object_column": "o"},
    ),
}


def stopped(lake: Lake, says: str, **given: Any) -> str:
    with pytest.raises((AirflowFailException, NotReadyError), match=says) as error:
        lake.load(**given)
    return str(error.value)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.thorough(but=1)
def test_advice_of_a_load_is_right(lake: Lake, name: str) -> None:
    case = CASES[name]
    create(lake, "n UInt8")
    lake.put(f"{PREFIX}a.csv", csv(*ROWS))
    case.before(lake)
    stopped(lake, case.says, **case.given)
    lake.load(**case.followed)
    assert sorted(values(lake, "toInt64(n)")) == case.numbers


def test_rows_of_others_are_kept_where_the_period_is_adopted(lake: Lake) -> None:
    create(lake, "n UInt8")
    lake.put(f"{PREFIX}a.csv", csv(*ROWS))
    for number in ROWS:
        lake.on_node(0, f"INSERT INTO {lake.database}.trips VALUES ('{AT}', {number})")
    stopped(lake, r"to keep them, adopt the period \(chs3 adopt\)")
    place = ["--table", f"{lake.database}.trips", "--cluster", lake.cluster.name, "--bucket", lake.bucket]
    assert main(["adopt", *place, "--key", "trips/{YYYY-MM}/", "--period", PERIOD]) == 0
    assert lake.load()["status"] == "unchanged"
    assert sorted(values(lake, "toInt64(n)")) == ROWS


def test_a_ledger_of_somebody_else_is_left_alone_by_another_database(lake: Lake) -> None:
    create(lake, "n UInt8")
    lake.put(f"{PREFIX}a.csv", csv(*ROWS))
    lake.on_every_node(f"CREATE TABLE {lake.database}.chs3_ledger (event String) ENGINE = MergeTree ORDER BY event")
    stopped(lake, "Otherwise set another database as staging_database")
    staging = f"{lake.database}_staging"
    stopped(lake, f"staging_database='{staging}' does not exist on .*: create it there", staging_database=staging)
    lake.on_every_node(f"CREATE DATABASE {staging}")
    try:
        lake.load(staging_database=staging)
        assert values(lake, "n") == ROWS
    finally:
        lake.on_every_node(f"DROP DATABASE {staging} SYNC")


def test_a_table_that_would_be_read_whole_is_where_that_is_allowed(lake: Lake) -> None:
    create(lake, "n UInt8", key="tuple()")
    lake.put(f"{PREFIX}a.csv", csv(*ROWS))
    whole = {"key": "trips/**/*.csv", "period": "all"}
    lake.load(**whole)
    lake.put(f"{PREFIX}a.csv", csv(7, 8, 9))
    stopped(lake, r"set policies=\{'reload_whole_table': True\}", **whole)
    lake.load(**whole, reload_whole_table=True)
    assert values(lake, "n") == [7, 8, 9]
