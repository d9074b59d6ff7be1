"""`python -m airflow_provider_chs3 doctor` on real servers: what is well, what is found, and what is gone on with."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.client import runner as blocking
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.nodes import User
from airflow_provider_chs3.testbed.pytest_plugin import S3_NAMED_COLLECTION
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.lake import PERIOD, Lake, lake_on
from tests.support.narrow_user import TRAIT, WITH_NARROW_USER, documented, in_tests, narrow_connection

pytestmark = pytest.mark.three_nodes

TRIPS = Trips(rows_per_period=600, files_per_period=3)

#: Exit code, checks by name, the whole.
Found = tuple[int, dict[str, dict[str, Any]], dict[str, Any]]
Doctor = Callable[..., Found]

LOADER = User("only-loads", "pass'word")
#: All that the documentation grants a loader but what REPLACE PARTITION takes.
NO_DELETE = User("no-delete", "pass'word")
OTHER_USERS = {
    LOADER: [*map(in_tests, documented("Loading")), TRAIT],
    NO_DELETE: [*(in_tests(each) for each in documented("Loading") if "ALTER DELETE" not in each), TRAIT],
}


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str]) -> Doctor:
    def run(*arguments: str) -> Found:
        capsys.readouterr()
        code = main(["doctor", "--output=json", *arguments])
        out, err = capsys.readouterr()
        assert err == ""
        told = json.loads(out)
        (found,) = told if isinstance(told, list) else [told]  # of a file of loads, one for each
        return code, {check["name"]: check for check in found["checks"]}, found

    return run


def where(lake: Lake) -> list[str]:
    table = ["--database", lake.database, "--table", lake.table]
    return [*table, "--bucket", lake.bucket, "--key", "trips/{YYYY-MM}/", "--period", PERIOD]


def findings(checks: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    """Those of each check; how full this machine's disk is, is not the tests' business."""
    return {name: check["findings"] for name, check in checks.items() if check["findings"] and name != "disks"}


def chs3(cluster: Any, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    connection = narrow_connection(cluster)
    extra = connection["extra"] | changes.pop("extra", {})
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection | changes | {"extra": extra}))


class TestAllIsWell:
    def test_of_a_period_everything_is_looked_at_and_nothing_written(
        self, trips_lake: Lake, doctor: Doctor, capsys: pytest.CaptureFixture[str]
    ) -> None:
        # Of a period only what lacks is named.
        checks = doctor("--table", f"{trips_lake.database}.{trips_lake.table}")[1]
        assert checks["table"]["outcome"] == "well"
        assert checks["period"]["skipped"] == "pass --bucket (or --named-collection), --key, --period"
        _, checks, _ = doctor(*where(trips_lake))
        assert f"no object of {PERIOD} fits 'trips/{{YYYY-MM}}/'" in checks["storage"]["findings"][0]
        trips_lake.upload(TRIPS)
        code, checks, found = doctor(*where(trips_lake))
        assert findings(checks) == {}
        assert code == (0 if found["is_well"] else 1)
        assert {name for name, check in checks.items() if check["skipped"]} == set()
        assert checks[f"period {PERIOD}"]["summary"].startswith("3 objects, ")
        assert found["settings"][0]["name"] == "max_insert_threads"
        assert all(each["reason"] for each in found["settings"])
        nodes = found["nodes"]
        assert len(nodes) == len(trips_lake.cluster.nodes)
        assert all(None not in node.values() for node in nodes)
        assert trips_lake.on_every_node(f"SHOW TABLES FROM {trips_lake.database}") == [[("trips",)]] * len(nodes)
        # For people it is a line a check.
        trips_lake.load()
        main(["doctor", *where(trips_lake)])
        out = capsys.readouterr().out
        assert f"ok       merges          {trips_lake.database}.trips, 1 period, on all nodes: 3 healthy\n" in out
        assert "\n  max_insert_threads " in out
        assert "answers in" in out

    @pytest.mark.thorough
    def test_without_a_table_the_rest_is_looked_at(self, lake: Lake, doctor: Doctor) -> None:
        _, checks, found = doctor()
        assert findings(checks) == {}
        assert {name for name, check in checks.items() if check["outcome"] == "skipped"} == {
            "storage",
            "table",
            "period",
        }
        assert checks["storage"]["skipped"] == "pass --bucket (or --named-collection) and --key"
        assert found["settings"]

    @pytest.mark.thorough
    def test_through_a_named_collection_the_servers_list(self, trips_lake: Lake, doctor: Doctor) -> None:
        trips_lake.upload(TRIPS)
        key = f"{trips_lake.bucket}/trips/{{YYYY-MM}}/"
        table = ["--database", trips_lake.database, "--table", trips_lake.table, "--period", PERIOD]
        _, checks, _ = doctor(*table, "--named-collection", S3_NAMED_COLLECTION, "--key", key)
        assert findings(checks) == {}
        assert "the servers list, not this machine, 3 of 3 nodes list and read" in checks["storage"]["summary"]
        assert checks[f"period {PERIOD}"]["summary"].startswith("3 objects, ")


class TestServers:
    @pytest.mark.thorough
    def test_a_wrong_spec_and_a_name_that_is_no_node_are_found(
        self, trips_lake: Lake, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        spec = {"cores": 4096, "memory": "1GiB"}
        chs3(trips_lake.cluster, monkeypatch, extra={"node_specs": {"default": spec, "elsewhere": spec}})
        code, checks, _ = doctor(*where(trips_lake))
        found = checks["node specs"]["findings"]
        assert (code, len(found)) == (1, len(trips_lake.cluster.nodes) + 1)
        assert "declare 4096 cores, but the machine has" in found[0]
        assert "'elsewhere', which is not a node of the cluster" in found[-1]
        assert checks["settings"]["skipped"] == "fix the node specs above first"

    def test_a_wrong_password_is_found_and_not_shown(
        self, trips_lake: Lake, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        trips_lake.upload(TRIPS)
        chs3(trips_lake.cluster, monkeypatch, password="hunter2-hunter2")
        code, checks, found = doctor(*where(trips_lake))
        assert code == 1
        assert "or the password is wrong (516)" in findings(checks)["connection"][0]
        assert checks["merges"]["skipped"] == "fix the findings above first"
        assert "this machine lists in" in checks["storage"]["summary"]
        assert "hunter2" not in json.dumps(found)

    @pytest.mark.thorough
    def test_a_cluster_that_is_not_known_is_found(self, lake: Lake, doctor: Doctor) -> None:
        code, checks, _ = doctor("--cluster", "elsewhere")
        assert code == 1
        assert "Cluster 'elsewhere' is not known to the server" in findings(checks)["connection"][0]

    @pytest.mark.thorough
    def test_a_worker_whose_clock_is_an_hour_ahead_is_found(
        self, lake: Lake, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        right = blocking.time.time
        monkeypatch.setattr(blocking.time, "time", lambda: right() + 3600)
        _, checks, _ = doctor()
        (finding,) = checks["clocks"]["findings"]
        assert finding.startswith("the clock of this machine is at least 3,")

    @pytest.mark.thorough
    def test_a_table_that_is_not_fit_is_found(self, lake: Lake, doctor: Doctor) -> None:
        lake.upload(TRIPS)
        lake.on_every_node(f"CREATE TABLE {lake.database}.trips (a Date) ENGINE = MergeTree ORDER BY a")
        _, checks, _ = doctor(*where(lake))
        assert "is not partitioned by month" in findings(checks)[f"period {PERIOD}"][0]


#: Two objects, the second of which has values that no load accepts; and what is wrong with one of them.
UNFIT = {
    "a number that is none": (
        "csv",
        ("n,day\n1,2026-10-05", "n,day\n2,2026-10-05\nx,2026-10-06\ny,2026-10-07"),
        "Column 'n' is UInt8, but row 2 of ",
    ),
    "a number that is too large": (
        "jsonl",
        ('{"n": 1, "day": "2026-10-05"}', '{"n": 2, "day": "2026-10-05"}\n{"n": 300, "day": "2026-10-05"}'),
        "Column 'n' is UInt8, but row 2 of ",
    ),
    "a line that lacks a field": (
        "csv",
        ("n,day\n1,2026-10-05", "n,day\n2,2026-10-05\n3"),
        "row 2 of ",
    ),
}


class TestValues:
    @pytest.fixture
    def numbers(self, lake: Lake) -> Lake:
        lake.table = "numbers"
        columns = "(n UInt8, day Date) ENGINE = MergeTree PARTITION BY toYYYYMM(day) ORDER BY n"
        lake.on_every_node(f"CREATE TABLE {lake.database}.numbers {columns}")
        return lake

    @pytest.mark.thorough(but=1)
    @pytest.mark.parametrize("what", UNFIT)
    def test_what_fails_a_load_is_found_before(self, numbers: Lake, doctor: Doctor, what: str) -> None:
        ending, bodies, problem = UNFIT[what]
        for number, body in enumerate(bodies):
            numbers.put(f"trips/{PERIOD}/{number}.{ending}", f"{body}\n".encode())
        code, checks, _ = doctor(*where(numbers))
        (finding,) = findings(checks)[f"period {PERIOD}"]
        bad = f"{numbers.bucket}/trips/{PERIOD}/1.{ending}"
        assert code == 1
        assert f"{problem}{bad}" in finding
        assert finding.endswith(" name the load with --dag or --loads.")
        with pytest.raises(AirflowFailException, match=f"row 2 of {bad}"):
            numbers.load()

    @pytest.mark.thorough
    def test_what_select_makes_of_files_is_looked_at_once_it_is_known(
        self, numbers: Lake, doctor: Doctor, tmp_path: Path
    ) -> None:
        """It is given, or that of the table's newest load: which the next period is likely to have, too."""
        for month in (PERIOD, "2026-11"):
            numbers.put(f"trips/{month}/0.csv", f"number;day\n1;{month}-05\n".encode())
        told = {"select": {"n": "number", "day": "day"}, "csv": {"delimiter": ";"}}
        code, checks, _ = doctor(*where(numbers))
        (finding,) = findings(checks)[f"period {PERIOD}"]
        assert code == 1
        assert finding.endswith(
            " This is for a load without arguments. If its DAG sets any, such as select or csv, name the "
            "load with --dag or --loads."
        )
        place = {"bucket": numbers.bucket, "key": "trips/{YYYY-MM}/"}
        load = {"table": numbers.table, "database": numbers.database, **place, **told}
        file = tmp_path / "loads.yaml"
        file.write_text(json.dumps({"loads": [load]}), encoding="utf-8")
        _, checks, _ = doctor("--loads", str(file), "--period", PERIOD)
        assert findings(checks) == {}
        assert checks[f"period {PERIOD}"]["summary"].endswith(": never loaded")
        numbers.load(**told)
        for period, found in ((PERIOD, "as published: a load has nothing to do"), ("2026-11", ": never loaded")):
            _, checks, _ = doctor(*where(numbers)[:-1], period)
            assert findings(checks) == {}
            assert checks[f"period {period}"]["summary"].endswith(found)

    @pytest.mark.thorough
    def test_what_was_looked_at_is_said(self, numbers: Lake, doctor: Doctor) -> None:
        for number in range(7):
            numbers.put(f"trips/{PERIOD}/{number}.csv", b"n,day\n1,2026-10-05\n")
        _, checks, found = doctor(*where(numbers))
        assert findings(checks) == {}
        assert all(node["read_seconds"] is not None for node in found["nodes"])
        assert checks[f"period {PERIOD}"]["remarks"] == [
            "the values in the first 10,000 rows of 4 of 7 objects fit their columns; a load checks every value"
        ]
        assert numbers.load()["rows"] == 7


