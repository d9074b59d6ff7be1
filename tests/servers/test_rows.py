"""The oldest supported servers pass no query to a database."""

from __future__ import annotations

import json

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.trips import Trips
from tests.sources.row_lake import RowLake
from tests.sources.rows import PostgresRows
from tests.sources.servers.postgres import PostgresServer
from tests.sources.trips_target import PERIOD
from tests.support.narrow_user import WITH_NARROW_USER


def test_a_load_of_rows_says_so_before_it_has_staging_and_the_doctor_too(
    chs3_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = WITH_NARROW_USER | {"profiles": {}, "clusters": {}}
    with ClickHouseCluster.start(1, program="server", **options) as cluster:
        with cluster.nodes[0].client() as client:
            client.execute("CREATE DATABASE test_rows")
        lake = RowLake.create(PostgresRows.create(chs3_postgres), cluster, "test_rows", monkeypatch)
        lake.rows.put(Trips(rows_per_period=10).table(PERIOD))
        with pytest.raises(AirflowFailException, match="The servers are too old to read"):
            lake.load()
        # It is recorded that it failed.
        assert lake.on_every_node("SELECT name FROM system.tables WHERE database = 'test_rows' ORDER BY name") == [
            [("chs3_loads",), ("trips",)]
        ]
        capsys.readouterr()
        main(
            [
                "doctor",
                "--output=json",
                *lake.doctor_options,
                "--table",
                "trips",
                "--database",
                "test_rows",
                "--period",
                PERIOD,
            ]
        )
        (storage,) = (load for load in json.loads(capsys.readouterr().out)["checks"] if load["name"] == "storage")
        (finding,) = storage["findings"]
        assert "The servers are too old to read" in finding
        assert "Upgrade them" in finding
        assert "SELECT" not in finding
