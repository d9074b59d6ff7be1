"""Evidence that a period is still as published, and of those who changed it."""

from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.integration.events import (
    CHANGED,
    FILES,
    OTHER_PERIOD,
    adopt,
    alter,
    count_records,
    create,
    events,
    evidence,
    fullest,
    load,
    merge,
    parts,
    plan,
    published,
    refused,
    upload,
)
from tests.support.lake import PERIOD, Lake

__all__ = ["events"]

MOVING = ["at + INTERVAL 50 YEAR RECOMPRESS CODEC(ZSTD(3))", "at + INTERVAL 50 YEAR TO DISK 'default'"]


def altered(lake: Lake, change: str, *, columns: str, is_merged: bool) -> None:
    """Load a table with further columns, and have somebody alter it on every node."""
    create(lake, columns=columns)
    upload(lake, files=4)
    load(lake)
    lake.on_every_node(f"SYSTEM START MERGES {lake.database}.events")
    for number in range(len(lake.cluster.nodes)):
        alter(lake, number, change)
    if is_merged:
        merge(lake)


class TestLostRows:
    @pytest.mark.thorough(but=1)
    @pytest.mark.parametrize("engine", ["MergeTree", "ReplacingMergeTree"])
    @pytest.mark.parametrize("how", ["DROP", "DETACH"])
    def test_a_part_in_the_middle_that_is_gone_is_a_change(self, events: Lake, engine: str, how: str) -> None:
        published(events, engine=engine)
        number = fullest(events)
        alter(events, number, f"{how} PART '{parts(events, number)[1]}'")
        refused(events)

    @pytest.mark.thorough
    def test_so_it_is_after_the_others_were_merged(self, events: Lake) -> None:
        published(events)
        number = fullest(events)
        alter(events, number, f"DROP PART '{parts(events, number)[1]}'")
        merge(events, number)
        assert len(parts(events, number)) == 1
        refused(events)

    @pytest.mark.thorough
    def test_columns_that_have_changed_their_names_are_a_change(self, events: Lake) -> None:
        """The data of a compact part stay the same, byte by byte."""
        create(events, columns=", text String")
        upload(events, files=1, text="x")
        load(events)
        events.on_every_node(f"SYSTEM START MERGES {events.database}.events")
        for old, new in (("kind", "swap"), ("text", "kind"), ("swap", "text")):
            events.on_every_node(f"ALTER TABLE {events.database}.events RENAME COLUMN {old} TO {new}")
        refused(events)

    @pytest.mark.thorough
    @pytest.mark.parametrize("ttl", MOVING)
    def test_a_partition_that_is_gone_is_a_change_where_a_ttl_only_moves_rows(self, events: Lake, ttl: str) -> None:
        published(events, ttl=ttl)
        events.on_every_node(f"ALTER TABLE {events.database}.events DROP PARTITION ID '202610'")
        refused(events)

    @pytest.mark.thorough
    @pytest.mark.parametrize("ttl", ["", MOVING[0]])
    def test_rows_that_optimize_deduplicate_took_away_are_a_change(self, events: Lake, ttl: str) -> None:
        create(events, ttl=ttl)
        upload(events)
        for file in range(FILES):
            body = events.s3.get_object(Bucket=events.bucket, Key=f"events/{PERIOD}/{file}.parquet")["Body"].read()
            events.put(f"events/{PERIOD}/twice_{file}.parquet", body)
        load(events)
        for each in range(len(events.cluster.nodes)):
            merge(events, each, how="FINAL DEDUPLICATE")
        assert sum(events.rows_per_node()) < 2 * FILES * 10
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


