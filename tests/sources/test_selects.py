"""Loads of what a SELECT makes of another table end in exactly its rows, period by period and node by node."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG

from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.steps.operations import Insert, InsertStats
from airflow_provider_chs3.exceptions import ConfigurationError, NotReadyError
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.sources.clickhouse import ClickHouseRows
from airflow_provider_chs3.testbed.nodes import Cluster
from airflow_provider_chs3.transfers.clickhouse_to_clickhouse import ClickHouseToClickHouseOperator
from tests.sources.select_lake import SelectLake
from tests.sources.source_lake import inputs_of, wait_for_insert
from tests.support.following_views import MERGED
from tests.support.killing import Worker, steps_of, strikes_after, strikes_amid


@pytest.fixture
def create(chs3_cluster: Cluster, chs3_database: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., SelectLake]:
    def of(**options: Any) -> SelectLake:
        return SelectLake.create(chs3_cluster, chs3_database, monkeypatch, **options)

    return of


@pytest.fixture
def select_lake(create: Callable[..., SelectLake]) -> SelectLake:
    return create()


@pytest.mark.three_nodes
@pytest.mark.every_change
def test_a_period_is_planned_and_loaded_exactly_and_again_only_where_its_base_changed(select_lake: SelectLake) -> None:
    lake = select_lake
    lake.put("2026-01-05")
    lake.put("2026-02-05", rows=50)
    objects = ClickHouseRows(sql=lake.sql, from_table="base")
    where = {name: lake.where[name] for name in ("table", "database", "cluster")}
    plan = PlanLoadsOperator(task_id="plan", objects=objects, all_periods=True, **where)
    assert plan.execute({}) == ["2026-01", "2026-02"]
    assert lake.load("2026-01") == ["published"]
    lake.assert_exact(202601)
    assert plan.execute({}) == ["2026-02"]
    assert lake.load("2026-01", "2026-02") == ["unchanged", "published"]
    lake.put("2026-02-07", first=500, node=0)
    lake.on_every_node(f"OPTIMIZE TABLE {lake.database}.base FINAL")
    assert lake.load("2026-01", "2026-02") == ["unchanged", "published"]
    lake.assert_exact(202601, 202602)
    assert lake.left_behind() == []


@pytest.mark.three_nodes
@pytest.mark.every_change
def test_a_value_of_any_shard_that_does_not_fit_stops_a_load(create: Callable[..., SelectLake]) -> None:
    lake = create(columns="month Date, zone String, fare UInt8", engine="MergeTree")
    sql = f"SELECT toStartOfMonth(at) AS month, zone, fare * 10 AS fare FROM {lake.database}.base"
    lake.put("2026-01-05", node=2)
    with pytest.raises(
        AirflowFailException, match=r"Column 'fare' is UInt8, but .*/2026-01 has .* such rows? in all"
    ) as stopped:
        lake.load("2026-01", sql=sql)
    assert "NULL" not in str(stopped.value)


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_a_views_table_holds_what_inserts_would_have_left(select_lake: SelectLake) -> None:
    lake, d = select_lake, select_lake.database
    lake.on_every_node(f"CREATE TABLE {d}.viewed AS {d}.zones")
    lake.on_every_node(f"CREATE MATERIALIZED VIEW {d}.`o'view` TO {d}.viewed AS {lake.sql}")
    of_view = {"view": "o'view", "sql": None, "from_table": None}
    # The view sees the INSERTs; a load fills another table.
    for number in range(3):
        lake.put("2026-01-05", first=1_000 * number, node=number)
        lake.put("2026-02-05", first=1_000 * number, rows=30)
    assert lake.load("2026-01", "2026-02", **of_view) == ["published"] * 2
    assert lake.made(f"SELECT * FROM {d}.zones") == lake.made(f"SELECT * FROM {d}.viewed")
    assert lake.load("2026-01", "2026-02", **of_view) == ["unchanged"] * 2
    changed = lake.sql.replace("sum(fare)", "sum(fare + 1)")
    lake.on_every_node(f"ALTER TABLE {d}.`o'view` MODIFY QUERY {changed}")
    assert lake.load("2026-01", "2026-02", **of_view) == ["published"] * 2
    assert lake.made(f"SELECT * FROM {d}.zones") == lake.made(changed)
    lake.on_every_node(f"CREATE MATERIALIZED VIEW {d}.second TO {d}.viewed AS {lake.sql}")
    with pytest.raises(AirflowFailException, match=rf"o'view and {d}\.second all write to {d}\.viewed"):
        lake.load("2026-01", **of_view)


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_a_chain_follows_link_by_link(select_lake: SelectLake) -> None:
    lake, d = select_lake, select_lake.database
    lake.on_every_node(
        f"CREATE TABLE {d}.years (year Date, trips SimpleAggregateFunction(sum, UInt64), "
        "ids AggregateFunction(uniq, UInt64)) ENGINE = AggregatingMergeTree PARTITION BY toYear(year) ORDER BY year"
    )
    by_year = "SELECT toStartOfYear({}) AS year, {} AS trips, {} AS ids FROM {}.{} GROUP BY year"
    of_zones = by_year.format("month", "sum(trips)", "uniqMergeState(ids)", d, "zones")
    of_base = by_year.format("at", "count()", "uniqState(id)", d, "base")
    years = {"table": "years", "from_table": "zones", "sql": of_zones}
    for day in ("2026-01-05", "2026-02-05"):
        lake.put(day)
        assert lake.load(day[:7]) == ["published"]
        assert lake.load("2026", **years) == ["published"]
        merged = "year, sum(trips), uniqMerge(ids)"
        found, expected = (
            lake.on_every_node(f"SELECT {merged} FROM ({sql}) GROUP BY year")
            for sql in (f"SELECT * FROM {d}.years", of_base)
        )
        assert found == expected
    assert lake.load("2026", **years) == ["unchanged"]


CHANGES = {
    "inserted": "INSERT INTO {base} SELECT * FROM {base} LIMIT 1",
    "deleted": "DELETE FROM {base} WHERE id = 3",
    "mutated": "ALTER TABLE {base} UPDATE fare = fare + 1 WHERE id = 3 SETTINGS mutations_sync = 2",
    "patched": "UPDATE {base} SET fare = fare + 1 WHERE id = 3 SETTINGS allow_experimental_lightweight_update = 1",
    "swapped": "ALTER TABLE {base} REPLACE PARTITION 202601 FROM {other}",
    "created again": "EXCHANGE TABLES {base} AND {other}",
    "a default": "ALTER TABLE {base} ADD COLUMN more UInt8 DEFAULT 1",
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.thorough
def test_any_change_of_the_base_loads_it_again(select_lake: SelectLake, change: str) -> None:
    lake = select_lake
    base, other = f"{lake.database}.base", f"{lake.database}.other"
    lake.on_every_node(
        f"ALTER TABLE {base} MODIFY SETTING enable_block_number_column = 1, enable_block_offset_column = 1"
    )
    lake.put("2026-01-05")
    # As many rows, in as many blocks.
    lake.on_every_node(f"CREATE TABLE {other} AS {base}")
    lake.on_every_node(f"INSERT INTO {other} SELECT id, at, zone, fare + 1 FROM {base}")
    assert lake.load("2026-01") == ["published"]
    lake.on_every_node(CHANGES[change].format(base=base, other=other))
    assert lake.load("2026-01") == ["published"]
    lake.assert_exact(202601)
    assert lake.load("2026-01") == ["unchanged"]


def test_a_base_that_changes_during_the_load_is_read_again(
    select_lake: SelectLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, insert, seen = select_lake, Runner.insert, list[Insert]()
    lake.put("2026-01-05")

    def insert_while_written(self: Runner, step: Insert) -> InsertStats:
        stats = insert(self, step)
        if not seen:
            lake.put("2026-01-06", first=500)
        lake.put("2026-02-06", first=1_000 * (1 + len(seen)))
        seen.append(step)
        return stats

    monkeypatch.setattr(Runner, "insert", insert_while_written)
    assert lake.load("2026-01") == ["published"]
    assert len(seen) == 2
    lake.assert_exact(202601)


@pytest.mark.thorough
def test_a_period_without_rows_is_emptied_or_refused(select_lake: SelectLake) -> None:
    lake = select_lake
    lake.put("2026-01-05")
    assert lake.load("2026-01") == ["published"]
    none = f"SELECT * FROM ({lake.sql}) WHERE zone = 'nowhere'"
    assert lake.load("2026-01", sql=none) == ["published"]
    lake.assert_exact()
    assert lake.load("2026-01") == ["published"]
    lake.on_every_node(f"ALTER TABLE {lake.database}.base DROP PARTITION 202601")
    with pytest.raises(NotReadyError, match=r"No rows for 2026-01 in \S+\.base, which the SELECT reads"):
        lake.load("2026-01")
    lake.on_every_node(f"SELECT throwIf(count() = 0) FROM {lake.database}.zones")
    assert lake.load("2026-01", policies={"on_no_objects": "empty"}) == ["published"]
    lake.assert_exact()


@pytest.mark.parametrize(
    ("base_key", "key", "period", "day", "others"),
    [
        ("toDate(at)", "toYYYYMM(month)", "2026-01", "2026-01-31", ("2026-01-01", "2026-02-01")),
        ("toStartOfHour(at)", "toYYYYMM(month)", "2026-01", "2026-01-31", ("2026-02-01",)),
        ("(zone, toYYYYMM(at))", "(toYYYYMM(month), zone)", "2026-01", "2026-01-31", ("2026-02-01",)),
        ("toMonday(at)", "", "all", "2026-01-31", ("2026-02-01",)),
        ("", "", "all", "2026-01-31", ()),
        ("toYYYYMM(at)", "toStartOfYear(month)", "2026", "2026-01-31", ("2026-12-31", "2027-01-01")),
    ],
)
@pytest.mark.thorough(but=1)
def test_a_base_by_shorter_periods_makes_up_longer_ones(
    create: Callable[..., SelectLake], base_key: str, key: str, period: str, day: str, others: tuple[str, ...]
) -> None:
    lake = create(base_key=base_key, key=key)
    for number, each in enumerate((day, *others)):
        lake.put(each, first=1_000 * number)
    assert lake.load(period) == ["published"]
    condition = {"2026-01": "toYYYYMM(at) = 202601", "2026": "toYear(at) = 2026", "all": "1"}[period]
    expected = lake.sql.replace("GROUP BY", f"WHERE {condition} GROUP BY")
    assert lake.made(f"SELECT * FROM {lake.database}.zones") == lake.made(expected)
    assert lake.load(period) == ["unchanged"]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "its syntax": ({"sql": "SELEC 1"}, r"The server rejects the SELECT over \S+\.base: Syntax error.* Correct sql="),
    "its names": (
        {"sql": "SELECT nope(at) AS month FROM {d}.base"},
        r"The server rejects the SELECT over \S+\.base: Function with name `nope` does not exist",
    ),
    "its types": ({"sql": "SELECT zone + at AS zone FROM {d}.base"}, r"SELECT over \S+\.base: Illegal types"),
    "another table": (
        {"from_table": "{d}.zones"},
        r"The SELECT does not read \S+\.zones, so a load could not restrict it",
    ),
    "a filter of its own": (
        {"sql": "SELECT toStartOfMonth(at) AS month FROM {d}.base SETTINGS additional_table_filters = {{}}"},
        r"The SELECT over \S+\.base sets additional_table_filters itself, .*: put the condition into its WHERE",
    ),
    "a Distributed table": (
        {"sql": "SELECT toStartOfMonth(at) AS month, zone FROM {d}.everywhere", "columns": ["month", "zone"]},
        "reads from other servers, and each shard runs it",
    ),
    "no table": ({"from_table": "{d}.nothing"}, r"Table \S+\.nothing, which the SELECT reads, does not exist"),
    "no MergeTree": ({"from_table": "{d}.everywhere_in_memory"}, "has engine Memory, and only MergeTree tables"),
    "other periods": (
        {"sql": "SELECT toDate('2026-01-01') AS month, zone FROM {d}.base", "columns": ["month", "zone"]},
        r"makes rows of other periods out of 2026-02 of \S+ \(partition: rows\): 202601: 300",
    ),
    "the path": ({"sql": "SELECT *, 1 AS _path FROM {d}.base"}, "has a column '_path', which loads use"),
    "no view": ({"view": "{d}.base", "sql": None, "from_table": None}, "is not a materialized view over a table"),
    "a column": (
        {"sql": "SELECT toStartOfMonth(at) AS month FROM {d}.base"},
        r"'zone' is missing in the SELECT over \S+\.base\. It",
    ),
    "a value": (
        {"sql": "SELECT toStartOfMonth(at) AS month, zone, -1 AS trips FROM {d}.base", "columns": ["month", "trips"]},
        "trips",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.thorough(but=1)
@pytest.mark.three_nodes
def test_what_would_not_be_exact_is_refused_before_anything_is_published(select_lake: SelectLake, case: str) -> None:
    lake = select_lake
    lake.put("2026-02-05")
    name, d = lake.cluster.name, lake.database
    lake.on_every_node(f"CREATE TABLE {d}.everywhere AS {d}.base ENGINE = Distributed('{name}', '{d}', 'base')")
    lake.on_every_node(f"CREATE TABLE {d}.everywhere_in_memory (id UInt64) ENGINE = Memory")
    given, said = REFUSED[case]
    options = {key: each.format(d=d) if isinstance(each, str) else each for key, each in given.items()}
    with pytest.raises(AirflowFailException, match=said):
        lake.load("2026-02", **options)
    lake.assert_exact()
    assert lake.left_behind() == []


@pytest.mark.thorough(but=1)
@pytest.mark.three_nodes
@pytest.mark.parametrize(("other", "said"), [("", "is missing"), ("sum(fare + 1)", "differs")])
def test_a_view_that_is_another_on_one_node_stops_a_load(select_lake: SelectLake, other: str, said: str) -> None:
    lake, view = select_lake, f"{select_lake.database}.zones_view"
    lake.put("2026-02-05")
    creating = f"CREATE MATERIALIZED VIEW {view} TO {lake.database}.zones AS {lake.sql}"
    of_view: dict[str, Any] = {"view": view, "sql": None, "from_table": None}
    for number, node in enumerate(lake.cluster.nodes):
        with node.client() as client:
            if number != 1 or other:
                client.execute(creating.replace("sum(fare)", other) if number == 1 else creating)
    with pytest.raises(AirflowFailException, match=rf"view {view} {said}.* on .*: create the same on every node"):
        lake.load("2026-02", **of_view)
    lake.assert_exact()
    lake.on_every_node(f"DROP VIEW IF EXISTS {view}")
    lake.on_every_node(creating)
    assert lake.load("2026-02", **of_view) == ["published"]
    lake.assert_exact(202602)


def test_the_select_may_be_a_file_of_the_dag_folder(tmp_path: Path) -> None:
    (tmp_path / "zones.sql").write_text("SELECT '{{ params.zone }}' AS zone FROM base\n")
    with DAG("d", schedule=None, template_searchpath=[str(tmp_path)]):
        task = ClickHouseToClickHouseOperator(task_id="t", table="zones", from_table="base", sql="zones.sql")
    task.render_template_fields({"params": {"zone": "centre"}})  # type: ignore[typeddict-item]
    assert isinstance(task.objects, ClickHouseRows)
    assert task.objects.sql == "SELECT 'centre' AS zone FROM base"


def test_what_is_loaded_is_said_once() -> None:
    for given in ({}, {"sql": "SELECT 1"}, {"from_table": "base"}, {"sql": "SELECT 1", "view": "seen"}):
        with pytest.raises(ConfigurationError, match="set sql and from_table, or view"):
            ClickHouseRows(**given)


@pytest.mark.thorough
def test_a_base_of_longer_periods_is_refused(create: Callable[..., SelectLake]) -> None:
    lake = create(base_key="toYear(at)")
    lake.put("2026-02-05")
    said = re.escape("which the SELECT reads, is partitioned by year, so no partitions of it make up 2026-02")
    with pytest.raises(AirflowFailException, match=said):
        lake.load("2026-02")
    lake.assert_exact()


@pytest.mark.thorough
def test_names_and_texts_may_hold_anything(create: Callable[..., SelectLake]) -> None:
    lake = create()
    lake.put("2026-01-05")
    lake.put("2026-02-05")
    odd = f"{lake.database}.`o'd`"
    lake.on_every_node(f"CREATE TABLE {odd} AS {lake.database}.base")
    lake.on_every_node(f"INSERT INTO {odd} SELECT * FROM {lake.database}.base")
    sql = lake.sql.replace(f"{lake.database}.base", odd) + " -- '?) %s {{"
    assert lake.load("2026-01", sql=sql, from_table=f"{lake.database}.o'd") == ["published"]
    lake.assert_exact(202601)


@pytest.mark.thorough
def test_lineage_names_the_base_beside_its_rows(select_lake: SelectLake) -> None:
    lake = select_lake
    lake.put("2026-01-05")
    given = lake.where | {"sql": f"{lake.sql};\n", "period": "2026-01"}
    operator = ClickHouseToClickHouseOperator(**given)
    assert operator.execute({})["status"] == "published"
    node = lake.cluster.nodes[0]
    assert [each[:2] for each in inputs_of(operator)] == [
        (f"clickhouse://{node.host}:{node.tcp_port}", f"{lake.database}.base")
    ]


@pytest.mark.thorough
def test_the_base_is_restricted_wherever_it_is_read(select_lake: SelectLake) -> None:
    lake, d = select_lake, select_lake.database
    lake.put("2026-01-05")
    lake.put("2026-02-05", first=1_000)
    lake.on_every_node(f"CREATE VIEW {d}.seen AS SELECT * FROM {d}.base")
    sql = f"WITH every AS (SELECT id FROM {d}.base) " + lake.sql.replace(
        "base GROUP", f"seen WHERE id IN (SELECT id FROM every) AND (SELECT count() FROM {d}.base) = 100 GROUP"
    )
    assert lake.load("2026-01", sql=sql) == ["published"]
    lake.assert_exact(202601)


@pytest.mark.thorough
@pytest.mark.three_nodes
@pytest.mark.parametrize(
    "options", [{"durable": True}, {"distribution": "sharding_key", "table": "everywhere"}], ids=str
)
def test_loads_may_be_durable_or_go_by_the_sharding_key(select_lake: SelectLake, options: dict[str, Any]) -> None:
    lake, d = select_lake, select_lake.database
    lake.put("2026-01-05")
    lake.on_every_node(
        f"CREATE TABLE {d}.everywhere AS {d}.zones "
        f"ENGINE = Distributed('{lake.cluster.name}', '{d}', 'zones', cityHash64(zone))"
    )
    assert lake.load("2026-01", **options) == ["published"]
    if "durable" in options:
        lake.assert_exact(202601)
    everywhere = f"SELECT {MERGED} FROM cluster('{lake.cluster.name}', view({{}})) GROUP BY month, zone ORDER BY ALL"
    found, expected = (lake.on_every_node(everywhere.format(sql)) for sql in (f"SELECT * FROM {d}.zones", lake.sql))
    assert found == expected


VALUES = {
    "Array(Tuple(a UInt8, b Nullable(String)))": "[(1, NULL), (2, 'x')]",
    "Map(String, Decimal(18, 3))": "map('a', toDecimal64('0.001', 3))",
    "Nullable(DateTime64(9, 'America/New_York'))": "toDateTime64('2026-01-01 00:00:00.123456789', 9)",
    "AggregateFunction(quantileTDigest, UInt32)": "arrayReduce('quantileTDigestState', [toUInt32(1), 2, 3])",
    "Enum8('a' = -1, 'b' = 2)": "CAST('b', 'Enum8(\\'a\\' = -1, \\'b\\' = 2)')",
    "JSON": "CAST('{\"a\": [1, null]}', 'JSON')",
    "Variant(String, UInt64)": "CAST(1::UInt64, 'Variant(String, UInt64)')",
}


def test_values_of_any_type_arrive_as_they_are(create: Callable[..., SelectLake]) -> None:
    made = dict(enumerate(VALUES.items()))
    columns = ", ".join(f"c{number} {of}" for number, (of, _) in made.items())
    lake = create(columns=f"month Date, zone String, {columns}", engine="MergeTree")
    lake.put("2026-01-05", rows=3)
    values = ", ".join(f"CAST({value} AS {of}) AS c{number}" for number, (of, value) in made.items() if of != "JSON")
    of_json = next(number for number, (of, _) in made.items() if of == "JSON")
    values += f", {VALUES['JSON']} AS c{of_json}"
    sql = f"SELECT toStartOfMonth(at) AS month, zone, {values} FROM {lake.database}.base"
    assert lake.load("2026-01", sql=sql) == ["published"]
    shown = ", ".join(f"hex(toString(c{number}))" for number in made if number != 3)
    wanted = lake.on_every_node(f"SELECT zone, {shown}, finalizeAggregation(c3) FROM ({sql}) ORDER BY zone")
    found = lake.on_every_node(
        f"SELECT zone, {shown}, finalizeAggregation(c3) FROM {lake.database}.zones ORDER BY zone"
    )
    assert found == wanted
    assert found[0]


@pytest.mark.thorough
@pytest.mark.parametrize("points", [strikes_after, strikes_amid])
@pytest.mark.three_nodes
def test_after_kill_9_at_any_step_a_run_ends_in_the_selects_rows(select_lake: SelectLake, points: Any) -> None:
    lake = select_lake
    lake.put("2026-01-05", rows=10)
    lake.load("2026-01")
    lake.put("2026-01-05", first=1_000, rows=10)
    found = list(points(steps_of(lambda: lake.load("2026-01"))))
    for number, strike in enumerate(found, start=2):
        lake.put("2026-01-05", first=1_000 * number, rows=10)
        print(f"Killed at {strike}")  # shown where it fails
        strike.kill_in(lambda: lake.load("2026-01"))
        lake.load("2026-01")
        lake.assert_exact(202601)
        assert lake.load("2026-01") == ["unchanged"]
    assert len(found) > 3
    assert lake.left_behind() == []


def slow(lake: SelectLake) -> dict[str, Any]:
    """Options of a load that takes seconds."""
    return {"sql": lake.sql.replace("sum(fare)", "sum(fare + sleepEachRow(0.02))")}


@pytest.mark.thorough
@pytest.mark.every_change
@pytest.mark.three_nodes
def test_after_kill_9_in_mid_insert_a_run_ends_in_the_selects_rows(select_lake: SelectLake) -> None:
    lake = select_lake
    lake.put("2026-01-05")
    options = slow(lake)
    worker = Worker(lambda: lake.load("2026-01", **options))
    try:
        wait_for_insert(lake)
    finally:
        worker.kill()
    lake.assert_exact()
    assert lake.load("2026-01", **options) == ["published"]
    lake.assert_exact(202601)
    assert lake.left_behind() == []