class TestS3:
    def test_wrong_keys_are_found_from_everywhere_and_not_shown(
        self, trips_lake: Lake, chs3_s3: Any, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        wrong = chs3_s3.airflow_connection() | {"password": "wrong-secret-key"}
        monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps(wrong))
        code, checks, found = doctor(*where(trips_lake))
        from_worker, from_nodes = checks["storage"]["findings"]
        assert code == 1
        assert "from this machine: Cannot list" in from_worker
        assert "the secret key is wrong" in from_worker
        assert from_nodes.count("127.0.0.1:") == len(trips_lake.cluster.nodes)
        assert "The storage refused the servers' keys" in from_nodes
        assert checks["merges"]["outcome"] == "well"
        assert "wrong-secret-key" not in json.dumps(found)

    @pytest.mark.thorough
    def test_an_endpoint_where_nobody_listens_is_found(
        self, trips_lake: Lake, chs3_s3: Any, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        connection = chs3_s3.airflow_connection()
        connection["extra"] |= {"endpoint_url": "http://127.0.0.1:9"}
        monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps(connection))
        _, checks, found = doctor(*where(trips_lake))
        from_worker, from_nodes = checks["storage"]["findings"]
        assert "Could not connect to the endpoint" in from_worker
        assert "Check that http://127.0.0.1:9 is right" in from_nodes
        assert found["settings"]

    @pytest.mark.thorough
    def test_a_connection_without_keys_is_found(
        self, trips_lake: Lake, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
        monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps({"conn_type": "aws"}))
        _, checks, _ = doctor(*where(trips_lake))
        assert "AWS connection 'aws_default' has no keys" in checks["storage"]["findings"][0]
        assert checks["table"]["outcome"] == "well"


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClickHouseCluster]:
    users = {**WITH_NARROW_USER["users"], **OTHER_USERS}
    with ClickHouseCluster.start(2, **(WITH_NARROW_USER | {"users": users})) as cluster:
        yield cluster


