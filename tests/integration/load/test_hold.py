"""Rows that fail a check are held until a person decides: nothing is published before, and nothing else afterwards."""

from __future__ import annotations

import json

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.operators.held import DiscardPeriodsOperator
from airflow_provider_chs3.operators.ledger import AdoptPeriodsOperator, CleanStagingOperator
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.operators.versions import ListVersionsOperator, RestorePeriodsOperator, UnpinPeriodsOperator
from tests.integration.grains import Source, source
from tests.support.checked_trips import NO_NULLS, Trips, trips
from tests.support.holds import (
    CSV,
    HOLDS,
    approve,
    decide,
    hold,
    load,
    of,
    of_period,
    plan,
    run,
    tables,
    versions,
)
from tests.support.lake import PERIOD, Lake
from tests.support.sets import Case, Tenants
from tests.support.waiting import wait_until

#: A fixture: a table and objects of each kind of periods.
__all__ = ["source", "trips"]


def test_held_rows_are_published_once_they_are_approved(trips: Trips) -> None:
    trips.put("a", range(40))
    trips.load(NO_NULLS)
    trips.put("b", range(40, 50), fare="\\N")
    hold(trips, says="the table is unchanged: checks failed: null_check of fare is 10, .*chs3 approve")
    assert trips.ids() == [*range(40)]
    sql = f"SELECT checks FROM {trips.lake.database}.chs3_loads WHERE event = 'withheld'"
    found = {"name": "null_check of fare", "wanted": "equal to 0", "found": "10", "has_passed": False}
    assert [json.loads(checks) for (checks,) in trips.lake.on_node(0, sql)] == [[found]]
    (held,) = tables(trips)
    hold(trips, says="held since 20.* UTC: checks failed: null_check of fare is 10")
    assert tables(trips) == [held]
    with pytest.raises(
        AirflowFailException, match=r"hold 50 rows, .* holds 40 \(.*\); held since 20.* chs3 approve publ"
    ):
        decide(trips, AdoptPeriodsOperator)
    approved = approve(trips)
    assert (approved["status"], approved["reason"]) == ("published", "it was held, and is approved")
    assert trips.ids() == [*range(50)]
    assert tables(trips) == []
    assert trips.load(NO_NULLS, policies=HOLDS)["status"] == "unchanged"
    assert approve(trips)["status"] == "unchanged"


@pytest.mark.thorough
def test_a_mutation_meanwhile_is_not_undone_by_an_approval(trips: Trips) -> None:
    """It voids what is held, and the period loads again."""
    trips.put("a", range(40))
    trips.load(NO_NULLS)
    trips.put("b", range(40, 50), fare="\\N")
    hold(trips)
    change = f"ALTER TABLE {trips.lake.database}.{trips.lake.table} DELETE WHERE id = 7 SETTINGS mutations_sync = 2"
    trips.lake.on_every_node(change)
    with pytest.raises(AirflowFailException, match=r"cannot be approved: the table's rows of it on .* changed"):
        decide(trips)
    assert trips.ids() == [*range(7), *range(8, 40)]
    trips.load({}, policies={"on_target_changed": "reload"})
    assert trips.ids() == [*range(50)]
    assert tables(trips) == []


@pytest.mark.thorough
def test_what_shrank_is_held_until_it_is_approved(trips: Trips) -> None:
    trips.put("a", range(40))
    trips.put("b", range(40, 140))
    trips.load({})
    trips.put("b", range(40, 42))
    shrank = r"its objects shrank from 3\.. KiB to 1\.. KiB since they were published"
    checks = {"table_checks": {"few": {"check_statement": "count() < 10"}}}
    with pytest.raises(AirflowSkipException, match=f"held, the table is unchanged: {shrank}; checks failed: few is"):
        trips.load(checks, policies={"on_shrink": "hold", "on_failed_check": "hold"})
    with pytest.raises(AirflowSkipException, match=f"held since .* UTC: {shrank}"):
        trips.load({})
    assert trips.ids() == [*range(140)]
    assert [each["status"] for each in decide(trips)] == ["published"]
    assert trips.ids() == [*range(42)]
    assert tables(trips) == []


