"""Plan, ledger and page say what the load says of a period, in every state of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.load import Load
from airflow_provider_chs3.operators.held import ApprovePeriodsOperator, DiscardPeriodsOperator
from airflow_provider_chs3.operators.ledger import ForgetPeriodsOperator
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.operators.versions import RestorePeriodsOperator
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.s3 import S3Endpoint
from airflow_provider_chs3.testbed.trips import Trips, create_table_sql
from tests.plugin.fixture_types import AsUser
from tests.plugin.period_loads import TRIPS, periods
from tests.support.lake import PERIOD, Lake, lake_on
from tests.support.ledger_tasks import adopt, ledger, where
from tests.support.row_policies import filtered

#: A fixture.
__all__ = ["filtered"]


LATER = "2026-11"
UNKNOWN = "the partition holds rows that no load wrote"
STOPS = f"its load will stop: {UNKNOWN}"
CHANGED = "the partition was changed since it was published"


@dataclass(frozen=True)
class Said:
    """Return the answer of each about one period; the load comes last, as it changes the state."""

    plan: str
    ledger: str
    page: str
    load: str
    doctor: str


AS_PUBLISHED = Said(
    plan="as published",
    ledger="as published",
    page="published: as published",
    load="as published",
    doctor="as published: a load has nothing to do",
)


def refused(run: Callable[[], Any]) -> str:
    """Return its answer, or the error that ends it."""
    try:
        return str(run())
    except (AirflowFailException, AirflowSkipException) as error:
        return str(error)


def answers(as_user: AsUser, lake: Lake, period: str = PERIOD, **options: Any) -> Said:
    planner = PlanLoadsOperator(task_id="plan", periods=[period], load=Load(**lake.place))
    listed = refused(lambda: [each["state"] for each in ledger(lake) if each["period"] in (period, None)])
    page = periods(as_user, lake).get(period, {"state": "", "why": ""})
    return Said(
        plan=refused(lambda: planner.planned({})[0].reason),
        ledger=listed.removeprefix("['").removesuffix("']"),
        page=f"{page['state']}: {page['why']}",
        doctor=doctor(lake, period),
        load=refused(lambda: lake.load(period=period, **options)["reason"]),
    )


def doctor(lake: Lake, period: str = PERIOD) -> str:
    """Return the doctor's findings about the table or the period, or its summary of the period."""
    arguments = ["--database", lake.database, "--table", lake.table, "--cluster", lake.cluster.name]
    of_period = ["--bucket", lake.bucket, "--key", "trips/{YYYY-MM}/", "--period", period]
    with StringIO() as out, redirect_stdout(out):
        main(["doctor", "--output=json", *arguments, *of_period])
        checks = {check["name"]: check for check in json.loads(out.getvalue())["checks"]}
    of_table, of_period = checks["table"], checks.get(f"period {period}", checks.get("period"))
    return "; ".join([*of_table["findings"], *of_period["findings"]]) or str(of_period["summary"])


@pytest.fixture
def loaded(trips_lake: Lake) -> Lake:
    trips_lake.upload(TRIPS)
    trips_lake.load()
    return trips_lake


def partitioned(lake: Lake, key: str) -> None:
    lake.on_every_node(create_table_sql(f"{lake.database}.trips").replace("toYYYYMM(pickup_at)", key))


def mutate(lake: Lake, command: str) -> None:
    lake.on_every_node(f"ALTER TABLE {lake.database}.trips {command} SETTINGS mutations_sync = 2")


@pytest.mark.thorough
def test_a_period_before_its_first_load_with_other_objects_and_without_its_table(
    as_user: AsUser, trips_lake: Lake
) -> None:
    trips_lake.upload(TRIPS)
    said = answers(as_user, trips_lake)
    assert (said.plan, said.ledger, said.page, said.load) == ("never loaded", "[]", ": ", "never loaded")
    assert said.doctor.endswith(": never loaded")
    trips_lake.upload(Trips(seed=2, rows_per_period=600, files_per_period=3))
    said = answers(as_user, trips_lake)
    changed = "its objects changed since it was published"
    # Neither ledger nor page lists a storage.
    assert (said.plan, said.ledger, said.page, said.load) == (
        changed,
        "as published",
        "published: as published",
        changed,
    )
    assert said.doctor.endswith(f": {changed}")
    trips_lake.on_every_node(f"DROP TABLE {trips_lake.database}.trips SYNC")
    said = answers(as_user, trips_lake)
    assert said.page.startswith("gone: the table ")
    for one in (said.plan, said.load, said.doctor, refused(lambda: adopt(trips_lake))):
        assert f"Table {trips_lake.database}.trips does not exist" in one


