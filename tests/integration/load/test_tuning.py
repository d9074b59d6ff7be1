"""Node specs and settings against the real cluster: who says what a node has, and what becomes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.lake import Lake, lake_on
from tests.support.narrow_user import WITH_NARROW_USER, narrow_connection

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster

GIB = 1024**3
#: Loads' share of a node is above what the profile of a user allows a query.
PROFILE_BYTES = 512 * 1024**2
TRIPS = Trips(rows_per_period=6_000, files_per_period=6)
ONE_CORE = {"cores": 1, "memory": "3GiB"}


@pytest.fixture
def loaded_lake(trips_lake: Lake) -> Lake:
    """A table that is there and empty, and objects to load into it."""
    trips_lake.upload(TRIPS)
    return trips_lake


@pytest.fixture(scope="module")
def declaring_cluster() -> Iterator[Cluster]:
    """A node that declares its size itself, and whose server has a memory limit."""
    limit = {"max_server_memory_usage": 4 * GIB}
    with ClickHouseCluster.start(
        1, macros={"cores": 1, "memory": "3GiB"}, server_settings=limit, **WITH_NARROW_USER
    ) as cluster:
        yield cluster


@pytest.fixture
def declaring_lake(
    declaring_cluster: Cluster, chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lake]:
    """A lake on the node that declares its size."""
    with lake_on(declaring_cluster, chs3_s3, chs3_bucket, monkeypatch) as lake:
        lake.create_table()
        lake.upload(TRIPS)
        yield lake


@pytest.fixture(
    scope="module",
    params=[{"max_memory_usage": PROFILE_BYTES}, {}],
    ids=["a limit that cannot be raised", "a bound alone"],
)
def bounding_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A node whose users' profile bounds the memory and the threads of a query."""
    constraints = {"constraints": {"max_memory_usage": {"max": PROFILE_BYTES}, "max_threads": {"max": 3}}}
    with ClickHouseCluster.start(1, user_settings=request.param | constraints, **WITH_NARROW_USER) as cluster:
        yield cluster


@pytest.mark.thorough
def test_a_user_whose_profile_bounds_queries_can_load(
    bounding_cluster: Cluster, chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lake_on(bounding_cluster, chs3_s3, chs3_bucket, monkeypatch) as lake:
        lake.create_table()
        # So many small files would be read by 8 threads.
        lake.upload(Trips(rows_per_period=600, files_per_period=30))
        settings = lake.load(node_specs={"default": {"cores": 2, "memory": "4GiB"}})["settings"]
    assert (settings["max_memory_usage"], settings["max_threads"]) == (PROFILE_BYTES, 3)


def _connect(lake: Lake, monkeypatch: pytest.MonkeyPatch, **extra: Any) -> None:
    connection = narrow_connection(lake.cluster)
    connection["extra"] |= extra
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))