INSERT = "INSERT INTO {} (at, id, fare) VALUES ('2026-10-05 12:00:00', 900, 1)"
DELETE = "ALTER TABLE {} DELETE WHERE id < 20 SETTINGS mutations_sync = 2"


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("is_loaded", "changes", "why"),
    [
        (True, [INSERT], "the partition was changed since it was published"),
        (True, [DELETE], r"the partition was changed since it was published: ALTER TABLE … DELETE WHERE …"),
        (True, [INSERT, "ALTER TABLE {} DROP PARTITION 202610"], "the partition was changed since it was published"),
        (False, [INSERT], "the partition holds rows that no load wrote"),
    ],
)
def test_rows_of_others_stay_until_somebody_approves_those_of_the_objects(
    trips: Trips, is_loaded: bool, changes: list[str], why: str
) -> None:
    """And one that comes after the hold voids it: the approval publishes only over what it was checked beside."""

    def change(*some: str) -> None:
        for each in some:
            trips.lake.on_every_node(each.format(f"{trips.lake.database}.{trips.lake.table}"))

    trips.put("a", range(40))
    if is_loaded:
        trips.load({})
    change(*changes)
    before = trips.ids()
    for told in ("held, the table is unchanged", "held since .* UTC"):
        with pytest.raises(AirflowSkipException, match=f"{told}: {why}"):
            trips.load({}, policies={"on_target_changed": "hold"})
        assert trips.ids() == before
    change(INSERT.replace("900", "901"))
    with pytest.raises(AirflowFailException, match=r"cannot be approved: the table's rows of it on .* changed"):
        decide(trips)
    assert trips.ids() == [*before, 901]
    why = why.partition(":")[0]
    with pytest.raises(AirflowSkipException, match=f"held, the table is unchanged: {why}"):
        trips.load({}, policies={"on_target_changed": "hold"})
    assert not any(each.is_to_load for each in plan(trips))
    assert [each["status"] for each in decide(trips)] == ["published"]
    assert trips.ids() == [*range(40)]
    assert trips.load({})["status"] == "unchanged"
    assert tables(trips) == []


@pytest.mark.thorough
def test_another_load_voids_what_is_held(trips: Trips) -> None:
    trips.put("a", range(40))
    trips.load(NO_NULLS)
    trips.put("b", range(40, 50), fare="\\N")
    hold(trips)
    trips.load(NO_NULLS, policies={"on_failed_check": "warn"}, context=run({"chs3_reload": of(trips)}))
    assert decide(trips)[0]["status"] == "unchanged"
    assert trips.ids() == [*range(50)]
    assert tables(trips) == []


@pytest.mark.thorough
def test_an_approval_is_undone_as_a_load_is(trips: Trips) -> None:
    """It keeps what it replaces; what is held beside a restored version may not be approved any more."""
    for rows in (range(40), range(100, 130)):
        trips.put("a", rows)
        load(trips, keep_versions=1)
    trips.put("a", range(200, 250), fare="\\N")
    hold(trips, keep_versions=1)
    decide(trips)
    assert trips.ids() == [*range(200, 250)]
    assert versions(trips) == [(30, "")]
    trips.put("a", range(300, 345), fare="\\N")
    hold(trips)
    decide(trips, RestorePeriodsOperator)
    assert trips.ids() == [*range(100, 130)]
    with pytest.raises(AirflowFailException, match="cannot be approved: pinned since"):
        decide(trips)
    decide(trips, UnpinPeriodsOperator)
    with pytest.raises(AirflowFailException, match="cannot be approved: it has no held rows"):
        decide(trips)
    assert trips.ids() == [*range(100, 130)]
    hold(trips, says="the table is unchanged: checks failed")
    decide(trips)
    assert trips.ids() == [*range(300, 345)]
    assert [table for table in tables(trips) if "version" not in table] == []


def clean(trips: Trips) -> list[str]:
    where = {"database": trips.lake.database, "cluster": trips.lake.cluster.name, "older_than_seconds": 0}
    return [each["name"] for each in CleanStagingOperator(task_id="clean", **where).execute({})]