@pytest.mark.thorough
@pytest.mark.parametrize("partition_by", ["toYYYYMM(pickup_at)", "toStartOfMonth(pickup_at)"])
def test_rows_that_no_load_has_put_there(as_user: AsUser, lake: Lake, partition_by: str) -> None:
    partitioned(lake, partition_by)
    lake.upload(TRIPS, LATER)
    lake.load(period=LATER)
    lake.upload(TRIPS)
    lake.insert_objects()
    said = answers(as_user, lake)
    assert (said.plan, said.ledger, said.page) == (STOPS, UNKNOWN, f"changed: {UNKNOWN}")
    assert UNKNOWN in said.load
    assert said.doctor == f"a load of {PERIOD} would fail: {said.load}"
    adopt(lake)
    assert answers(as_user, lake) == AS_PUBLISHED


@pytest.mark.thorough
def test_rows_of_others_before_any_ledger_is_there(as_user: AsUser, trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    trips_lake.insert_objects()
    said = answers(as_user, trips_lake)
    assert (said.plan, said.ledger) == (STOPS, UNKNOWN)
    assert UNKNOWN in said.load
    assert said.doctor == f"a load of {PERIOD} would fail: {said.load}"


def test_a_period_that_somebody_changed(as_user: AsUser, loaded: Lake) -> None:
    mutate(loaded, "UPDATE fare = 0 WHERE 1")
    said = answers(as_user, loaded)
    changed = f"{CHANGED}: ALTER TABLE … UPDATE fare = 0 WHERE …"
    assert (said.plan, said.ledger, said.page) == (f"its load will stop: {changed}", changed, f"changed: {changed}")
    assert CHANGED in said.load
    assert said.doctor == f"a load of {PERIOD} would fail: {said.load}"


@pytest.mark.thorough
def test_a_period_that_a_mutation_passed_and_did_not_change(as_user: AsUser, loaded: Lake) -> None:
    loaded.upload(TRIPS, LATER)
    loaded.load(period=LATER)
    mutate(loaded, f"DELETE WHERE toYYYYMM(pickup_at) = {LATER.replace('-', '')} AND trip_id % 2 = 0")
    states = {period: each["state"] for period, each in periods(as_user, loaded).items()}
    assert states == {PERIOD: "published", LATER: "changed"}
    assert answers(as_user, loaded) == AS_PUBLISHED
    said = answers(as_user, loaded, LATER)
    assert CHANGED in said.load
    assert said.doctor == f"a load of {LATER} would fail: {said.load}"


# Merges may leave nothing of a part in the second: one that is gone is a change only if the server lost it.
@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["MergeTree", "SummingMergeTree"])
def test_a_period_of_which_a_power_cut_broke_parts(as_user: AsUser, lake: Lake, engine: str) -> None:
    lake.on_every_node(create_table_sql(f"{lake.database}.trips").replace("MergeTree", engine, 1))
    lake.upload(TRIPS)
    lake.load()
    name = f"{lake.database}.trips"
    of_parts = f"FROM system.parts WHERE database = '{lake.database}' AND table = 'trips' AND active AND rows"
    node = next(index for index, rows in enumerate(lake.rows_per_node()) if rows)
    for path, part in lake.on_node(node, f"SELECT path, name {of_parts}"):
        # As a server does that starts, and cannot read it.
        lake.on_node(node, f"ALTER TABLE {name} DETACH PART '{part}'")
        detached = Path(path).parent / "detached"
        (detached / part).rename(detached / f"broken-on-start_{part}")
    said = answers(as_user, lake)
    broken = "parts of it were broken when a server started, as after a power cut"
    assert (said.plan, said.page, said.load) == (broken, f"unfinished: {broken}", broken)
    assert said.ledger.startswith(broken)
    assert said.doctor.endswith(f": {broken}")
    assert answers(as_user, lake).page == AS_PUBLISHED.page