class TestMutations:
    DELETE = "DELETE IN PARTITION ID '202609' WHERE n < 5"

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        "change",
        [
            DELETE,
            "DELETE IN PARTITION 202609 WHERE n < 5",
            "UPDATE kind = ' IN PARTITION ' IN PARTITION 202609 WHERE 1",
        ],
    )
    @pytest.mark.parametrize("is_merged", [False, True])
    def test_one_of_another_period_changes_nothing(self, events: Lake, change: str, is_merged: bool) -> None:
        published(events, OTHER_PERIOD, PERIOD)
        events.on_every_node(f"SYSTEM START MERGES {events.database}.events")
        for number in range(len(events.cluster.nodes)):
            alter(events, number, change)
        if is_merged:
            merge(events)
        assert load(events)["status"] == "unchanged"
        assert plan(events) == []
        with pytest.raises(AirflowFailException, match=CHANGED):
            load(events, OTHER_PERIOD)

    @pytest.mark.thorough
    def test_a_failed_one_of_another_period_changes_nothing(self, events: Lake) -> None:
        published(events, OTHER_PERIOD, PERIOD)
        events.on_every_node(f"SYSTEM START MERGES {events.database}.events")
        failing = "DELETE IN PARTITION ID '202609' WHERE throwIf(n >= 0)"
        for number in range(len(events.cluster.nodes)):
            alter(events, number, failing, mutations_sync=0)
        merge(events)
        assert load(events)["status"] == "unchanged"

    @pytest.mark.thorough(but=1)
    @pytest.mark.parametrize("condition", ["n = 5", "throwIf(n >= 0)"])
    def test_one_of_this_period_that_is_not_done_is_a_change(self, events: Lake, condition: str) -> None:
        published(events)
        for number in range(len(events.cluster.nodes)):
            alter(events, number, f"DELETE IN PARTITION ID '202610' WHERE {condition}", mutations_sync=0)
        refused(events)

    @pytest.mark.thorough
    def test_one_without_a_partition_that_takes_rows_of_another_period_changes_nothing(self, events: Lake) -> None:
        published(events, OTHER_PERIOD, PERIOD)
        events.on_every_node(f"SYSTEM START MERGES {events.database}.events")
        for number in range(len(events.cluster.nodes)):
            alter(events, number, f"DELETE WHERE at < '{PERIOD}-01'")
        assert load(events)["status"] == "unchanged"

    @pytest.mark.thorough
    @pytest.mark.parametrize("change", ["DELETE WHERE n = 5", "UPDATE kind = 'x' WHERE n = 5"])
    def test_one_of_all_periods_that_takes_rows_of_this_is_a_change(self, events: Lake, change: str) -> None:
        published(events)
        events.on_every_node(f"SYSTEM START MERGES {events.database}.events")
        for number in range(len(events.cluster.nodes)):
            alter(events, number, change)
        refused(events)

    @pytest.mark.thorough
    @pytest.mark.parametrize("is_merged", [True, False])
    @pytest.mark.parametrize("change", ["DROP COLUMN kind, DROP COLUMN IF EXISTS note", "DROP COLUMN note"])
    def test_a_column_that_is_dropped_changes_nothing_of_the_others(
        self, events: Lake, change: str, is_merged: bool
    ) -> None:
        altered(events, change, columns=", note String DEFAULT 'none'", is_merged=is_merged)
        assert (load(events)["status"], plan(events)) == ("unchanged", [])
        upload(events, files=5)
        assert load(events)["status"] == "published"
        assert [n for (n,) in events.on_node(0, f"SELECT n FROM {events.database}.events ORDER BY n")] == [*range(50)]

    @pytest.mark.thorough
    @pytest.mark.parametrize("is_merged", [True, False])
    @pytest.mark.parametrize(
        "change",
        [
            "DROP INDEX of_n",
            "CLEAR INDEX of_n",
            "ADD INDEX of_kind kind TYPE minmax, MATERIALIZE INDEX of_kind",
            "DROP PROJECTION by_kind",
            "ADD PROJECTION by_n (SELECT n ORDER BY n), MATERIALIZE PROJECTION by_n",
            "DROP PROJECTION by_kind, DROP INDEX of_n",
        ],
    )
    def test_what_parts_have_beside_their_rows_is_no_change(self, events: Lake, change: str, is_merged: bool) -> None:
        columns = ", INDEX of_n n TYPE minmax, PROJECTION by_kind (SELECT kind, count() GROUP BY kind)"
        altered(events, change, columns=columns, is_merged=is_merged)
        assert (load(events)["status"], plan(events)) == ("unchanged", [])
        alter(events, 0, "DELETE WHERE n = 5")
        refused(events)

    @pytest.mark.thorough
    def test_one_that_came_back_empty_is_a_change(self, events: Lake) -> None:
        published(events)
        events.on_every_node(f"SYSTEM START MERGES {events.database}.events")
        for change in ("DROP COLUMN kind", "ADD COLUMN kind String"):
            for number in range(len(events.cluster.nodes)):
                alter(events, number, change)
        refused(events)

    @pytest.mark.thorough
    def test_what_may_have_changed_it_is_named_without_values(self, events: Lake) -> None:
        published(events)
        events.on_every_node(f"SYSTEM START MERGES {events.database}.events")
        for number in range(len(events.cluster.nodes)):
            alter(events, number, "UPDATE kind = 'x' WHERE kind = 'Jane Doe'")
        alter(events, 0, "CLEAR COLUMN kind")
        said = rf"{CHANGED}: ALTER TABLE … UPDATE kind = '…' WHERE …, CLEAR COLUMN kind\. A reload would"
        with pytest.raises(AirflowFailException, match=said):
            load(events)

    @pytest.mark.thorough
    def test_a_lightweight_update_is_a_change_after_a_merge_too(self, events: Lake) -> None:
        published(
            events,
            OTHER_PERIOD,
            PERIOD,
            settings="enable_block_number_column = 1, enable_block_offset_column = 1",
        )
        number = fullest(events)
        with events.cluster.nodes[number].client() as client:
            update = f"UPDATE {events.database}.events SET kind = 'x' WHERE at >= '{PERIOD}-01'"
            client.execute(update, settings={"enable_lightweight_update": 1})
        merge(events, number)
        alter(events, number, self.DELETE)
        refused(events)


