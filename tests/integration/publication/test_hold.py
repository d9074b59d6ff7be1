"""Rows that fail a check are held until a person decides: nothing is published before, and nothing else afterwards."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from airflow_provider_chs3.core.values.period import Period
from airflow_provider_chs3.operators.held import ApprovePeriodsOperator, DiscardPeriodsOperator
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from tests.integration.lake import Lake
from tests.integration.publication.test_checks import NO_NULLS, PERIOD, Trips

RECORDS = "('chs3_ledger', 'chs3_loads', 'chs3_objects')"
CSV = {"file_format": "CSVWithNames"}
HOLDS = {"on_failed_check": "hold"}


@pytest.fixture
def trips(lake: Lake) -> Trips:
    return Trips(lake)


def hold(trips: Trips, *, says: str = "held", **options: Any) -> None:
    with pytest.raises(AirflowSkipException, match=says):
        trips.load(NO_NULLS, policies=HOLDS, **options)


def approve(trips: Trips) -> Any:
    conf = {"chs3_reload": {**of(trips), "approve": True}}
    return trips.load(NO_NULLS, policies=HOLDS, context=run(conf))


def of(trips: Trips) -> dict[str, Any]:
    return {"database": trips.lake.database, "table": trips.lake.table, "periods": [PERIOD]}


def run(conf: dict[str, Any]) -> dict[str, Any]:
    class DagRun:
        pass

    dag_run = DagRun()
    dag_run.conf = conf  # type: ignore[attr-defined]
    return {"dag_run": dag_run}


def tables(trips: Trips, beginning: str = "chs3_") -> list[str]:
    of_table = f"database = '{trips.lake.database}' AND startsWith(name, '{beginning}') AND name NOT IN {RECORDS}"
    answers = trips.lake.on_every_node(f"SELECT name FROM system.tables WHERE {of_table}")
    return sorted({name for rows in answers for (name,) in rows})


def test_held_rows_are_published_once_they_are_approved(trips: Trips) -> None:
    trips.put("a", range(40))
    trips.load(NO_NULLS)
    trips.put("b", range(40, 50), fare="\\N")
    hold(trips, says="the table is unchanged: checks failed: null_check of fare is 10, .*chs3 approve")
    assert trips.ids() == [*range(40)]
    (held,) = tables(trips)
    hold(trips, says="held since 20.* UTC: checks failed: null_check of fare is 10")
    assert tables(trips) == [held]
    found = approve(trips)
    assert (found["status"], found["reason"]) == ("published", "it was held, and is approved")
    assert trips.ids() == [*range(50)]
    assert tables(trips) == []
    assert trips.load(NO_NULLS, policies=HOLDS)["status"] == "unchanged"
    assert approve(trips)["status"] == "unchanged"


def decide(trips: Trips, kind: Any = ApprovePeriodsOperator, **options: Any) -> Any:
    """Decide by an operator of its own."""
    of_table = {"database": trips.lake.database, "table": trips.lake.table, "cluster": trips.lake.cluster.name}
    if kind is ApprovePeriodsOperator:
        options |= {"bucket": trips.lake.bucket, "key": "t/{YYYY-MM}/", "definition": {"files": CSV}}
    return kind(task_id="decide", periods=[PERIOD], **of_table, **options).execute({})


def test_what_the_table_got_meanwhile_is_not_undone_by_an_approval(trips: Trips) -> None:
    """An INSERT, a mutation, and another load: each voids what is held, and the period loads again."""
    trips.put("a", range(40))
    trips.load(NO_NULLS)
    trips.put("b", range(40, 50), fare="\\N")
    target = f"{trips.lake.database}.{trips.lake.table}"
    for change, ids in (
        (f"INSERT INTO {target} (at, id, fare) VALUES ('2026-10-05 12:00:00', 900, 1)", [*range(40), 900]),
        (f"ALTER TABLE {target} DELETE WHERE id = 7 SETTINGS mutations_sync = 2", [*range(7), *range(8, 40)]),
    ):
        hold(trips)
        trips.lake.on_every_node(change)
        with pytest.raises(AirflowFailException, match=r"cannot be approved: the table's rows of it on .* changed"):
            decide(trips)
        assert trips.ids() == ids
        trips.load({}, policies={"on_target_changed": "reload"})
        assert trips.ids() == [*range(50)]
        assert tables(trips) == []
        trips.put("b", range(40))
        trips.load({}, policies={"max_shrink_fraction": 1})
        trips.lake.s3.delete_object(Bucket=trips.lake.bucket, Key=f"t/{PERIOD}/b.csv")
        trips.load({}, policies={"max_shrink_fraction": 1})
        trips.put("b", range(40, 50), fare="\\N")
    hold(trips)
    trips.load(NO_NULLS, policies={"on_failed_check": "warn"}, context=run({"chs3_reload": of(trips)}))
    assert decide(trips)[0]["status"] == "unchanged"
    assert trips.ids() == [*range(50)]
    assert tables(trips) == []


def test_a_late_file_replaces_what_is_held(trips: Trips) -> None:
    trips.put("a", range(40), fare="\\N")
    hold(trips)
    (held,) = tables(trips)
    trips.put("b", range(40, 50))
    with pytest.raises(AirflowFailException, match="cannot be approved: its objects changed since it was held"):
        decide(trips)
    hold(trips, says="null_check of fare is 40")
    (newer,) = tables(trips)
    assert newer != held
    assert [each["status"] for each in decide(trips)] == ["published"]
    assert trips.ids() == [*range(50)]
    assert tables(trips) == []


def test_what_is_discarded_is_gone_and_the_next_load_loads_again(trips: Trips) -> None:
    trips.put("a", range(40), fare="\\N")
    hold(trips)
    assert decide(trips, DiscardPeriodsOperator) == [
        {"period": PERIOD, "was_held": True, "why": "checks failed: null_check of fare is 40, wanted equal to 0"}
    ]
    assert (tables(trips), trips.ids()) == ([], [])
    assert not decide(trips, DiscardPeriodsOperator)[0]["was_held"]
    with pytest.raises(AirflowFailException, match="cannot be approved: nothing is held of it"):
        decide(trips)
    hold(trips, says="the table is unchanged: checks failed")
    # Nothing is held for longer than its limit: the period loads again.
    trips.load({}, policies={**HOLDS, "hold_limit_days": 1e-9})
    assert trips.ids() == [*range(40)]
    assert tables(trips) == []


def test_of_three_periods_the_one_that_is_held_stays(trips: Trips) -> None:
    periods = ["2026-08", "2026-09", "2026-10"]
    for period in periods:
        trips.put("a", range(10), fare="\\N" if period == PERIOD else "2", period=period)
    results = trips.load(NO_NULLS, policies=HOLDS, period=None, periods=periods)
    assert [each["status"] for each in results] == ["published", "published", "held"]
    assert json.loads(json.dumps(results)) == results
    assert [trips.ids(period) for period in periods] == [[*range(10)], [*range(10)], []]
    planned = {each.period: each for each in plan(trips)}
    assert not any(each.is_to_load for each in planned.values())
    assert "held since" in planned[Period.parse(PERIOD)].reason
    again = trips.load(NO_NULLS, policies=HOLDS, period=None, periods=periods)
    assert [each["status"] for each in again] == ["unchanged", "unchanged", "held"]
    decide(trips)
    assert trips.ids() == [*range(10)]


def plan(trips: Trips) -> Any:
    of_table = {"database": trips.lake.database, "table": trips.lake.table, "cluster": trips.lake.cluster.name}
    place = {"bucket": trips.lake.bucket, "key": "t/{YYYY-MM}/"}
    return PlanLoadsOperator(task_id="plan", all_periods=True, **of_table, **place).planned({})
