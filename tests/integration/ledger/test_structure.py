"""A period is loaded again when its table became another one, in a way that makes other rows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.events import create, events, load, merge, plan, published, upload
from tests.support.lake import PERIOD, Lake

__all__ = ["events"]


class TestStructure:
    def add(self, lake: Lake, change: str) -> None:
        lake.on_every_node(f"ALTER TABLE {lake.database}.events {change}")

    @pytest.mark.thorough
    def test_a_column_that_the_files_have_had_all_along_makes_the_period_load_again(self, events: Lake) -> None:
        create(events)
        upload(events, extra=7)
        load(events)
        self.add(events, "ADD COLUMN extra Int64 DEFAULT 1")
        assert plan(events) == [PERIOD]
        reason = load(events)["reason"]
        assert reason.endswith(": column 'extra' was added to the table, and the period's files have it")
        assert events.on_node(0, f"SELECT DISTINCT extra FROM {events.database}.events") == [(7,)]
        assert load(events)["status"] == "unchanged"

    @pytest.mark.thorough
    def test_a_column_that_no_file_has_and_an_index_change_nothing(self, events: Lake) -> None:
        published(events)
        self.add(events, "ADD COLUMN extra Int64 DEFAULT 1")
        self.add(events, "ADD INDEX by_kind kind TYPE set(10)")
        assert plan(events) == []
        assert load(events)["status"] == "unchanged"

    @pytest.mark.thorough
    @pytest.mark.parametrize("selection", [{"columns": ["at", "n"]}, {"select": {"at": "at", "n": "n"}}])
    def test_a_column_that_was_not_asked_for_changes_nothing(self, events: Lake, selection: dict[str, Any]) -> None:
        create(events)
        upload(events, extra=7)
        load(events, **selection)
        self.add(events, "ADD COLUMN extra Int64 DEFAULT 1")
        assert plan(events, definition=selection) == []
        assert load(events, **selection)["status"] == "unchanged"

    @pytest.mark.thorough(but=1)
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

    @pytest.mark.thorough
    def test_a_setting_of_reading_is_told(self, events: Lake) -> None:
        published(events)
        settings = {"input_format_parquet_case_insensitive_column_matching": 1}
        assert plan(events, definition={"settings": settings}) == [PERIOD]
        assert load(events, settings=settings)["reason"].endswith(
            ": setting input_format_parquet_case_insensitive_column_matching was not set and is '1'"
        )
        assert plan(events, definition={"settings": settings}) == []
        assert load(events, settings=settings)["status"] == "unchanged"

    @pytest.mark.thorough
    def test_a_setting_of_what_select_makes_is_told(self, events: Lake) -> None:
        create(events)
        upload(events)
        select = {"at": "at", "n": "n", "kind": "arrayStringConcat(splitByChar('i', assumeNotNull(kind), 1), '|')"}
        load(events, select=select)
        settings = {"splitby_max_substrings_includes_remaining_string": 1}
        assert plan(events, definition={"select": select, "settings": settings}) == [PERIOD]
        result = load(events, select=select, settings=settings)
        assert result["reason"].endswith(f": setting {next(iter(settings))} was not set and is '1'")
        assert load(events, select=select, settings=settings)["status"] == "unchanged"

    @pytest.mark.thorough
    @pytest.mark.parametrize("kind", ["DEFAULT", "MATERIALIZED"])
    def test_a_default_that_merges_have_written_for_a_new_column_is_compared(self, events: Lake, kind: str) -> None:
        published(events)
        self.add(events, f"ADD COLUMN extra Int64 {kind} n + 1")
        assert load(events)["status"] == "unchanged"
        merge(events)
        assert load(events)["status"] == "unchanged"
        self.add(events, f"MODIFY COLUMN extra Int64 {kind} n + 100")
        assert plan(events) == [PERIOD]
        assert load(events)["reason"].endswith(f" was Int64 {kind} n + 1 and is Int64 {kind} n + 100")
        assert events.on_node(0, f"SELECT DISTINCT extra - n FROM {events.database}.events") == [(100,)]
        assert load(events)["status"] == "unchanged"

    @pytest.mark.thorough
    def test_the_definition_goes_before_the_objects(self, events: Lake) -> None:
        create(events)
        upload(events, extra=7)
        load(events)
        self.add(events, "ADD COLUMN extra Int64 DEFAULT 1")
        upload(events, extra=8)
        assert "column 'extra' was added to the table" in load(events)["reason"]

    @pytest.mark.thorough
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