@pytest.mark.thorough
def test_what_is_held_is_cleaned_up_only_after_its_limit(trips: Trips) -> None:
    trips.put("a", range(40), fare="\\N")
    hold(trips)
    (held,) = tables(trips)
    assert clean(trips) == []
    assert tables(trips) == [held]
    trips.put("a", range(50), fare="\\N")
    with pytest.raises(AirflowSkipException, match="held"):
        load(trips, hold_limit_days=1e-9)
    (expired,) = tables(trips)
    with pytest.raises(AirflowFailException, match="cannot be approved: it was held for too long"):
        decide(trips)
    # Its age is in whole seconds.
    wait_until(lambda: clean(trips) == [expired])
    assert tables(trips) == []
    with pytest.raises(AirflowSkipException, match="the table is unchanged: checks failed"):
        load(trips)
    decide(trips)
    assert trips.ids() == [*range(50)]


@pytest.mark.thorough
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


def test_what_is_held_says_which_rows_fail_and_may_be_discarded_and_loaded_again(trips: Trips) -> None:
    trips.put("a", range(40), fare="\\N")
    hold(trips)
    # A plan knows no checks, and takes policies about them.
    arguments = {**trips.lake.place, "key": "t/{YYYY-MM}/", "periods": [PERIOD], "files": CSV}
    assert PlanLoadsOperator(task_id="plan", **arguments, policies=HOLDS).execute({}) == []
    with pytest.raises(AirflowSkipException) as held:
        load(trips)
    assert "equal to 0. chs3 approve" in str(held.value)  # without the rows
    of_held = f"SELECT DISTINCT why FROM {trips.lake.database}.chs3_ledger WHERE event = 'held'"
    ((why,),) = trips.lake.on_node(0, of_held)
    assert why.splitlines() == [
        "checks failed: null_check of fare is 40, wanted equal to 0",
        "null_check of fare:",
        *(f'  {{"id":{number},"fare":null}}' for number in range(5)),
    ]
    assert decide(trips, DiscardPeriodsOperator) == [
        {"period": PERIOD, "was_held": True, "why": "checks failed: null_check of fare is 40, wanted equal to 0"}
    ]
    assert (tables(trips), trips.ids()) == ([], [])
    assert not decide(trips, DiscardPeriodsOperator)[0]["was_held"]
    with pytest.raises(AirflowFailException, match="cannot be approved: it has no held rows"):
        decide(trips)
    with pytest.raises(AirflowSkipException, match="the table is unchanged: checks failed"):
        load(trips, hold_limit_days=1e-9)
    # Nothing is held for longer than the limit of its load: the period loads again.
    trips.load({})
    assert trips.ids() == [*range(40)]
    assert tables(trips) == []


@pytest.mark.thorough
def test_people_decide_in_a_shell(trips: Trips, capsys: pytest.CaptureFixture[str]) -> None:
    of_table, place = of_period(trips), ["--bucket", trips.lake.bucket, "--key", "t/{YYYY-MM}/"]
    trips.put("a", range(40), fare="\\N")
    hold(trips)
    assert main(["discard", *of_table]) == 0
    assert f"{PERIOD}   discarded   checks failed: null_check of fare is 40" in capsys.readouterr().out
    assert main(["discard", *of_table]) == 0
    assert capsys.readouterr().out.rstrip().endswith("was not held")
    assert main(["approve", *of_table, *place]) == 2
    assert "cannot be approved: it has no held rows" in capsys.readouterr().err
    hold(trips)
    assert main(["approve", *of_table, *place]) == 0
    assert f"{PERIOD}   published     40   it was held, and is approved" in capsys.readouterr().out
    assert trips.ids() == [*range(40)]


