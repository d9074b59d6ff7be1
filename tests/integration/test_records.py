"""What records are good for once some of them are lost, of another attempt, or of an older version."""

from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from tests.integration.events import (
    FILES,
    OTHER_MONTH,
    alter,
    alter_ledger,
    events,
    fullest,
    load,
    parts,
    published,
    refused,
)
from tests.integration.lake import MONTH, Lake

__all__ = ["events"]


class TestAttempts:
    @pytest.mark.thorough
    @pytest.mark.three_nodes
    def test_nodes_that_different_attempts_have_published_load_again(self, events: Lake) -> None:
        published(events)
        alter_ledger(events, 1, "UPDATE attempt = 'another' WHERE event = 'published'")
        assert load(events)["reason"] == "an earlier load did not finish, or a node does not have it"


class TestLostLedger:
    def lose(self, lake: Lake, number: int) -> None:
        lake.on_node(number, f"TRUNCATE TABLE {lake.database}.chs3_ledger")

    @pytest.mark.three_nodes
    def test_a_node_that_lost_its_ledger_and_rows_is_changed(self, events: Lake) -> None:
        published(events, OTHER_MONTH, MONTH)
        number = fullest(events)
        self.lose(events, number)
        events.on_every_node(f"SYSTEM START MERGES {events.database}.events")
        alter(events, number, "DELETE IN PARTITION ID '202610' WHERE n % 10 = 5")
        with pytest.raises(AirflowFailException, match="its records are lost there, and so are rows of it"):
            load(events)

    @pytest.mark.thorough
    @pytest.mark.three_nodes
    def test_so_is_one_that_lost_all_rows_of_the_month(self, events: Lake) -> None:
        published(events, OTHER_MONTH, MONTH)
        number = fullest(events)
        self.lose(events, number)
        alter(events, number, "DROP PARTITION ID '202610'")
        with pytest.raises(AirflowFailException, match="its records are lost there, and so are rows of it"):
            load(events)

    @pytest.mark.thorough
    def test_a_node_without_any_row_of_the_table_is_a_new_one(self, events: Lake) -> None:
        published(events)
        number = fullest(events)
        self.lose(events, number)
        events.on_node(number, f"TRUNCATE TABLE {events.database}.events")
        assert load(events)["status"] == "published"
        assert sum(events.rows_per_node()) == FILES * 10

    @pytest.mark.three_nodes
    def test_one_that_lost_its_ledger_alone_loads_again(self, events: Lake) -> None:
        published(events)
        self.lose(events, fullest(events))
        assert load(events)["reason"] == "a node has lost its records of it"


class TestOlderRecords:
    def make_it_of_0_1_0(self, lake: Lake) -> None:
        """Take away what came after 0.1.0: columns of the ledger, and the table of objects."""
        for name in ("data_version", "evidence", "structure", "base", "increments", "summary"):
            lake.on_every_node(f"ALTER TABLE {lake.database}.chs3_ledger DROP COLUMN {name}")
        lake.on_every_node(f"DROP TABLE {lake.database}.chs3_objects SYNC")

    def test_they_are_unchanged_and_get_the_evidence(self, events: Lake) -> None:
        published(events)
        self.make_it_of_0_1_0(events)
        assert load(events)["status"] == "unchanged"
        number = fullest(events)
        alter(events, number, f"DROP PART '{parts(events, number)[1]}'")
        refused(events)

    @pytest.mark.thorough
    def test_when_the_month_was_published_stays(self, events: Lake) -> None:
        published(events)
        sql = (
            f"SELECT DISTINCT recorded_at, attempt, fingerprint, rows FROM {events.database}.chs3_ledger "
            "WHERE event = 'published'"
        )
        before = events.on_every_node(sql)
        self.make_it_of_0_1_0(events)
        load(events)
        assert events.on_every_node(sql) == before
