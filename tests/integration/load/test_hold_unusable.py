"""Held rows that cannot be published any more: everybody says why, and the next load holds the period anew."""

from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from tests.support.checked_trips import NO_NULLS, Trips, trips
from tests.support.holds import HOLDS, approve, decide, hold, plan, tables
from tests.support.ledger_tasks import ledger

#: A fixture.
__all__ = ["trips"]

TABLE, HELD = "ALTER TABLE {table} ", "ALTER TABLE {held} "
#: A change between hold and approval → the approval's answer.
UNUSABLE = {
    TABLE
    + "DROP COLUMN `odd ``name`": "the table was altered since it was held: its column odd `name was String, .* gone",
    TABLE + "ADD COLUMN tip UInt64 DEFAULT 1": "the table got column tip since it was held",
    TABLE + "RENAME COLUMN `odd ``name` TO odd": "the table's rows of it on .* were changed since it was held",
    TABLE + "MODIFY COLUMN `odd ``name` LowCardinality(String) DEFAULT 'x'": "column 'odd `name' .* was String",
    TABLE + "ADD INDEX of_fare fare TYPE minmax": r"its indices was \(\), and is \(\('of_fare'",
    TABLE + "ADD PROJECTION p (SELECT id ORDER BY fare)": r"its projections was \(\), and is \(\('p'",
    HELD + "DELETE WHERE id = 7": "somebody changed table chs3_held_.*, which holds it: 50 rows were checked",
    "DELETE FROM {held} WHERE id = 7": "somebody changed table chs3_held_.*, which holds it: 50 rows were checked",
    "DROP TABLE {held} SYNC": "table chs3_held_.*, which held it, is gone",
}


@pytest.mark.thorough
@pytest.mark.parametrize("change", UNUSABLE)
def test_what_cannot_be_published_any_more_is_held_anew_by_the_next_load(trips: Trips, change: str) -> None:
    """Each approval says why, and nobody says that an approval publishes it."""
    lake, why = trips.lake, UNUSABLE[change]
    trips.put("a", range(40))
    trips.load(NO_NULLS)
    trips.put("b", range(40, 50), fare="\\N")
    hold(trips)
    (held,) = tables(trips)
    names = {"table": f"{lake.database}.{lake.table}", "held": f"{lake.database}.{held}"}
    lake.on_every_node(f"{change.format(**names)}{' SETTINGS mutations_sync = 2' if change[:5] == 'ALTER' else ''}")
    for _ in range(2):
        with pytest.raises(AirflowFailException, match=f"cannot be approved: .*{why}.*Load the period"):
            approve(trips)
    with pytest.raises(AirflowFailException, match=f"cannot be approved: .*{why}"):
        decide(trips)
    assert not any("held since" in each.reason for each in plan(trips))
    assert "held since" not in ledger(lake)[0]["state"]
    assert trips.ids() == [*range(40)]
    is_of_others = "RENAME" in change or "MODIFY COLUMN" in change
    options = {"policies": {**HOLDS, "on_target_changed": "reload"}} if is_of_others else {"policies": HOLDS}
    with pytest.raises(AirflowSkipException, match="the table is unchanged: checks failed: null_check of fare is 10"):
        trips.load(NO_NULLS, **options)
    assert [table for table in tables(trips) if table == held] == []
    assert approve(trips)["status"] == "published"
    assert trips.ids() == [*range(50)]
    assert tables(trips) == []