@pytest.mark.thorough
@pytest.mark.three_nodes
@pytest.mark.parametrize("increment", [False, True])
def test_partitions_that_the_held_version_empties_are_emptied(lake: Lake, increment: bool) -> None:
    """One of three months of tenants on three nodes is held, which has lost a tenant and got another."""
    tenants = Tenants(lake, Case("(tenant, toYYYYMM(at))", "LowCardinality(String)"))
    months, others = ["2026-09", "2026-10", "2026-11"], ("eu", "us")
    for month in months:
        for number in range(6):
            tenants.put(month, str(number), *((others[row % 2], row) for row in range(8)))
    assert tenants.load(periods=months) == ["published"] * 3
    before = tenants.found()
    for number in range(6):
        if increment:
            tenants.put(PERIOD, f"more{number}", *(("africa", 100 + row) for row in range(3)))
        else:
            tenants.put(PERIOD, str(number), *((("eu", "africa")[row % 2], 100 + row) for row in range(8)))
    few = {"table_checks": {"few": {"check_statement": "max(number) < 100"}}}
    options = {"checks": few, "policies": HOLDS, "periods": months}
    assert tenants.load(**options) == ["unchanged", "held", "unchanged"]
    assert tenants.load(**options) == ["unchanged", "held", "unchanged"]
    assert tenants.found() == before
    conf = {"database": lake.database, "table": lake.table, "periods": [PERIOD], "approve": True}
    tenants.operator(**options).execute(run({"chs3_reload": conf}))
    tenants.assert_exact()
    assert tenants.load(**options) == ["unchanged"] * 3
    assert lake.left_behind() == []


@pytest.mark.thorough
def test_of_three_periods_the_one_that_is_held_stays(trips: Trips) -> None:
    periods = ["2026-08", "2026-09", "2026-10"]
    for period in periods:
        trips.put("a", range(10), fare="\\N" if period == PERIOD else "2", period=period)
    results = trips.load(NO_NULLS, policies=HOLDS, period=None, periods=periods)
    assert [result["status"] for result in results] == ["published", "published", "held"]
    assert json.loads(json.dumps(results)) == results
    assert [trips.ids(period) for period in periods] == [[*range(10)], [*range(10)], []]
    planned = {each.period: each for each in plan(trips)}
    assert not any(each.is_to_load for each in planned.values())
    assert "held since" in planned[Period.parse(PERIOD)].reason
    again = trips.load(NO_NULLS, policies=HOLDS, period=None, periods=periods)
    assert [each["status"] for each in again] == ["unchanged", "unchanged", "held"]
    decide(trips)
    assert trips.ids() == [*range(10)]


@pytest.mark.thorough
def test_periods_of_every_kind_are_held_approved_and_restored(source: Source) -> None:
    first, lake = source.case.first, source.lake
    periods = [each for each in (first, source.case.second) if each]
    of_table = {"database": lake.database, "table": lake.table, "periods": [first]}
    decided = {**of_table, "task_id": "decide", "cluster": lake.cluster.name}
    few = {"table_checks": {"few": {"check_statement": "max(number) < 5000"}}}
    options = {"checks": few, "keep_versions": 1, "reload_whole_table": True, "period": first}
    for number, period in enumerate(periods):
        source.put(period, "a", 1000 * number)
    assert source.load(**(options | {"period": None, "periods": periods})) == ["published"] * len(periods)
    before = source.found()
    source.put(first, "a", 5000)
    with pytest.raises(AirflowSkipException, match="held, the table is unchanged: checks failed: few is false"):
        source.load(**options, on_failed_check="hold")
    assert source.found() == before
    approved = source.operator(**options).execute(run({"chs3_reload": {**of_table, "approve": True}}))
    assert approved["status"] == "published"
    source.assert_exact(*periods)
    (version,) = ListVersionsOperator(**decided).execute({})
    assert (version["period"], version["rows"], version["why_broken"]) == (first, len(source.moments(first)), "")
    assert RestorePeriodsOperator(**decided).execute({})[0]["status"] == "restored"
    assert source.found() == before
    with pytest.raises(AirflowSkipException, match="pinned since"):
        source.load(**options)
    UnpinPeriodsOperator(**decided).execute({})
    assert source.load(**options, on_failed_check="warn") == ["published"]
    source.assert_exact(*periods)
    assert lake.left_behind() == []
