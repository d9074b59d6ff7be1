"""The command line for objects of every storage: from the files to a table, a plan, a load and the ledger."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.testbed.trips import Trips
from tests.sources.objects import HdfsObjects
from tests.sources.store_lake import TEMPLATE, StoreLake
from tests.sources.trips_target import PERIOD

TRIPS = Trips(rows_per_period=600, files_per_period=3)


class Shell:
    """Runs commands about the lake, as a user with all rights: tables are created here."""

    def __init__(self, lake: StoreLake, capsys: pytest.CaptureFixture[str]) -> None:
        self.lake = lake
        self.capsys = capsys

    def __call__(self, command: str, *options: str) -> tuple[int, Any]:
        """The exit code, and what JSON says."""
        self.capsys.readouterr()
        where = ["--database", self.lake.database, "--cluster", self.lake.cluster.name]
        code = main([command, "--output=json", *where, *options])
        out, err = self.capsys.readouterr()
        return code, json.loads(out) if out else err


@pytest.fixture
def shell(store_lake: StoreLake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(store_lake.cluster.airflow_connection()))
    return Shell(store_lake, capsys)


@pytest.mark.thorough(but=1)
def test_from_the_files_to_a_table_a_load_and_the_ledger(store_lake: StoreLake, shell: Shell) -> None:
    store_lake.objects.upload(TRIPS, PERIOD)
    store_lake.on_every_node(f"DROP TABLE {store_lake.database}.trips SYNC")
    code, found = shell("ddl", "--table", "trips", *store_lake.options, "--period", PERIOD)
    assert code == 0, found
    store_lake.on_every_node(found["statements"][0])
    code, (planned,) = shell("plan", "--table", "trips", *store_lake.options, "--all-periods")
    assert (code, planned["period"], planned["is_to_load"], planned["objects"]) == (1, PERIOD, True, 3)
    store_lake.load()
    assert store_lake.facts() == TRIPS.facts(PERIOD)
    code, (planned,) = shell("plan", "--table", "trips", *store_lake.options, "--period", PERIOD)
    assert (code, planned["is_to_load"]) == (0, False)
    code, (listed,) = shell("ledger", "--table", "trips")
    assert (code, listed["rows"], listed["objects"]) == (0, 600, 3)
    _, objects = shell("ledger", "--table", "trips", "--objects")
    assert len({unit["path"] for unit in objects}) == 3
    # A period of another tool is adopted.
    store_lake.on_every_node(f"DROP TABLE {store_lake.database}.chs3_ledger SYNC")
    code, (adopted,) = shell("adopt", "--table", "trips", *store_lake.options, "--period", PERIOD)
    assert (code, adopted["status"]) == (0, "adopted")
    assert store_lake.load()["status"] == "unchanged"


@pytest.mark.thorough
@pytest.mark.parametrize("store_lake", ["azure", "hdfs"], indirect=True)
def test_a_rehearsal_plays_all_scenes_and_leaves_nothing(store_lake: StoreLake, shell: Shell) -> None:
    check_rehearsal(store_lake, shell, store_lake.options)


@pytest.mark.thorough
@pytest.mark.parametrize("store_lake", ["s3"], indirect=True)
def test_a_rehearsal_on_googles_storage_speaks_the_protocol_of_s3(
    store_lake: StoreLake, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    # fake-gcs-server takes no objects by this protocol.
    monkeypatch.setenv("AIRFLOW_CONN_GCS_HMAC_DEFAULT", json.dumps(store_lake.objects.server.airflow_connection()))
    check_rehearsal(store_lake, shell, ["--storage", "gcs", *store_lake.options[2:]])


def check_rehearsal(lake: StoreLake, shell: Shell, options: list[str]) -> None:
    lake.on_every_node(f"DROP TABLE {lake.database}.trips SYNC")
    *where, _, template = options
    code, found = shell("rehearse", *where, "--prefix", template.replace(TEMPLATE, "rehearsals/"))
    assert code == 0, found
    assert (len(found["scenes"]), {each["is_exact"] for each in found["scenes"]}) == (13, {True})
    assert lake.on_every_node(f"SELECT name FROM system.tables WHERE database = '{lake.database}'") == [
        [] for _ in lake.cluster.nodes
    ]
    is_of_hdfs = isinstance(lake.objects, HdfsObjects)
    place, beginning = ("", f"{lake.place}/") if is_of_hdfs else (lake.place, "")
    assert list(lake.store().listing().objects(place, beginning)) == []
