"""The grants that a load's user needs: exactly these, and without any of them nothing is written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.core.load.staging_tables import Attempt
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.operators.ledger import (
    AdoptPeriodsOperator,
    CleanStagingOperator,
    ForgetPeriodsOperator,
    ListLedgerOperator,
)
from airflow_provider_chs3.operators.optimize import OptimizePartitionOperator
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.operators.prove import ProvePeriodsOperator
from airflow_provider_chs3.plugin.answers.periods import PeriodsQuestion, period_answers
from airflow_provider_chs3.plugin.observation.periods import PeriodState
from airflow_provider_chs3.sensors.merge_health import ClickHouseMergeHealthSensor
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.nodes import User
from airflow_provider_chs3.testbed.pytest_plugin import S3_NAMED_COLLECTION
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.lake import IS_OLDEST, PERIOD, Lake
from tests.support.narrow_user import TRAIT, documented, documented_also

TRIPS = Trips(rows_per_period=900, files_per_period=3)
PASSWORD = "n'arr\\ow"

SYSTEM = [
    f"SELECT ON system.{name}"
    for name in (
        "asynchronous_metrics",
        "clusters",
        "data_skipping_indices",
        "detached_parts",
        "disks",
        "macros",
        "merge_tree_settings",
        "mutations",
        "parts",
        "processes",
        "projections",
        "server_settings",
        "storage_policies",
    )
]
INSERT = [*SYSTEM, "INSERT ON `lake`.`trips`", "READ ON S3", "WRITE ON REMOTE"]
REPLACE = [
    *INSERT,
    "ALTER DELETE ON `lake`.`trips`",
    *(f"{privilege} ON `stage`.chs3_*" for privilege in ("SELECT", "INSERT", "CREATE TABLE", "DROP TABLE")),
    "TABLE ENGINE ON MergeTree",
]


def documented_here(section: str) -> list[str]:
    """As documented, but for the names of databases."""
    return [
        privilege.replace("taxi.chs3_", "stage.chs3_").replace("taxi.", "lake.") for privilege in documented(section)
    ]


#: Without these, tables of `system` cannot even be looked for: the server's error names them.
ASKED_BEFORE = "SELECT ON system.clusters"


def user(number: int) -> User:
    return User(f"without_{number}", PASSWORD)


NARROW = User("narrow", PASSWORD)
INSERTER = User("insert-er", PASSWORD)
COLLECTOR = User("collector", PASSWORD)
PLANNER = User("planner", PASSWORD)
AUDITOR = User("auditor", PASSWORD)
BLIND_PLANNER = User("blind_planner", PASSWORD)
DOCTOR = User("doctor", PASSWORD)
MERGER = User("merger", PASSWORD)
KEEPER = User("keeper", PASSWORD)
WATCHER = User("watcher", PASSWORD)
DEFERRER = User("deferrer", PASSWORD)
READER_BY_PROFILE = User("reader_by_profile", PASSWORD)
MISSING = {user(number): privilege for number, privilege in enumerate(REPLACE)}


@pytest.fixture(scope="module")
def cluster(chs3_s3: Any) -> Iterator[ClickHouseCluster]:
    users = {
        NARROW: [*REPLACE, TRAIT],
        INSERTER: [*INSERT, TRAIT],
        PLANNER: documented_here("Planning"),
        AUDITOR: [*documented_here("Proving"), TRAIT],
        BLIND_PLANNER: [each for each in documented_here("Planning") if each != "SELECT ON system.parts"],
        DOCTOR: documented_here("Merge health"),
        MERGER: [*documented_here("Merge health"), "SELECT ON system.processes", "OPTIMIZE ON lake.trips"],
        KEEPER: [*documented_here("Loading"), *documented_here("The ledger"), TRAIT],
        WATCHER: documented_here("The periods page"),
        DEFERRER: [*REPLACE, TRAIT, "READ ON REMOTE", *documented_also("the load is `deferrable`, which")],
        COLLECTOR: [*REPLACE, TRAIT, f"NAMED COLLECTION ON {S3_NAMED_COLLECTION}"],
    } | {each: [TRAIT, *(other for other in REPLACE if other != missing)] for each, missing in MISSING.items()}
    named_collections = {S3_NAMED_COLLECTION: chs3_s3.named_collection()}
    with ClickHouseCluster.start(
        2,
        users=users,
        profiles={READER_BY_PROFILE: {"readonly": 2}},
        secret="cluster's own",
        named_collections=named_collections,
    ) as cluster:
        for node in cluster.nodes:
            with node.client() as client:
                client.execute("CREATE DATABASE lake")
                client.execute("CREATE DATABASE stage")
        yield cluster


@pytest.fixture
def own_lake(
    cluster: ClickHouseCluster, chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lake]:
    """A lake in databases of fixed names, as the users' privileges name them."""
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps(chs3_s3.airflow_connection()))
    lake = Lake(cluster, chs3_s3.client(), chs3_bucket, "lake")
    lake.create_table()
    lake.upload(TRIPS)
    yield lake
    assert tables_of(lake, "stage") <= {"chs3_ledger", "chs3_loads", "chs3_objects"}
    for name in ("lake.trips", "stage.chs3_ledger", "stage.chs3_loads", "stage.chs3_objects"):
        lake.on_every_node(f"DROP TABLE IF EXISTS {name} SYNC")


