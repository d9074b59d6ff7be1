"""Versions of periods: kept right before a publication, restored, pinned."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.steps.operations import Step
from airflow_provider_chs3.operators.ledger import ListLedgerOperator
from airflow_provider_chs3.operators.versions import UnpinPeriodsOperator
from tests.integration.plans import plan
from tests.support.days import Days
from tests.support.killing import perform, performing
from tests.support.lake import PERIOD, Lake
from tests.support.waiting import wait_until


@contextmanager
def before_it_is_kept(days: Days, sql: str) -> Iterator[None]:
    """Have somebody run a statement between a load's last look and the link to what it keeps, once."""
    left = [sql]

    def noted(runner: Runner, step: Step) -> Any:
        if step.name.startswith("Keep what") and left:
            days.lake.on_every_node(left.pop())
        return perform(runner, step)

    with performing(noted):
        yield
    assert not left


@pytest.fixture
def days(lake: Lake) -> Days:
    return Days(lake)


def test_a_night_is_undone_and_stays_so_until_it_is_unpinned(days: Days) -> None:
    days.create()
    first = days.night(range(40))
    assert days.versions() == []
    days.night(range(20, 80))
    (version,) = days.versions()
    assert (version["attempt"], version["rows"], version["why_broken"]) == (first["attempt"], 40, "")
    assert version["size_bytes"] > 0
    assert re.search("free on each node; earlier versions and held rows take up to [0-9.]+ ", days.room())
    (restored,) = days.restore()
    assert (restored["status"], restored["version"], restored["rows"]) == ("restored", first["attempt"], 40)
    assert days.values() == [*range(40)]
    assert days.restore()[0]["status"] == "unchanged"
    pinned = f"pinned since .* by task, who restored version {first['attempt']}; chs3 unpin ends that"
    with pytest.raises(AirflowSkipException, match=pinned):
        days.load()
    (listed,) = days.of(ListLedgerOperator)
    assert re.fullmatch(pinned, listed["state"])
    assert plan(days.lake, key="d/{YYYY-MM}/", periods=[PERIOD]) == []
    assert listed["is_as_published"]
    assert days.values() == [*range(40)]
    days.lake.on_node(0, f"INSERT INTO {days.name} VALUES ('{PERIOD}-05', 1, 999)")
    (listed,) = days.of(ListLedgerOperator)
    assert (listed["is_as_published"], "the partition was changed" in listed["state"]) == (False, True)
    days.restore(replace_changed=True, version=first["attempt"])
    assert days.values() == [*range(40)]
    assert days.unpin()[0]["status"] == "unpinned"
    assert days.unpin()[0]["status"] == "unchanged"
    found = days.load()
    assert (found["status"], found["reason"]) == ("published", "an earlier version of it was restored")
    assert days.values() == [*range(20, 80)]


@pytest.mark.thorough
def test_without_versions_no_advice_leads_to_one(days: Days) -> None:
    days.create()
    days.lake.on_node(0, f"INSERT INTO {days.name} VALUES ('{PERIOD}-05', 1, 999)")
    with pytest.raises(AirflowFailException, match="has no versions of 2026-10: loads keep them") as told:
        days.restore()
    assert str(told.value).endswith("with policies={'keep_versions': 1}.")
    days.night(range(40), keep=1, replace_unknown=True)
    days.night(range(20, 80), keep=1)
    days.restore(version=days.versions()[0]["attempt"])
    assert days.values() == [*range(40)]


def test_the_newest_versions_are_kept_and_any_of_them_is_restored(days: Days) -> None:
    days.create()
    nights = [days.night(range(first, first + 40), keep=2)["attempt"] for first in range(4)]
    assert [version["attempt"] for version in days.versions()] == [nights[2], nights[1]]
    with pytest.raises(AirflowFailException, match=f"has no version {nights[0]} of {PERIOD}"):
        days.restore(version=nights[0])
    days.restore(version=nights[1])
    assert days.values() == [*range(1, 41)]
    # The replaced rows are a version, too.
    days.restore(version=nights[3])
    assert days.values() == [*range(3, 43)]


@pytest.mark.thorough
def test_people_undo_in_a_shell(days: Days, capsys: pytest.CaptureFixture[str]) -> None:
    days.create()
    first, second = (days.night(values)["attempt"] for values in (range(40), range(50)))
    lake = days.lake
    of_table = ["--database", lake.database, "--table", lake.table, "--cluster", lake.cluster.name]
    of_period = ["--period", PERIOD, *of_table]

    def said(*arguments: str, ends: int = 0) -> str:
        assert main([*arguments]) == ends
        shown = capsys.readouterr()
        return " ".join((shown.err if ends else shown.out).split())

    assert re.search(
        f"{PERIOD} {first} 20[-0-9]+ [:0-9]+ 40 .* on disk would be free without", said("versions", *of_table)
    )
    assert f"{PERIOD} restored {first} 40 it holds what attempt {first} had" in said("restore", *of_period)
    assert days.values() == [*range(40)]
    lake.on_node(0, f"INSERT INTO {days.name} VALUES ('{PERIOD}-05', 1, 999)")
    changed = ("restore", "--version", second, *of_period)
    assert "restore with --replace-changed" in said(*changed, ends=2)
    assert days.values() == [*range(40), 999]
    assert f"{PERIOD} restored {second} 50" in said(*changed, "--replace-changed")
    assert days.values() == [*range(50)]
    assert f"{PERIOD} unpinned {second} 50 loads may replace it again" in said("unpin", *of_period)


