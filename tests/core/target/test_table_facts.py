"""A table's engine and clauses, and what follows for its rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_chs3.core.target.table_facts import Column, going_by_servers, with_zone
from tests.core.surroundings import TARGET

MOVES, RECOMPRESSES = "at + toIntervalDay(1) TO DISK 'a'", "at + toIntervalDay(3) RECOMPRESS CODEC(ZSTD(3), LZ4)"


def with_ttl(ttl: str):
    return replace(TARGET, engine_full=f"MergeTree ORDER BY id TTL {ttl} SETTINGS disk = 'x'")


@pytest.mark.parametrize(
    "ttl",
    [
        "at + toIntervalYear(2)",
        "at + toIntervalYear(2) WHERE kind = ' TO DISK '",
        f"{MOVES}, at + toIntervalYear(2) GROUP BY id, at SET n = sum(n)",
        f"at + toIntervalDay(n, 2), {RECOMPRESSES}",
    ],
)
def test_a_ttl_that_deletes_or_groups_takes_rows_away(ttl):
    assert with_ttl(ttl).may_lose_all
    assert not with_ttl(ttl).keeps_every_row


@pytest.mark.parametrize("ttl", [MOVES, "at TO VOLUME 'b'", RECOMPRESSES, f"{MOVES}, {RECOMPRESSES}"])
def test_one_that_moves_or_recompresses_takes_none(ttl):
    assert not with_ttl(ttl).may_lose_all
    assert with_ttl(ttl).keeps_every_row


def test_names_and_texts_are_no_clauses():
    assert replace(TARGET, engine_full="MergeTree ORDER BY (id, `a TTL b`) SETTINGS disk = ' TTL '").keeps_every_row


COLUMNS = (
    Column("day", "Date"),
    Column("at", "DateTime('UTC')", in_partition_key=True),
    Column("local", "DateTime"),
    Column("n", "UInt32"),
    Column("text", "Nullable(String)"),
    Column("it's `n`", "Array(DateTime64(3))"),
    Column("shown", "String", "ALIAS", "toString(local)"),
)


def found(*columns: Column, **changes) -> list[str]:
    keys = {"partition_key": "toYYYYMM(at)", "sorting_key": "n, at", "primary_key": "n", "sampling_key": ""}
    return list(going_by_servers(replace(TARGET, columns=(*COLUMNS, *columns), **{**keys, **changes})))


def test_a_table_whose_keys_name_zones_is_independent():
    assert found() == []


@pytest.mark.parametrize(
    "key",
    [
        "toYYYYMM(at)",
        "toStartOfMonth(toTimeZone(at, 'Asia/Tokyo'))",
        "(toYear(at), toMonth(at))",
        "toDate(day)",
        "local",
        "`it's \\`n\\``",
        "local, `text`",
        "cityHash64(n, text)",
        "intDiv(n, 10), -n, n % 7",
        "toYYYYMM(at, 'Asia/Tokyo')",
    ],
)
def test_of_keys_that_make_no_time_of_another_zone(key):
    assert found(sorting_key=key) == []


@pytest.mark.parametrize(
    "key",
    [
        "toYYYYMM(local)",
        "n, toDate(local)",
        "toDate(n)",
        "toYYYYMM(toDateTime(day))",
        "parseDateTimeBestEffort(text)",
        "toHour(day + toIntervalHour(1))",
        "CAST(day, 'DateTime')",
        "length(`it's \\`n\\``)",
        "upper(shown)",
        "cityHash64(toDate(at), n)",
    ],
)
def test_all_others_may_go_by_the_server(key):
    assert found(partition_key=key) == [f"its partition key {key!r}"]
    assert found(indices=(("i", "minmax", key.rpartition("n, ")[2], 1),)) != []


def test_projections_count():
    assert found(projections=(("p", "Normal", "SELECT n ORDER BY at", 1),)) == []
    (what,) = found(projections=(("p", "Aggregate", "SELECT toDate(local), count() GROUP BY toDate(local)", 1),))
    assert what.startswith("its projection 'p' of ")


@pytest.mark.parametrize("kind", ["DEFAULT", "MATERIALIZED", "EPHEMERAL"])
def test_what_is_computed_of_a_column_without_a_zone_goes_by_the_server(kind):
    assert found(Column("d", "Date", kind, "toDate(local)")) == [f"{kind} 'toDate(local)' of column 'd'"]
    assert found(Column("d", "String", kind, "upper(shown)")) != []
    assert found(Column("d", "DateTime('UTC')", kind, "parseDateTimeBestEffort(text)")) == []


def test_what_is_computed_when_it_is_read_does_not_matter():
    assert found(Column("d", "Date", "ALIAS", "toDate(local)")) == []


@pytest.mark.parametrize(
    ("of", "zoned"),
    [
        ("DateTime", "DateTime('Asia/Tokyo')"),
        ("DateTime('UTC')", "DateTime('UTC')"),
        ("DateTime64(3)", "DateTime64(3, 'Asia/Tokyo')"),
        ("DateTime64(3, 'UTC')", "DateTime64(3, 'UTC')"),
        ("Map(String, Nullable(DateTime))", "Map(String, Nullable(DateTime('Asia/Tokyo')))"),
        ("Tuple(a DateTime64(9), b Date)", "Tuple(a DateTime64(9, 'Asia/Tokyo'), b Date)"),
    ],
)
def test_a_type_gets_the_zone_that_it_lacks(of, zoned):
    assert with_zone(of, "Asia/Tokyo") == zoned