def tables_of(lake: Lake, database: str) -> set[str]:
    sql = f"SELECT name FROM system.tables WHERE database = '{database}'"
    return {name for rows in lake.on_every_node(sql) for (name,) in rows}


def log_in(lake: Lake, credentials: User, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = lake.cluster.airflow_connection() | {"login": credentials.login, "password": credentials.password}
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))


def load_as(lake: Lake, credentials: User, monkeypatch: pytest.MonkeyPatch, **options: Any) -> dict[str, Any]:
    log_in(lake, credentials, monkeypatch)
    return lake.load(**{"staging_database": "stage"} | options)


def test_exactly_these_privileges_are_enough(own_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_as(own_lake, NARROW, monkeypatch)["status"] == "published"
    assert own_lake.facts() == TRIPS.facts(PERIOD)
    changed = Trips(seed=2, rows_per_period=800, files_per_period=3)
    own_lake.upload(changed)
    assert load_as(own_lake, NARROW, monkeypatch)["status"] == "published"
    assert own_lake.facts() == changed.facts(PERIOD)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("credentials", [each for each in MISSING if MISSING[each] != ASKED_BEFORE], ids=MISSING.get)
def test_without_one_of_them_every_node_is_named_with_its_grant_and_nothing_is_written(
    own_lake: Lake, monkeypatch: pytest.MonkeyPatch, credentials: User
) -> None:
    with pytest.raises(AirflowFailException) as stopped:
        load_as(own_lake, credentials, monkeypatch)
    assert str(stopped.value).splitlines() == [
        f"User {credentials.login!r} lacks privileges on {node.host}:{node.tcp_port}: run GRANT "
        f"{MISSING[credentials]} TO `{credentials.login}` there."
        for node in own_lake.cluster.nodes
    ]
    assert tables_of(own_lake, "stage") == set()
    assert own_lake.rows_per_node() == [0, 0]


@pytest.mark.thorough
def test_a_cluster_that_cannot_be_looked_up_stops_once_with_the_privilege(
    own_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    (credentials,) = [each for each, missing in MISSING.items() if missing == ASKED_BEFORE]
    said = f"GRANT {ASKED_BEFORE} to user '{credentials.login}' there"
    with pytest.raises(AirflowFailException, match=said) as stopped:
        load_as(own_lake, credentials, monkeypatch, period=None, periods=[PERIOD, "2026-11"])
    assert str(stopped.value).count(said) == 1
    assert tables_of(own_lake, "stage") == set()


def test_all_that_is_missing_is_named_at_once(own_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AirflowFailException) as stopped:
        load_as(own_lake, INSERTER, monkeypatch)
    # Servers ask for no right to an engine unless they are set to.
    missing = set(REPLACE) - set(INSERT) - ({"TABLE ENGINE ON MergeTree"} if IS_OLDEST else set())
    for finding in str(stopped.value).splitlines():
        assert finding.endswith("TO `insert-er` there.")
        assert all(privilege in finding for privilege in missing)
        assert not any(privilege in finding for privilege in INSERT)
    # Instead of a grant, a profile that forbids it is named.
    with pytest.raises(AirflowFailException, match=r"have readonly = 2, which no GRANT"):
        load_as(own_lake, READER_BY_PROFILE, monkeypatch)


@pytest.mark.thorough
def test_a_named_collection_and_a_deferrable_load_take_privileges_of_their_own(
    own_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"named_collection": S3_NAMED_COLLECTION, "key": f"{own_lake.bucket}/trips/{{YYYY-MM}}/", "bucket": None}
    with pytest.raises(AirflowFailException, match=f"NAMED COLLECTION ON {S3_NAMED_COLLECTION}"):
        load_as(own_lake, NARROW, monkeypatch, **options)
    assert load_as(own_lake, COLLECTOR, monkeypatch, **options)["status"] == "published"
    own_lake.upload(Trips(seed=2, rows_per_period=800, files_per_period=3))
    with pytest.raises(AirflowFailException, match=r"SELECT ON system\.query_log, READ ON REMOTE TO"):
        load_as(own_lake, NARROW, monkeypatch, deferrable=True)
    assert load_as(own_lake, DEFERRER, monkeypatch, deferrable=True)["status"] == "published"


@pytest.mark.thorough
def test_queries_of_another_user_that_may_not_be_killed_are_waited_for(
    own_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = Attempt(TableName("lake", "trips"), (Period.parse(PERIOD),), "dead")
    sleep = "SELECT sleepEachRow(1) FROM numbers(3) SETTINGS max_block_size = 1"
    with own_lake.cluster.nodes[1].client() as client, ThreadPoolExecutor() as pool:
        asleep = pool.submit(client.execute, sleep, query_id=f"{dead.name}_insert1")
        while not own_lake.on_node(1, f"SELECT 1 FROM system.processes WHERE startsWith(query_id, '{dead.name}')"):
            pass
        assert load_as(own_lake, NARROW, monkeypatch)["status"] == "published"
        assert asleep.done()


def test_plans_ledgers_merge_health_and_the_page_need_no_privilege_to_write_or_to_read_rows(
    own_lake: Lake, airflow_db: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_as(own_lake, NARROW, monkeypatch)
    where = {"database": "lake", "table": "trips", "cluster": own_lake.cluster.name}
    source = {"bucket": own_lake.bucket, "key": "trips/{YYYY-MM}/", "periods": [PERIOD]}
    plan = PlanLoadsOperator(task_id="plan", staging_database="stage", **where, **source)
    log_in(own_lake, PLANNER, monkeypatch)
    assert plan.execute({"dag_run": None}) == []

    log_in(own_lake, BLIND_PLANNER, monkeypatch)
    listing = ListLedgerOperator(task_id="list", staging_database="stage", **where)
    for asked in (lambda: plan.execute({"dag_run": None}), lambda: listing.execute({})):
        with pytest.raises(AirflowFailException, match=r"GRANT SELECT ON system\.parts to user 'blind_planner' there"):
            asked()

    log_in(own_lake, DOCTOR, monkeypatch)
    assert ClickHouseMergeHealthSensor(task_id="wait", periods=[PERIOD], **where).poke({})

    log_in(own_lake, WATCHER, monkeypatch)
    look = period_answers().look(PeriodsQuestion("chs3_default"))
    assert (look.error, {node["error"] for node in look.nodes}) == ("", {""})
    assert [period.state for period in look.tables[TableName("lake", "trips")].periods] == [PeriodState.PUBLISHED]


def test_a_proof_needs_no_privilege_to_write(own_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    own_lake.insert_objects()
    log_in(own_lake, AUDITOR, monkeypatch)
    where = {"database": "lake", "table": "trips", "cluster": own_lake.cluster.name, "bucket": own_lake.bucket}
    prove = ProvePeriodsOperator(task_id="prove", key="trips/{YYYY-MM}/", periods=[PERIOD], **where)
    assert prove.execute({})[0]["reason"] == "900 rows"
    assert tables_of(own_lake, "lake") == {"trips"}


@pytest.mark.thorough
def test_merging_a_period_takes_optimize(own_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    # Else the server itself may have merged the period before the task looks. With three, one of two nodes has two.
    own_lake.on_every_node(f"ALTER TABLE {own_lake.database}.trips MODIFY SETTING min_parts_to_merge_at_once = 1000")
    for _ in range(3):
        own_lake.insert_objects()
    log_in(own_lake, MERGER, monkeypatch)
    where = {"database": "lake", "table": "trips", "cluster": own_lake.cluster.name, "periods": [PERIOD]}
    result = OptimizePartitionOperator(task_id="optimize", deferrable=False, **where).execute({})
    assert {each["parts_after"] for each in result["periods"][PERIOD].values()} == {1}


def test_the_upkeep_of_the_ledger_takes_a_loader_who_may_count_the_rows(
    own_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_lake.insert_objects()
    log_in(own_lake, KEEPER, monkeypatch)
    cluster = {"cluster": own_lake.cluster.name}
    table = {"database": "lake", "table": "trips", "staging_database": "stage", "periods": [PERIOD], **cluster}
    source = {"bucket": own_lake.bucket, "key": "trips/{YYYY-MM}/"}
    assert AdoptPeriodsOperator(task_id="adopt", **table, **source).execute({})[0]["status"] == "adopted"
    assert ForgetPeriodsOperator(task_id="forget", **table).execute({})[0]["was_known"]
    assert CleanStagingOperator(task_id="clean", database="stage", **cluster).execute({}) == []
    log_in(own_lake, PLANNER, monkeypatch)
    assert ListLedgerOperator(task_id="list", **table).execute({})[0]["rows"] == TRIPS.rows_per_period
