"""Matters of HDFS alone: its listing, its permissions, and how servers call its files."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.exceptions import ConfigurationError, NotReadyError, SourceError, TransientError
from airflow_provider_chs3.sources.hdfs import HdfsFiles
from airflow_provider_chs3.sources.hdfs.listing import WebHdfsListing
from airflow_provider_chs3.testbed.trips import Trips
from tests.sources.hdfs import HdfsServer
from tests.sources.objects import HdfsObjects
from tests.sources.store_lake import StoreLake
from tests.sources.trips_target import PERIOD

TRIPS = Trips(rows_per_period=1_000, files_per_period=2)

of_hdfs = pytest.mark.parametrize("store_lake", ["hdfs"], indirect=True)


@pytest.fixture
def folder(hdfs: HdfsServer, monkeypatch: pytest.MonkeyPatch) -> HdfsObjects:
    """An empty folder, and the connection that lists it."""
    connect(hdfs, monkeypatch)
    return HdfsObjects.create(hdfs)


def connect(hdfs: HdfsServer, monkeypatch: pytest.MonkeyPatch, **given: object) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_WEBHDFS_DEFAULT", json.dumps(hdfs.airflow_connection() | given))


def listed(prefix: str) -> list[str]:
    return sorted(unit.path for unit in WebHdfsListing("webhdfs_default").objects("", prefix))


def etag(folder: HdfsObjects, name: str) -> str:
    (found,) = WebHdfsListing("webhdfs_default").objects("", f"{folder.folder}/{name}")
    return found.version


@pytest.mark.thorough
def test_a_listing_has_all_files_below_a_prefix_of_folders_and_names(folder: HdfsObjects) -> None:
    # The test bed's HDFS lists two at a time.
    names = [f"trips/2026-0{period}/{hour}/f{file}" for period in (1, 2) for hour in "ab" for file in range(3)]
    for name in (*names, "trips/2026", "tripsy/2026-01"):
        folder.put(name, b"x")
    base = f"/{folder.folder}/"
    assert listed(f"{folder.folder}/trips/") == [base + name for name in sorted([*names, "trips/2026"])]
    assert listed(f"{folder.folder}/trips/2026-01/") == [base + name for name in names[:6]]
    assert listed(f"{folder.folder}/trips/2026-01/a/f2") == [f"{base}trips/2026-01/a/f2"]
    assert listed(f"{folder.folder}/tr")[-1] == f"{base}tripsy/2026-01"
    assert listed(f"{folder.folder}/none/") == listed(f"{folder.folder}/trips/2026/f") == []


def test_folders_of_other_periods_are_not_listed(folder: HdfsObjects) -> None:
    for period in ("2026-01", "2026-02", "2026-03"):
        folder.put(f"{period}/f", b"x")
    folder.server.set_permission(f"/{folder.folder}/2026-02", "000")
    prefix = f"{folder.folder}/2026-0"
    wanted = (f"{prefix}1/", f"{prefix}3/")
    pages = WebHdfsListing("webhdfs_default").pages("", prefix, lambda _: wanted)
    assert [path for page in pages for path in page.paths] == [f"/{wanted[1]}f", f"/{wanted[0]}f"]


def test_a_file_that_is_written_again_or_put_in_anothers_place_has_another_version(folder: HdfsObjects) -> None:
    folder.put("f", b"1")
    versions = {etag(folder, "f")}
    for body in (b"1", b"2", b"2"):
        folder.put("f", body)
        versions.add(etag(folder, "f"))
    folder.put("g", b"3")
    folder.delete("f")
    folder.server.rename(f"/{folder.folder}/g", f"/{folder.folder}/f")
    assert len({*versions, etag(folder, "f")}) == 5


@pytest.mark.thorough
def test_the_host_that_answers_lists(folder: HdfsObjects, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.put("f", b"1")
    connect(folder.server, monkeypatch, host="no-such-host.invalid, 127.0.0.1")
    assert listed(folder.folder) == [f"/{folder.folder}/f"]
    connect(folder.server, monkeypatch, host="no-such-host.invalid")
    with pytest.raises(TransientError, match=r"Cannot list / in HDFS .*: no answer from http://no-such-host"):
        listed(folder.folder)


@pytest.fixture(params=["refuses", "is silent"])
def wrong_port(request: pytest.FixtureRequest) -> Iterator[int]:
    """A port where nothing listens, or something that takes connections and says nothing."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        if request.param == "is silent":
            silent.listen()
        yield silent.getsockname()[1]


@pytest.mark.thorough
def test_a_worker_that_gets_no_answer_says_so_within_seconds(
    folder: HdfsObjects, monkeypatch: pytest.MonkeyPatch, wrong_port: int
) -> None:
    connect(folder.server, monkeypatch, port=wrong_port)
    began = time.monotonic()
    wanted = f"connection 'webhdfs_default'.*no answer from http://127.0.0.1:{wrong_port}/.*check the connection's host"
    with pytest.raises(TransientError, match=wanted):
        listed(folder.folder)
    assert time.monotonic() - began < 60


