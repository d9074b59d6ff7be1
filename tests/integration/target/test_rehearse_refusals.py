"""A rehearsal that cannot run ends with exit code 2, and the reason once."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.testbed.pytest_plugin import S3_NAMED_COLLECTION
from tests.support.lake import Lake
from tests.support.rehearsing import Rehearse, left, rehearse

#: A fixture.
__all__ = ["rehearse"]


def refused(rehearse: Rehearse, *arguments: str) -> str:
    code, out, err = rehearse(*arguments)
    assert (code, "WRONG" in out, "promise" in out) == (2, False, False)
    assert err.startswith("rehearse: ")
    return err


def test_a_named_collection_that_is_not_there(lake: Lake, rehearse: Rehearse) -> None:
    err = refused(rehearse, "--named-collection", "nono")
    assert "a first load could not be rehearsed: ClickHouse error" in err
    assert (err.count("GRANT NAMED COLLECTION ON nono to user"), err.count("could not be rehearsed")) == (1, 1)
    assert left(lake) == ([], 0)


@pytest.mark.thorough
def test_a_named_collection_without_the_bucket(lake: Lake, rehearse: Rehearse) -> None:
    err = refused(rehearse, "--named-collection", S3_NAMED_COLLECTION)
    assert "the bucket is the last part of its url" in err
    assert left(lake) == ([], 0)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("prefix", ["/abs/x/", "abs//x", "{YYYY}/", "*"])
def test_a_prefix_that_keys_cannot_have(rehearse: Rehearse, prefix: str) -> None:
    err = refused(rehearse, "--prefix", prefix)
    assert f"--prefix {prefix!r}" in err
    assert "key=" not in err


@pytest.mark.thorough
def test_a_connection_that_breaks(lake: Lake, rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_provider_chs3.cli.rehearse import Rehearsal
    from airflow_provider_chs3.exceptions import ClickHouseConnectionError

    def break_off(self: Rehearsal) -> str:
        raise ClickHouseConnectionError("gone", "ch1:9000")

    monkeypatch.setattr(Rehearsal, "_load_without_a_file", break_off)
    assert "a file that is deleted could not be rehearsed: No answer from ClickHouse" in refused(rehearse)
    assert left(lake) == ([], 0)


def test_a_table_that_is_not_there(lake: Lake, rehearse: Rehearse) -> None:
    assert f"Table {lake.database}.nothere does not exist on " in refused(rehearse, "--like", "nothere")
    assert "Database 'nowhere' does not exist on " in refused(rehearse, "--like", "nowhere.trips")


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("like", [(), ("--like", "trips")])
def test_a_database_that_is_not_there(rehearse: Rehearse, like: tuple[str, ...]) -> None:
    err = refused(rehearse, "--database", "test_nodb", *like)
    assert "Database 'test_nodb' does not exist on " in err
    assert "check the name." in err


def test_a_table_that_is_no_mergetree(lake: Lake, rehearse: Rehearse) -> None:
    lake.on_every_node(f"CREATE TABLE {lake.database}.notes (ts Date) ENGINE = Log")
    assert f"{lake.database}.notes is a Log, not a MergeTree: " in refused(rehearse, "--like", "notes")