@pytest.mark.thorough
def test_a_month_of_a_table_by_day(as_user: AsUser, lake: Lake) -> None:
    partitioned(lake, "toYYYYMMDD(pickup_at)")
    lake.upload(TRIPS)
    lake.on_every_node(f"INSERT INTO {lake.database}.trips (trip_id, pickup_at) VALUES (1, '{PERIOD}-01 00:00:00')")
    said = answers(as_user, lake)
    for one in (said.plan, said.load, said.doctor, refused(lambda: adopt(lake))):
        assert "is not partitioned by month" in one


@pytest.mark.thorough
def test_a_period_with_rows_that_wait_for_somebody(as_user: AsUser, loaded: Lake) -> None:
    loaded.upload(Trips(seed=2, rows_per_period=600, files_per_period=3))
    hold: dict[str, Any] = {
        "checks": {"column_mapping": {"trip_id": {"max": {"leq_to": 10}}}},
        "policies": {"on_failed_check": "hold"},
    }
    assert "the table is unchanged: checks failed: max of trip_id is " in refused(lambda: loaded.load(**hold))
    said = answers(as_user, loaded, **hold)
    assert said.plan.startswith("held since 20")
    assert said.plan.endswith(
        "wanted at most 10. chs3 approve publishes it, chs3 discard drops the held rows, and a load of other objects "
        "replaces them"
    )
    # A check's result may be a value of a row: not everybody sees it. The page has buttons instead of commands.
    assert said.page == "held: checks failed"
    assert said.ledger == said.plan
    assert said.plan in said.load
    assert said.plan in said.doctor
    loaded.upload(Trips(seed=3, rows_per_period=900, files_per_period=3))
    decided = {"task_id": "decide", "table": "trips", "periods": [PERIOD], **where(loaded)}
    approve = ApprovePeriodsOperator(bucket=loaded.bucket, key="trips/{YYYY-MM}/", **decided)
    assert "cannot be approved: its objects changed since it was held" in refused(lambda: approve.execute({}))
    assert (ledger(loaded)[0]["state"], periods(as_user, loaded)[PERIOD]["why"]) == (said.ledger, said.page[6:])
    loaded.upload(Trips(seed=2, rows_per_period=600, files_per_period=3))
    assert answers(as_user, loaded, **hold) == said
    DiscardPeriodsOperator(**decided).execute({})
    assert (periods(as_user, loaded)[PERIOD]["state"], ledger(loaded)[0]["state"]) == ("published", "as published")
    refused(lambda: loaded.load(**hold))
    assert ledger(loaded)[0]["state"].startswith("held since 20")
    # By hand, no record says that it is gone.
    held = f"database = '{loaded.database}' AND startsWith(name, 'chs3_held_')"
    ((name,),) = loaded.on_node(0, f"SELECT name FROM system.tables WHERE {held}")
    loaded.on_every_node(f"DROP TABLE {loaded.database}.{name} SYNC")
    assert (periods(as_user, loaded)[PERIOD]["state"], ledger(loaded)[0]["state"]) == ("published", "as published")


@pytest.mark.thorough
def test_a_period_of_others_that_waits_for_somebody(as_user: AsUser, loaded: Lake) -> None:
    """Its objects are as published, so the held rows are of the same ones as those of the table."""
    loaded.on_every_node(f"INSERT INTO {loaded.database}.trips (trip_id, pickup_at) VALUES (1, '{PERIOD}-05')")
    hold = {"policies": {"on_target_changed": "hold"}}
    assert "the table is unchanged: the partition was changed since" in refused(lambda: loaded.load(**hold))
    said = answers(as_user, loaded, **hold)
    assert said.plan.startswith("held since 20")
    reason = said.plan.partition(" UTC: ")[2].partition(". chs3 approve")[0]
    assert (said.ledger, said.page) == (said.plan, f"held: {reason}")
    assert said.plan in said.load
    assert said.plan in said.doctor
    DiscardPeriodsOperator(task_id="discard", table="trips", periods=[PERIOD], **where(loaded)).execute({})