def test_what_is_not_webhdfs_or_may_not_be_listed_is_told(folder: HdfsObjects, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(folder.server, monkeypatch, schema="explorer")
    with pytest.raises(TransientError, match="HTTP status 404"):
        listed(folder.folder)
    connect(folder.server, monkeypatch, host="")
    with pytest.raises(ConfigurationError, match="has no host: set the name node"):
        listed(folder.folder)
    folder.put("private/f", b"1")
    folder.server.set_permission(f"/{folder.folder}/private", "700")
    connect(folder.server, monkeypatch, login="nobody")
    with pytest.raises(SourceError, match=r"access is denied: the user of the connection \(login\) needs r and x"):
        listed(f"{folder.folder}/private/")


@pytest.mark.parametrize("url", ["", "namenode:8020", "http://namenode", "hdfs://namenode/lake", "hdfs://u:p@namenode"])
def test_what_is_no_url_of_a_name_node_is_refused(url: str) -> None:
    store = HdfsFiles(path="/lake/{YYYY-MM}/", hdfs_url=url)
    with pytest.raises(ConfigurationError, match="is not the URL of a name node"):
        store.source(store.listing())


def storage_check(
    capsys: pytest.CaptureFixture[str], lake: StoreLake, url: str, *, period: str | None = None
) -> dict[str, Any]:
    """Return the doctor's text about the storage; with a period, no check may have a finding."""
    where = ["--storage", "hdfs", "--hdfs-url", url, "--key", f"/{lake.place}/trips/{{YYYY-MM}}/*.parquet"]
    table = ["--database", lake.database, "--table", "trips", "--cluster", lake.cluster.name]
    capsys.readouterr()
    main(["doctor", "--output=json", *where, *table, *(["--period", period] if period else [])])
    checks = json.loads(capsys.readouterr().out)["checks"]
    if period:
        assert [check["findings"] for check in checks if check["name"] != "disks"] == [[]] * (len(checks) - 1)
    (found,) = (check for check in checks if check["name"] == "storage")
    return found


@of_hdfs
class TestLoads:
    def test_a_missing_folder_is_a_period_without_files(self, store_lake: StoreLake) -> None:
        with pytest.raises(NotReadyError, match="No objects for"):
            store_lake.load()

    @pytest.mark.every_change
    def test_a_file_that_the_servers_user_may_not_read_is_told(self, store_lake: StoreLake) -> None:
        first = store_lake.objects.upload(TRIPS, PERIOD)[0]
        hdfs = store_lake.objects.server
        hdfs.set_permission(f"/{store_lake.place}/{first}", "600")
        with pytest.raises(AirflowFailException, match="HDFS refused the servers' user: name one") as failed:
            store_lake.load(hdfs_url=hdfs.url.replace("chs3@", "nobody@"))
        assert "org.apache" not in str(failed.value)
        assert store_lake.rows() == 0

    @pytest.mark.thorough
    def test_servers_that_get_no_answer_are_told_within_seconds(self, store_lake: StoreLake, wrong_port: int) -> None:
        store_lake.objects.upload(TRIPS, PERIOD)
        began = time.monotonic()
        with pytest.raises(TransientError, match=f"gets no answer from hdfs://chs3@127.0.0.1:{wrong_port}: check hdfs"):
            store_lake.load(hdfs_url=f"hdfs://chs3@127.0.0.1:{wrong_port}")
        assert time.monotonic() - began < 60

    @pytest.mark.thorough
    def test_text_names_the_file_and_row_to_blame(self, store_lake: StoreLake) -> None:
        first = store_lake.objects.upload(TRIPS, PERIOD, file_format="jsonl")[0]
        store_lake.objects.put(first, b'{"trip_id": "x"}\n')
        with pytest.raises(AirflowException, match=f"row 1 of /{store_lake.place}/{first} has 'x'"):
            store_lake.load()

    @pytest.mark.thorough
    @pytest.mark.three_nodes
    def test_the_doctor_finds_nothing_or_what_is_wrong(
        self, store_lake: StoreLake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store_lake.objects.upload(TRIPS, PERIOD)
        url = store_lake.objects.server.url
        check = storage_check(capsys, store_lake, url, period=PERIOD)
        assert check["findings"] == []
        assert "this machine lists in" in check["summary"]
        assert "3 of 3 nodes list and read" in check["summary"]
        store_lake.connect(monkeypatch, host="no-such-host.invalid")
        store_lake.objects.server.set_permission(f"/{store_lake.place}/trips", "700")
        (from_worker, from_nodes) = storage_check(capsys, store_lake, url.replace("chs3@", "nobody@"))["findings"]
        assert "from this machine: Cannot list" in from_worker
        assert "HDFS refused the servers' user" in from_nodes
        monkeypatch.delenv("AIRFLOW_CONN_WEBHDFS_DEFAULT")
        assert "pass --storage-conn-id" in storage_check(capsys, store_lake, url)["findings"][0]

    @pytest.mark.thorough  # servers try for 20 s
    def test_the_doctor_tells_a_wrong_host_of_the_servers(
        self, store_lake: StoreLake, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (found,) = storage_check(capsys, store_lake, "hdfs://no-such-host.invalid:8020")["findings"]
        assert found.endswith("Check that hdfs://no-such-host.invalid:8020 is right and reachable from there.")

    @pytest.mark.thorough
    def test_the_example_dag_loads_and_then_finds_nothing_to_load(
        self, store_lake: StoreLake, run_example: Callable[..., None]
    ) -> None:
        store_lake.objects.upload(TRIPS, "2026-02")
        path, url = f"/{store_lake.place}/trips/{{YYYY-MM}}/*.parquet", store_lake.objects.server.url
        run_example("chs3_hdfs", store_lake, TRIPS, ["2026-02"], path=path, hdfs_url=url)