@pytest.mark.thorough
def test_rows_of_others_are_a_version_of_their_own(days: Days) -> None:
    days.create()
    first = days.night(range(40), keep=3)["attempt"]
    days.lake.on_node(0, f"INSERT INTO {days.name} VALUES ('{PERIOD}-05', 1, 999)")
    second = days.night(range(50), keep=3, on_target_changed="reload")["attempt"]
    days.night(range(60), keep=3)
    versions = [(version["attempt"], version["rows"]) for version in days.versions()]
    assert versions == [(second, 50), (f"before_{second}", 41)]
    with pytest.raises(AirflowFailException, match=f"has no version {first} of {PERIOD}"):
        days.restore(version=first)
    (restored,) = days.restore(version=f"before_{second}")
    assert restored["reason"] == f"it holds the rows that attempt {second} had replaced, and is pinned"
    assert days.values() == [*range(40), 999]
    days.restore(version=second)
    assert days.values() == [*range(50)]


@pytest.mark.thorough
def test_rows_that_were_erased_before_a_version_was_kept_do_not_return(days: Days) -> None:
    days.create()
    days.night(range(40))
    erase = f"ALTER TABLE {days.name} DELETE WHERE value % 2 SETTINGS mutations_sync = 2"
    days.lake.on_every_node(erase)
    days.night(range(100, 120), on_target_changed="reload")
    days.restore()
    assert days.values() == [*range(0, 40, 2)]
    days.lake.on_every_node(erase.replace("% 2", "= 4"))
    with pytest.raises(AirflowFailException, match=r"Restoring a version would undo that .* --replace-changed"):
        days.restore()
    days.restore(replace_changed=True, version=days.versions()[0]["attempt"])
    assert days.values() == [*range(100, 120)]


@pytest.mark.thorough
@pytest.mark.parametrize("of", ["MergeTree", "SummingMergeTree(tenant)"])
def test_rows_that_a_lightweight_delete_hides_are_not_counted(days: Days, of: str) -> None:
    days.create(of)
    days.night(range(40))
    days.lake.on_every_node(f"DELETE FROM {days.name} WHERE value < 15")
    days.night(range(100, 120), on_target_changed="reload")
    assert [version["rows"] for version in days.versions()] == [25]
    for _ in range(2):
        assert days.restore()[0]["rows"] == 25
    assert days.values() == [*range(15, 40)]


@pytest.mark.thorough
def test_added_columns_are_followed_and_other_changes_refused(days: Days) -> None:
    days.create()
    for night in (40, 50, 60):
        days.night(range(night), keep=2)
    kept = days.versions()
    assert [each["rows"] for each in kept] == [50, 40]
    table = f"ALTER TABLE {days.name}"
    days.lake.on_every_node(f"{table} ADD COLUMN twice UInt64 DEFAULT value * 2")
    # Times are in whole seconds.
    wait_until(lambda: days.lake.on_node(0, f"SELECT toString(now('UTC')) > '{kept[0]['kept_at']}'") == [(1,)])
    days.restore(version=kept[1]["attempt"])
    assert days.values() == [*range(40)]
    assert days.lake.on_node(0, f"SELECT sum(twice) FROM {days.name}") == [(2 * 780,)]
    # It is listed, and goes, in the order in which it was kept.
    assert [(version["attempt"], version["kept_at"]) for version in days.versions()[1:]] == [
        (each["attempt"], each["kept_at"]) for each in kept
    ]
    days.lake.on_every_node(f"{table} MODIFY COLUMN tenant UInt16 SETTINGS mutations_sync = 2")
    with pytest.raises(AirflowFailException, match="its column tenant was UInt8, and is UInt16"):
        days.restore(version=days.versions()[0]["attempt"], replace_changed=True)
    assert days.values() == [*range(40)]