@pytest.fixture
def own_lake(
    cluster: ClickHouseCluster, chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lake]:
    with lake_on(cluster, chs3_s3, chs3_bucket, monkeypatch) as lake:
        lake.create_table()
        lake.upload(TRIPS)
        yield lake


class TestRightsAndNodes:
    @pytest.mark.thorough
    def test_what_a_loader_is_granted_is_enough_for_all_checks_but_that_of_merges(
        self, own_lake: Lake, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        own_lake.load()
        chs3(own_lake.cluster, monkeypatch, login=LOADER.login, password=LOADER.password)
        _, checks, _ = doctor(*where(own_lake))
        assert findings(checks) == {}
        assert "SELECT ON system.merges" in "".join(checks["privileges"]["remarks"])
        assert checks["merges"]["outcome"] == checks["replication"]["outcome"] == "skipped"
        code, checks, _ = doctor(*where(own_lake), "--for", "merges")
        assert code == 1
        assert "SELECT ON system.merges" in findings(checks)["privileges"][0]

    def test_a_missing_privilege_is_found_with_its_grant(
        self, own_lake: Lake, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        chs3(own_lake.cluster, monkeypatch, login=NO_DELETE.login, password=NO_DELETE.password)
        code, checks, _ = doctor(*where(own_lake))
        first, second = own_lake.cluster.nodes
        assert code == 1
        assert checks["privileges"]["findings"] == [
            f"{first.host}:{first.tcp_port}, {second.host}:{second.tcp_port}: user 'no-delete' lacks privileges for "
            "load, increments, deferrable, adopt: run GRANT "
            f"ALTER DELETE ON `{own_lake.database}`.`trips` TO `no-delete` there."
        ]

    @pytest.mark.thorough
    @pytest.mark.parametrize("setting", ["readonly = 1", "readonly = 2", "allow_ddl = 0"])
    def test_what_no_grant_overrides_is_found_as_a_load_says_it(
        self, own_lake: Lake, doctor: Doctor, monkeypatch: pytest.MonkeyPatch, setting: str
    ) -> None:
        name, _, value = setting.partition(" = ")
        connection = json.loads(os.environ["AIRFLOW_CONN_CHS3_DEFAULT"])
        connection["extra"] = {**connection["extra"], "settings": {name: int(value)}}
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))
        _, checks, _ = doctor(*where(own_lake))
        said = f"have {setting}, which no GRANT overrides."
        findings = "".join(finding for check in checks.values() for finding in check["findings"])
        assert said in findings
        assert "run GRANT" not in findings
        with pytest.raises(AirflowFailException, match=said):
            own_lake.load()

    def test_a_node_that_is_down_is_found_and_the_others_are_looked_at(
        self, cluster: ClickHouseCluster, own_lake: Lake, doctor: Doctor
    ) -> None:
        cluster.kill(1)
        try:
            code, checks, found = doctor(*where(own_lake))
        finally:
            cluster.restart(1)
        assert code == 1
        assert list(findings(checks)) == ["connection"]
        assert "1 of 2 nodes of cluster" in checks["connection"]["summary"]
        assert "1 of 1 nodes list and read" in checks["storage"]["summary"]
        assert checks["settings"]["remarks"] == ["by 1 of 2 nodes"]
        assert [node["version"] is None for node in found["nodes"]] == [False, True]