@pytest.mark.thorough
def test_a_period_that_is_pinned(as_user: AsUser, loaded: Lake) -> None:
    loaded.upload(Trips(seed=2, rows_per_period=600, files_per_period=3))
    loaded.load(keep_versions=1)
    RestorePeriodsOperator(task_id="restore", table="trips", periods=[PERIOD], **where(loaded)).execute({})
    said = answers(as_user, loaded)
    assert said.plan.startswith("pinned since 20")
    assert (said.ledger, said.page) == (said.plan, f"pinned: {said.plan}")
    assert said.plan in said.load
    assert said.plan in said.doctor


@pytest.mark.thorough
def test_a_period_that_was_forgotten(as_user: AsUser, loaded: Lake) -> None:
    ForgetPeriodsOperator(task_id="forget", table="trips", periods=[PERIOD], **where(loaded)).execute({})
    said = answers(as_user, loaded)
    assert (said.plan, said.ledger) == (STOPS, UNKNOWN)
    assert said.page == "changed: forgotten in the ledger; its rows are still there"
    assert UNKNOWN in said.load


@pytest.mark.thorough
def test_a_period_that_is_half_published(as_user: AsUser, loaded: Lake) -> None:
    # As if the load had been killed between its intent and the record of its publication.
    loaded.on_every_node(
        f"ALTER TABLE {loaded.database}.chs3_ledger DELETE WHERE event = 'published' SETTINGS mutations_sync = 2"
    )
    unfinished = "an earlier load did not finish, or a node does not have it"
    said = answers(as_user, loaded)
    assert (said.plan, said.load) == (unfinished, unfinished)
    assert said.doctor.endswith(f": {unfinished}")
    assert said.ledger.startswith(unfinished)
    assert said.page == f"unfinished: {unfinished}"
    assert answers(as_user, loaded) == AS_PUBLISHED


@pytest.mark.thorough
def test_a_column_that_no_file_has(as_user: AsUser, loaded: Lake) -> None:
    loaded.on_every_node(f"ALTER TABLE {loaded.database}.trips ADD COLUMN more String")
    (adopted,) = adopt(loaded)
    assert (adopted["status"], adopted["reason"]) == ("unchanged", "as published")
    assert answers(as_user, loaded) == AS_PUBLISHED


@pytest.mark.thorough
def test_a_period_that_was_loaded_with_other_arguments_is_one_that_the_doctor_knows(loaded: Lake) -> None:
    loaded.load(columns=["trip_id", "pickup_at"])
    assert doctor(loaded) == AS_PUBLISHED.doctor
    # A key is in no record.
    loaded.load(select={"trip_id": "trip_id", "pickup_at": "pickup_at", "zone": "hex(HMAC('sha256', zone, 'key'))"})
    assert doctor(loaded).startswith("as published by a load with arguments other than the defaults. If its DAG sets")


@pytest.mark.thorough
def test_a_period_that_a_row_policy_hides(
    as_user: AsUser,
    filtered: ClickHouseCluster,
    chs3_s3: S3Endpoint,
    chs3_bucket: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with lake_on(filtered, chs3_s3, chs3_bucket, monkeypatch) as lake:
        partitioned(lake, "toYYYYMM(pickup_at)")
        lake.upload(TRIPS)
        lake.on_every_node(f"INSERT INTO {lake.database}.trips (trip_id, pickup_at) VALUES (1, '{PERIOD}-01 00:00:00')")
        said = answers(as_user, lake)
        # The page has nothing to show: no load has put these rows there.
        assert said.page == ": "
        for one in (said.plan, said.load, said.doctor, refused(lambda: adopt(lake))):
            assert one.startswith("A row policy filters system.columns, system.parts for the connection's user on ")
