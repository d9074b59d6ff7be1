"""What tells that a month is still what was published, and what tells of those who changed it."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.operators.ledger import AdoptMonthsOperator
from airflow_provider_chs3.operators.plan_months import PlanMonthsOperator
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.integration.lake import MONTH, Lake

OTHER_MONTH = "2026-09"
FILES = 18
#: Staging takes the table's settings over.
UNMERGED = "max_bytes_to_merge_at_max_space_in_pool = 1, max_bytes_to_merge_at_min_space_in_pool = 1"
CHANGED = "the partition was changed since it was published"


@pytest.fixture
def events(lake: Lake) -> Lake:
    """A lake of small events; merges are stopped, so that parts stay as they are published."""
    lake.table = "events"
    return lake


def create(lake: Lake, *, engine: str = "MergeTree", columns: str = "", settings: str = "") -> None:
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.events (at DateTime('UTC'), n Int64, kind String{columns}) ENGINE = {engine} "
        f"PARTITION BY toYYYYMM(at) ORDER BY n SETTINGS {', '.join(filter(None, (UNMERGED, settings)))}"
    )
    lake.on_every_node(f"SYSTEM STOP MERGES {lake.database}.events")


def upload(lake: Lake, month: str = MONTH, *, files: int = FILES, **columns: Any) -> None:
    """Files of ten events each, of which each becomes a part."""
    for number in range(files):
        values = {
            "at": pa.array([f"{month}-02"] * 10).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
            "n": pa.array(range(number * 10, number * 10 + 10), pa.int64()),
            "kind": pa.array([f"kind {number}"] * 10),
            **{name: pa.array([value] * 10) for name, value in columns.items()},
        }
        buffer = io.BytesIO()
        pq.write_table(pa.table(values), buffer)
        lake.put(f"events/{month}/{number}.parquet", buffer.getvalue())


def load(lake: Lake, month: str = MONTH, **options: Any) -> dict[str, Any]:
    arguments = {
        "key": "events/{YYYY-MM}/",
        "month": month,
        # A block a file, and so several parts.
        "settings": {"max_insert_threads": 1, "min_insert_block_size_rows": 1, "min_insert_block_size_bytes": 1},
    }
    return lake.load(**(arguments | options))


def plan(lake: Lake, **options: Any) -> list[str]:
    arguments = {
        "task_id": "plan",
        "bucket": lake.bucket,
        "key": "events/{YYYY-MM}/",
        "database": lake.database,
        "table": "events",
        "cluster": lake.cluster.name,
        "months": [MONTH],
        "definition": {},
    }
    return PlanMonthsOperator(**(arguments | options)).execute({})


def published(lake: Lake, *months: str, **options: Any) -> None:
    create(lake, **options)
    for month in months or (MONTH,):
        upload(lake, month)
        assert load(lake, month)["status"] == "published"


def parts(lake: Lake, number: int, month: str = MONTH) -> list[str]:
    sql = (
        f"SELECT name FROM system.parts WHERE database = '{lake.database}' AND table = 'events' AND active AND rows "
        f"AND partition_id = '{month.replace('-', '')}' ORDER BY min_block_number"
    )
    return [name for (name,) in lake.on_node(number, sql)]


def fullest(lake: Lake) -> int:
    counts = [len(parts(lake, number)) for number in range(len(lake.cluster.nodes))]
    assert max(counts) >= 3
    return counts.index(max(counts))


def alter(lake: Lake, number: int, change: str, **settings: Any) -> None:
    with lake.cluster.nodes[number].client() as client:
        client.execute(f"ALTER TABLE {lake.database}.events {change}", settings={"mutations_sync": 2, **settings})


def merge(lake: Lake, number: int | None = None, month: str = MONTH, *, how: str = "FINAL") -> None:
    for each in range(len(lake.cluster.nodes)) if number is None else (number,):
        lake.on_node(each, f"SYSTEM START MERGES {lake.database}.events")
        lake.on_node(each, f"OPTIMIZE TABLE {lake.database}.events PARTITION ID '{month.replace('-', '')}' {how}")


def refused(lake: Lake) -> None:
    assert plan(lake) == [MONTH]
    with pytest.raises(AirflowFailException, match=CHANGED):
        load(lake)


class TestLostRows:
    @pytest.mark.parametrize("engine", ["MergeTree", "ReplacingMergeTree"])
    @pytest.mark.parametrize("how", ["DROP", "DETACH"])
    def test_a_part_in_the_middle_that_is_gone_is_a_change(self, events: Lake, engine: str, how: str) -> None:
        published(events, engine=engine)
        number = fullest(events)
        alter(events, number, f"{how} PART '{parts(events, number)[1]}'")
        refused(events)

    def test_so_it_is_after_the_others_were_merged(self, events: Lake) -> None:
        published(events)
        number = fullest(events)
        alter(events, number, f"DROP PART '{parts(events, number)[1]}'")
        merge(events, number)
        assert len(parts(events, number)) == 1
        refused(events)

    def test_rows_that_optimize_deduplicate_took_away_are_a_change(self, events: Lake) -> None:
        create(events)
        upload(events)
        for file in range(FILES):
            body = events.s3.get_object(Bucket=events.bucket, Key=f"events/{MONTH}/{file}.parquet")["Body"].read()
            events.put(f"events/{MONTH}/twice_{file}.parquet", body)
        load(events)
        for each in range(3):
            merge(events, each, how="FINAL DEDUPLICATE")
        assert sum(events.rows_per_node()) < 2 * FILES * 10
        refused(events)

    def test_block_numbers_that_are_used_again_with_other_rows_are_a_change(self, events: Lake) -> None:
        if not isinstance(events.cluster, ClickHouseCluster):
            pytest.skip("nodes of others are not restarted")
        create(events)
        upload(events, files=1)
        load(events)
        rows = events.rows_per_node()
        number = rows.index(10)
        # What is there after REPLACE PARTITION is in the block after it: a month that was inserted, and adopted.
        name, (before,) = f"{events.database}.events", parts(events, number)
        events.on_every_node(f"DROP TABLE {name} SYNC")
        create(events)
        insert = f"INSERT INTO {name} SELECT '{MONTH}-02', number + {{}}, 'kind 0' FROM numbers(10)"
        events.on_node(number, insert.format(0))
        before = parts(events, number)
        adopt(events)
        assert load(events)["status"] == "unchanged"
        alter(events, number, "DROP PARTITION ID '202610'")
        events.cluster.restart(number)
        events.on_node(number, insert.format(70))
        assert parts(events, number) == before
        refused(events)

    def test_old_rows_beside_the_new_ones_are_a_change(self, events: Lake) -> None:
        published(events)
        number = fullest(events)
        first = parts(events, number)[0].split("_")[1]
        record = (
            f"ALTER TABLE {events.database}.chs3_ledger UPDATE min_block = {int(first) + 1}, evidence = "
            "replaceRegexpOne(evidence, '\"parts\":\\\\[\\\\[[^\\\\]]*\\\\],', '\"parts\":[') WHERE event = 'published'"
            " SETTINGS mutations_sync = 2"
        )
        events.on_node(number, record)
        refused(events)


def adopt(lake: Lake) -> None:
    (found,) = AdoptMonthsOperator(
        task_id="adopt",
        bucket=lake.bucket,
        key="events/{YYYY-MM}/",
        database=lake.database,
        table="events",
        cluster=lake.cluster.name,
        months=[MONTH],
    ).execute({})
    assert found["status"] == "adopted"


class TestMutations:
    DELETE = "DELETE IN PARTITION ID '202609' WHERE n < 5"

    @pytest.mark.parametrize(
        "change",
        [
            DELETE,
            "DELETE IN PARTITION 202609 WHERE n < 5",
            "UPDATE kind = ' IN PARTITION ' IN PARTITION 202609 WHERE 1",
        ],
    )
    @pytest.mark.parametrize("is_merged", [False, True])
    def test_one_of_another_month_changes_nothing(self, events: Lake, change: str, is_merged: bool) -> None:
        published(events, OTHER_MONTH, MONTH)
        events.on_every_node(f"SYSTEM START MERGES {events.database}.events")
        for number in range(3):
            alter(events, number, change)
        if is_merged:
            merge(events)
        assert load(events)["status"] == "unchanged"
        assert plan(events) == []
        with pytest.raises(AirflowFailException, match=CHANGED):
            load(events, OTHER_MONTH)

    def test_a_failed_one_of_another_month_changes_nothing(self, events: Lake) -> None:
        published(events, OTHER_MONTH, MONTH)
        events.on_every_node(f"SYSTEM START MERGES {events.database}.events")
        failing = "DELETE IN PARTITION ID '202609' WHERE throwIf(n >= 0)"
        for number in range(3):
            alter(events, number, failing, mutations_sync=0)
        merge(events)
        assert load(events)["status"] == "unchanged"

    @pytest.mark.parametrize("condition", ["n = 5", "throwIf(n >= 0)"])
    def test_one_of_this_month_that_is_not_done_is_a_change(self, events: Lake, condition: str) -> None:
        published(events)
        for number in range(3):
            alter(events, number, f"DELETE IN PARTITION ID '202610' WHERE {condition}", mutations_sync=0)
        refused(events)

    def test_one_without_a_partition_that_takes_rows_of_another_month_changes_nothing(self, events: Lake) -> None:
        published(events, OTHER_MONTH, MONTH)
        events.on_every_node(f"SYSTEM START MERGES {events.database}.events")
        for number in range(3):
            alter(events, number, f"DELETE WHERE at < '{MONTH}-01'")
        assert load(events)["status"] == "unchanged"

    @pytest.mark.parametrize("change", ["DELETE WHERE n = 5", "UPDATE kind = 'x' WHERE n = 5"])
    def test_one_of_all_months_that_takes_rows_of_this_is_a_change(self, events: Lake, change: str) -> None:
        published(events)
        events.on_every_node(f"SYSTEM START MERGES {events.database}.events")
        for number in range(3):
            alter(events, number, change)
        refused(events)

    def test_a_lightweight_update_is_a_change_after_a_merge_too(self, events: Lake) -> None:
        published(
            events,
            OTHER_MONTH,
            MONTH,
            settings="enable_block_number_column = 1, enable_block_offset_column = 1",
        )
        number = fullest(events)
        with events.cluster.nodes[number].client() as client:
            update = f"UPDATE {events.database}.events SET kind = 'x' WHERE at >= '{MONTH}-01'"
            client.execute(update, settings={"enable_lightweight_update": 1})
        merge(events, number)
        alter(events, number, self.DELETE)
        refused(events)


class TestMerges:
    @pytest.mark.parametrize("engine", ["MergeTree", "ReplacingMergeTree", "SummingMergeTree", "AggregatingMergeTree"])
    def test_merges_are_no_change(self, events: Lake, engine: str) -> None:
        published(events, engine=engine)
        merge(events)
        assert plan(events) == []
        assert load(events)["status"] == "unchanged"

    def test_what_they_made_is_recorded_anew(self, events: Lake) -> None:
        published(events)
        number = fullest(events)
        merge(events)
        load(events)
        assert evidence(events, number).count('"]') == 1
        records = count_records(events)
        load(events)
        assert count_records(events) == records

    def test_a_replaced_partition_that_was_merged_after_a_restart_is_unchanged(self, events: Lake) -> None:
        if not isinstance(events.cluster, ClickHouseCluster):
            pytest.skip("nodes of others are not restarted")
        published(events)
        upload(events, files=8)
        load(events)
        for number in range(3):
            events.cluster.restart(number)
        merge(events)
        assert load(events)["status"] == "unchanged"

    def test_rows_that_a_lightweight_delete_had_hidden_may_go_from_an_adopted_month(self, events: Lake) -> None:
        create(events)
        upload(events, files=3)
        name = f"{events.database}.events"
        events.on_node(0, f"INSERT INTO {name} SELECT '{MONTH}-02', number, '' FROM numbers(33)")
        events.on_every_node(f"SYSTEM START MERGES {name}")
        events.on_node(0, f"DELETE FROM {name} WHERE n >= 30")
        adopt(events)
        merge(events, 0)
        assert load(events)["status"] == "unchanged"


def evidence(lake: Lake, number: int) -> str:
    sql = f"SELECT evidence FROM {lake.database}.chs3_ledger WHERE event = 'published' ORDER BY sequence DESC LIMIT 1"
    ((text,),) = lake.on_node(number, sql)
    return text


def count_records(lake: Lake) -> list[int]:
    return [rows[0][0] for rows in lake.on_every_node(f"SELECT count() FROM {lake.database}.chs3_ledger")]


class TestAttempts:
    def test_nodes_that_different_attempts_have_published_load_again(self, events: Lake) -> None:
        published(events)
        alter_ledger(events, 1, "UPDATE attempt = 'another' WHERE event = 'published'")
        assert load(events)["reason"] == "an earlier load did not finish, or a node has not got it"


def alter_ledger(lake: Lake, number: int, change: str) -> None:
    lake.on_node(number, f"ALTER TABLE {lake.database}.chs3_ledger {change} SETTINGS mutations_sync = 2")


class TestLostLedger:
    def lose(self, lake: Lake, number: int) -> None:
        lake.on_node(number, f"TRUNCATE TABLE {lake.database}.chs3_ledger")

    def test_a_node_that_lost_its_ledger_and_rows_is_changed(self, events: Lake) -> None:
        published(events, OTHER_MONTH, MONTH)
        number = fullest(events)
        self.lose(events, number)
        events.on_every_node(f"SYSTEM START MERGES {events.database}.events")
        alter(events, number, "DELETE IN PARTITION ID '202610' WHERE n % 10 = 5")
        with pytest.raises(AirflowFailException, match="its records are lost there, and rows of it, too"):
            load(events)

    def test_so_is_one_that_lost_all_rows_of_the_month(self, events: Lake) -> None:
        published(events, OTHER_MONTH, MONTH)
        number = fullest(events)
        self.lose(events, number)
        alter(events, number, "DROP PARTITION ID '202610'")
        with pytest.raises(AirflowFailException, match="its records are lost there, and rows of it, too"):
            load(events)

    def test_a_node_without_any_row_of_the_table_is_a_new_one(self, events: Lake) -> None:
        published(events)
        number = fullest(events)
        self.lose(events, number)
        events.on_node(number, f"TRUNCATE TABLE {events.database}.events")
        assert load(events)["status"] == "published"
        assert sum(events.rows_per_node()) == FILES * 10

    def test_one_that_lost_its_ledger_alone_loads_again(self, events: Lake) -> None:
        published(events)
        self.lose(events, fullest(events))
        assert load(events)["reason"] == "a node has lost its records of it"


class TestStructure:
    def add(self, lake: Lake, change: str) -> None:
        lake.on_every_node(f"ALTER TABLE {lake.database}.events {change}")

    def test_a_column_that_the_files_have_had_all_along_makes_the_month_load_again(self, events: Lake) -> None:
        create(events)
        upload(events, extra=7)
        load(events)
        self.add(events, "ADD COLUMN extra Int64 DEFAULT 1")
        assert plan(events) == [MONTH]
        reason = load(events)["reason"]
        assert reason.endswith(": the table got column 'extra', which the month's files have")
        assert events.on_node(0, f"SELECT DISTINCT extra FROM {events.database}.events") == [(7,)]
        assert load(events)["status"] == "unchanged"

    def test_a_column_that_no_file_has_changes_nothing(self, events: Lake) -> None:
        published(events)
        self.add(events, "ADD COLUMN extra Int64 DEFAULT 1")
        assert plan(events) == []
        assert load(events)["status"] == "unchanged"

    @pytest.mark.parametrize("selection", [{"columns": ["at", "n"]}, {"select": {"at": "at", "n": "n"}}])
    def test_a_column_that_was_not_asked_for_changes_nothing(self, events: Lake, selection: dict[str, Any]) -> None:
        create(events)
        upload(events, extra=7)
        load(events, **selection)
        self.add(events, "ADD COLUMN extra Int64 DEFAULT 1")
        assert plan(events, definition=selection) == []
        assert load(events, **selection)["status"] == "unchanged"

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            (
                "MODIFY COLUMN kind String DEFAULT 'x'",
                "column 'kind' of the table was String and is String DEFAULT 'x'",
            ),
            (
                "MODIFY COLUMN at DateTime('Asia/Tokyo')",
                "column 'at' of the table was DateTime('UTC') and is DateTime('Asia/Tokyo')",
            ),
        ],
    )
    def test_a_column_that_became_another_one_is_told(self, events: Lake, change: str, why: str) -> None:
        published(events)
        self.add(events, change)
        assert load(events)["reason"].endswith(f": {why}")
        assert load(events)["status"] == "unchanged"

    def test_an_index_changes_nothing(self, events: Lake) -> None:
        published(events)
        self.add(events, "ADD INDEX by_kind kind TYPE set(10)")
        assert load(events)["status"] == "unchanged"

    def test_a_setting_of_reading_is_told(self, events: Lake) -> None:
        published(events)
        settings = {"input_format_parquet_case_insensitive_column_matching": 1}
        assert plan(events, definition={"settings": settings}) == [MONTH]
        assert load(events, settings=settings)["reason"].endswith(
            ": setting input_format_parquet_case_insensitive_column_matching was not given and is '1'"
        )
        assert plan(events, definition={"settings": settings}) == []
        assert load(events, settings=settings)["status"] == "unchanged"

    def test_the_definition_goes_before_the_objects(self, events: Lake) -> None:
        create(events)
        upload(events, extra=7)
        load(events)
        self.add(events, "ADD COLUMN extra Int64 DEFAULT 1")
        upload(events, extra=8)
        assert "the table got column 'extra'" in load(events)["reason"]

    def test_another_sharding_key_is_told(self, events: Lake) -> None:
        create(events)
        upload(events)
        sql = (
            f"CREATE OR REPLACE TABLE {events.database}.every AS {events.database}.events "
            f"ENGINE = Distributed({events.cluster.name}, {events.database}, events, {{}})"
        )
        events.on_every_node(sql.format("n"))
        by_key = {"table": "every", "cluster": None, "distribution": "sharding_key"}
        load(events, **by_key)
        events.on_every_node(sql.format("intDiv(n, 3)"))
        assert load(events, **by_key)["reason"].endswith(": the sharding key was n and is intDiv(n, 3)")
        assert load(events, **by_key)["status"] == "unchanged"


class TestOlderRecords:
    def forget_evidence(self, lake: Lake) -> None:
        for name in ("evidence", "structure"):
            lake.on_every_node(f"ALTER TABLE {lake.database}.chs3_ledger DROP COLUMN {name}")

    def test_they_are_unchanged_and_get_the_evidence(self, events: Lake) -> None:
        published(events)
        self.forget_evidence(events)
        assert load(events)["status"] == "unchanged"
        number = fullest(events)
        alter(events, number, f"DROP PART '{parts(events, number)[1]}'")
        refused(events)

    def test_when_the_month_was_published_stays(self, events: Lake) -> None:
        published(events)
        sql = (
            f"SELECT DISTINCT recorded_at, attempt, fingerprint, rows FROM {events.database}.chs3_ledger "
            "WHERE event = 'published'"
        )
        before = events.on_every_node(sql)
        self.forget_evidence(events)
        load(events)
        assert events.on_every_node(sql) == before

    def test_a_user_who_may_not_add_columns_finds_it_unchanged_all_the_same(
        self, events: Lake, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        published(events)
        self.forget_evidence(events)
        refuse: Callable[..., Any] = lambda *_: (_ for _ in ()).throw(_no_grant())  # noqa: E731
        monkeypatch.setattr("airflow_provider_chs3.core.renewing.make_ledger", refuse)
        assert load(events)["status"] == "unchanged"


def _no_grant() -> Exception:
    from airflow_provider_chs3.exceptions import PreflightError

    return PreflightError(["The ledger is of an older version of this package"])
