"""Records are of use even if some of them are lost or of another attempt."""

from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from tests.integration.events import FILES, OTHER_PERIOD, alter, alter_ledger, events, fullest, load, published
from tests.support.lake import PERIOD, Lake

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
        published(events, OTHER_PERIOD, PERIOD)
        number = fullest(events)
        self.lose(events, number)
        events.on_every_node(f"SYSTEM START MERGES {events.database}.events")
        alter(events, number, "DELETE IN PARTITION ID '202610' WHERE n % 10 = 5")
        with pytest.raises(AirflowFailException, match="its records are lost there, and so are rows of it"):
            load(events)

    @pytest.mark.thorough
    @pytest.mark.three_nodes
    def test_so_is_one_that_lost_all_rows_of_the_period(self, events: Lake) -> None:
        published(events, OTHER_PERIOD, PERIOD)
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