class TestSpecs:
    @pytest.mark.thorough
    @pytest.mark.three_nodes
    def test_measured_cores_are_the_machines_whatever_a_profile_allows(
        self, loaded_lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (machine,) = loaded_lake.on_node(0, "SELECT getSetting('max_threads')")
        _connect(loaded_lake, monkeypatch, settings={"max_threads": 1})
        loaded_lake.load()
        log = capsys.readouterr().out
        assert log.count(f" {machine[0]} cores, ") == 3

    @pytest.mark.thorough
    @pytest.mark.three_nodes
    def test_come_from_the_connection(
        self, loaded_lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        _connect(loaded_lake, monkeypatch, node_specs={"default": ONE_CORE})
        loaded_lake.load()
        log = capsys.readouterr().out
        assert log.count("1 core, 3.0 GiB (connection's node_specs)") == 3

    @pytest.mark.thorough
    @pytest.mark.three_nodes
    def test_of_the_operator_win_over_the_connections(
        self, loaded_lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        _connect(loaded_lake, monkeypatch, node_specs={"127.0.0.1": ONE_CORE})
        loaded_lake.load(node_specs={"default": {"cores": 1, "memory": "2GiB"}})
        log = capsys.readouterr().out
        assert log.count("1 core, 2.0 GiB (operator's node_specs)") == 3

    @pytest.mark.three_nodes
    def test_can_be_declared_for_one_node_of_several_on_a_host(
        self, loaded_lake: Lake, capsys: pytest.CaptureFixture[str]
    ) -> None:
        address = f"127.0.0.1:{loaded_lake.cluster.nodes[1].tcp_port}"
        loaded_lake.load(node_specs={address: ONE_CORE})
        log = capsys.readouterr().out
        assert f"{address}: 1 core, 3.0 GiB (operator's node_specs)" in log
        assert log.count("(measured)") == 2

    @pytest.mark.thorough
    def test_come_from_the_nodes_own_macros(self, declaring_lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
        declaring_lake.load()
        log = capsys.readouterr().out
        assert "1 core, 3.0 GiB (its macros)" in log

    @pytest.mark.thorough
    def test_of_the_connection_win_over_macros(
        self, declaring_lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        _connect(declaring_lake, monkeypatch, node_specs={"default": {"cores": 1, "memory": "2GiB"}})
        declaring_lake.load()
        log = capsys.readouterr().out
        assert "1 core, 2.0 GiB (connection's node_specs)" in log

    def test_above_the_machine_are_refused(self, loaded_lake: Lake) -> None:
        node = f"127.0.0.1:{loaded_lake.cluster.nodes[0].tcp_port}"
        wanted = f"Node {node}: operator's node_specs declare 4096 cores, but the machine has"
        with pytest.raises(AirflowFailException, match=wanted):
            loaded_lake.load(node_specs={"default": {"cores": 4096, "memory": "1GiB"}})

    @pytest.mark.thorough
    def test_above_the_servers_limit_are_capped_and_that_is_said(
        self, declaring_lake: Lake, capsys: pytest.CaptureFixture[str]
    ) -> None:
        result = declaring_lake.load(node_specs={"default": {"cores": 1, "memory": "6GiB"}}, memory_share=1.0)
        log = capsys.readouterr().out
        said = "1 core, 4.0 GiB (operator's node_specs; 6.0 GiB declared, capped at the server's limit"
        assert said in log
        assert result["settings"]["input_format_parquet_memory_high_watermark"] <= 4 * GIB // 8


class TestSettings:
    def test_reach_every_node_and_are_logged_once_with_their_reasons(
        self, loaded_lake: Lake, capsys: pytest.CaptureFixture[str]
    ) -> None:
        result = loaded_lake.load(node_specs={"default": ONE_CORE}, settings={"max_threads": 1}, parallel_loads=3)
        loaded_lake.on_every_node("SYSTEM FLUSH LOGS")
        names = ("max_insert_threads", "max_threads", "min_insert_block_size_bytes", "min_insert_block_size_rows")
        columns = ", ".join(f"Settings['{name}']" for name in names)
        seen = loaded_lake.on_every_node(
            f"SELECT {columns} FROM system.query_log WHERE initial_query_id = '{result['query_ids'][0]}' "
            "AND type = 'QueryFinish' AND query_kind = 'Insert'"
        )
        assert all(seen)
        assert {row for rows in seen for row in rows} == {tuple(str(result["settings"][name]) for name in names)}
        log = capsys.readouterr().out
        assert log.index("Nodes:") < log.index("This load may use") < log.index("Settings, ")
        lines = [" ".join(line.split()) for line in log.splitlines()]
        assert lines.count("max_threads 1 yours") == 1  # told apart from the load's own
        assert sum(line.startswith("max_insert_threads ") for line in lines) == 1
        # Each of periods side by side takes its part of the memory.
        assert any("This load may use 1 of 1 cores and 512.0 MiB of memory on each node." in line for line in lines)


class TestPeriodsSideBySide:
    @pytest.mark.thorough
    def test_what_runs_already_makes_a_slice_smaller(
        self, loaded_lake: Lake, capsys: pytest.CaptureFixture[str], running_insert: None
    ) -> None:
        loaded_lake.load(parallel_loads=1)
        log = capsys.readouterr().out
        assert "this load takes 1/2, as other inserts are running (1)" in log