class TestMerges:
    @pytest.mark.thorough(but=1)
    @pytest.mark.parametrize("engine", ["MergeTree", "ReplacingMergeTree", "SummingMergeTree", "AggregatingMergeTree"])
    def test_merges_are_no_change(self, events: Lake, engine: str) -> None:
        published(events, engine=engine)
        merge(events)
        assert plan(events) == []
        assert load(events)["status"] == "unchanged"

    @pytest.mark.thorough
    def test_what_they_made_is_recorded_anew(self, events: Lake) -> None:
        published(events)
        number = fullest(events)
        merge(events)
        load(events)
        assert evidence(events, number).count('"]') == 1
        records = count_records(events)
        load(events)
        assert count_records(events) == records

    @pytest.mark.thorough
    def test_a_replaced_partition_that_was_merged_after_a_restart_is_unchanged(self, events: Lake) -> None:
        if not isinstance(events.cluster, ClickHouseCluster):
            pytest.skip("nodes of others are not restarted")
        published(events)
        upload(events, files=8)
        load(events)
        for number in range(len(events.cluster.nodes)):
            events.cluster.restart(number)
        merge(events)
        assert load(events)["status"] == "unchanged"

    @pytest.mark.thorough
    def test_rows_that_a_lightweight_delete_had_hidden_may_go_from_an_adopted_period(self, events: Lake) -> None:
        create(events)
        upload(events, files=3)
        name = f"{events.database}.events"
        events.on_node(0, f"INSERT INTO {name} SELECT '{PERIOD}-02', number, '' FROM numbers(33)")
        events.on_every_node(f"SYSTEM START MERGES {name}")
        events.on_node(0, f"DELETE FROM {name} WHERE n >= 30")
        adopt(events)
        merge(events, 0)
        assert load(events)["status"] == "unchanged"