@pytest.mark.thorough
def test_a_broken_version_is_refused(days: Days) -> None:
    """25.8 would take a partition that a table lacks for an empty one, and wipe the target's."""
    days.create(key="(toYYYYMM(day), tenant)")
    for values in (range(40), range(50)):
        days.put(range(1000, 1010), tenant=2, name="b")
        days.night(values)
    (version,) = days.versions()
    drop = f"ALTER TABLE {days.lake.database}.{version['table']} DROP PARTITION ID '202610-{{}}'"
    days.lake.on_node(0, drop.format(2))
    with pytest.raises(
        AirflowFailException, match=r"cannot be restored into .*: on .* it holds 40 rows of the 50 that"
    ):
        days.restore()
    assert days.values() == [*range(50), *range(1000, 1010)]
    days.lake.on_node(0, drop.format(1))
    with pytest.raises(AirflowFailException, match="has no versions of 2026-10: loads keep them"):
        days.restore()
    assert days.values() == [*range(50), *range(1000, 1010)]


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_a_batch_of_periods_shares_a_table_and_each_is_restored_alone(days: Days) -> None:
    days.create(key="(toYYYYMM(day), tenant)")
    periods = ["2026-08", "2026-09", "2026-10"]
    for night in range(2):
        for number, period in enumerate(periods):
            days.put(range(night * 100, night * 100 + 30 + number), period=period, name="a")
            if night:
                days.put(range(1000, 1010), period=period, tenant=2, name="b")
        days.load(period=None, periods=periods)
    versions = days.versions(periods=periods)
    assert len({version["table"] for version in versions}) == 1
    assert [(version["period"], version["rows"]) for version in versions] == [*zip(periods, (30, 31, 32), strict=True)]
    days.restore(periods=periods[1:])
    assert days.values(periods[0]) == [*range(100, 130), *range(1000, 1010)]
    assert [days.values(period) for period in periods[1:]] == [[*range(31)], [*range(32)]]
    # One period alone is loaded and kept: of the table of all three, only its partitions go.
    days.put(range(27), period=periods[0])
    days.load(period=periods[0])
    assert [version["rows"] for version in days.versions(periods=periods[:1])] == [40]
    assert {version["rows"] for version in days.versions(periods=periods[1:])} >= {31, 32}
    # A row more on a node, and the version is none.
    newest = days.versions(periods=periods[2:])[0]
    stray = f"INSERT INTO {days.lake.database}.{newest['table']} VALUES ('2026-10-05', 1, 9)"
    days.lake.on_every_node(stray)
    with pytest.raises(AirflowFailException, match=r"cannot be restored into .* rows of the \d+ that were kept"):
        days.restore(periods=periods[2:], version=newest["attempt"])
    assert days.values(periods[2]) == [*range(32)]


@pytest.mark.thorough
def test_a_merge_or_a_change_just_as_a_version_is_kept_is_seen(days: Days) -> None:
    days.create()
    days.lake.on_every_node(f"SYSTEM STOP MERGES {days.name}")
    days.put(range(40))
    days.load()
    days.put(range(40, 60), name="b")
    assert days.load()["loaded_objects"] == 1
    days.put(range(100, 140))
    days.lake.on_every_node(f"SYSTEM START MERGES {days.name}")
    with before_it_is_kept(days, f"OPTIMIZE TABLE {days.name} FINAL"):
        assert days.load()["status"] == "published"
    days.restore()
    assert days.values() == [*range(60)]
    days.unpin()
    days.put(range(200, 240))
    erase = f"ALTER TABLE {days.name} DELETE WHERE value = 7 SETTINGS mutations_sync = 2"
    with (
        before_it_is_kept(days, erase),
        pytest.raises(AirflowFailException, match="wrote to partition 202610 while a version of it was kept"),
    ):
        days.load()
    assert days.values() == [*range(7), *range(8, 60)]


@pytest.mark.thorough
def test_versions_outlive_the_ledger(days: Days) -> None:
    days.create()
    first = days.night(range(40))["attempt"]
    days.night(range(50))
    for name in ("chs3_ledger", "chs3_loads", "chs3_objects"):
        days.lake.on_every_node(f"DROP TABLE {days.lake.database}.{name} SYNC")
    assert [version["attempt"] for version in days.versions()] == [first]
    days.restore(replace_changed=True)
    assert days.values() == [*range(40)]
    with pytest.raises(AirflowSkipException, match="pinned since"):
        days.load()


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["ReplacingMergeTree", "SummingMergeTree(tenant)"])
@pytest.mark.parametrize("period", [PERIOD, "all"])
def test_versions_of_other_engines_and_of_whole_tables(days: Days, engine: str, period: str) -> None:
    days.create(engine=engine, key="" if period == "all" else "toYYYYMM(day)")
    options = {"period": period, "key": f"d/{PERIOD if period == 'all' else '{YYYY-MM}'}/", "reload_whole_table": True}
    for values in (range(40), range(20, 80)):
        days.put(values)
        days.load(**options)
    days.restore(periods=[period])
    assert days.values() == [*range(40)]
    days.of(UnpinPeriodsOperator, periods=[period])
    assert days.load(**options)["reason"] == "an earlier version of it was restored"
    assert days.values() == [*range(20, 80)]
