"""No profile changes what a load publishes: neither the user's nor that of the user between nodes."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.exceptions import ClickHouseServerError
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.nodes import Cluster
from airflow_provider_chs3.testbed.pytest_plugin import S3_NAMED_COLLECTION
from airflow_provider_chs3.testbed.trips import Trips
from tests.integration.grains import Case, Source
from tests.support.lake import IS_OLDEST, PERIOD, Lake
from tests.support.refusal import refused
from tests.support.users import PROFILES, cluster_of, user_of

LINE = "2026-10-01 00:00:{:02}"
#: Format → what stands between two values.
TEXT = {"CSV": ",", "TabSeparated": "\t"}

#: Profile → the setting that it fixes.
NAMES = {"fixed": "optimize_on_insert", "fixed_early": "limit", "fixed_skipping": "input_format_csv_skip_first_lines"}
#: Profile → how a load finds that.
FINDINGS = {
    "fixed": "'user_fixed' fixes optimize_on_insert at '1', but every load needs '0': change that constraint",
    "fixed_early": "'user_fixed_early' forbids what every load needs, limit = '0'",
    "fixed_skipping": "'user_fixed_skipping' fixes input_format_csv_skip_first_lines at '1', but every load needs '0'",
}


@pytest.fixture(autouse=True)
def _with_profiles(chs3_cluster: Cluster) -> None:
    if not isinstance(chs3_cluster, ClickHouseCluster):
        pytest.skip("servers of others have profiles of their own")


def log_in(lake: Lake, monkeypatch: pytest.MonkeyPatch, profile: str, **extra: Any) -> None:
    """Loads are from now on those of a user of that profile."""
    if profile not in PROFILES:
        pytest.skip("these servers do not know the settings of that profile")
    connection = lake.cluster.airflow_connection()
    user = user_of(profile)
    connection |= {"login": user.login, "password": user.password, "extra": connection["extra"] | extra}
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))


def numbered(lake: Lake, files: int, rows: int, *, file_format: str = "CSV") -> set[int]:
    """Files of numbered rows, without a line of names, and a table for them; gives the numbers."""
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.trips (at DateTime('UTC'), n Int32) "
        "ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY n"
    )
    for file in range(files):
        numbers = range(file * rows, (file + 1) * rows)
        lines = (TEXT[file_format].join((LINE.format(number % 60), str(number))) for number in numbers)
        lake.put(f"trips/{PERIOD}/{file:03}.txt", "".join(f"{line}\n" for line in lines).encode())
    return set(range(files * rows))


def published(lake: Lake) -> list[int]:
    return sorted(n for rows in lake.on_every_node(f"SELECT n FROM {lake.database}.trips") for (n,) in rows)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("file_format", TEXT)
def test_a_profile_that_skips_first_lines_loses_no_row(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, file_format: str
) -> None:
    numbers = numbered(lake, 10, 10, file_format=file_format)
    log_in(lake, monkeypatch, "skipping")
    lake.load(file_format=file_format, select={"at": "c1", "n": "c2"})
    assert published(lake) == sorted(numbers)


@pytest.mark.thorough
@pytest.mark.parametrize("file_format", TEXT)
def test_nodes_that_ask_each_other_under_such_a_profile_lose_no_row(lake: Lake, file_format: str) -> None:
    numbers = numbered(lake, 10, 10, file_format=file_format)
    lake.load(file_format=file_format, select={"at": "c1", "n": "c2"}, cluster=cluster_of("skipping"))
    assert published(lake) == sorted(numbers)


@pytest.mark.thorough
@pytest.mark.parametrize("deferrable", [False, True], ids=["here", "deferrable"])
def test_a_connection_that_skips_first_lines_loses_no_row(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, deferrable: bool
) -> None:
    numbers = numbered(lake, 10, 10)
    skip = {"input_format_csv_skip_first_lines": 1, "max_threads": 1}
    log_in(lake, monkeypatch, "nullish", settings=skip)
    lake.load(file_format="CSV", select={"at": "c1", "n": "c2"}, deferrable=deferrable)
    assert published(lake) == sorted(numbers)


@pytest.mark.thorough
def test_the_operators_own_settings_do_change_how_files_are_read(lake: Lake) -> None:
    numbers = numbered(lake, 2, 10)
    settings = {"input_format_csv_skip_first_lines": 1}
    lake.load(file_format="CSV", select={"at": "c1", "n": "c2"}, settings=settings)
    assert published(lake) == sorted(numbers - {0, 10})


@pytest.mark.thorough
def test_a_profile_that_forces_indexes_stops_no_night(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = numbered(lake, 2, 10)
    log_in(lake, monkeypatch, "forcing")
    arguments = {"file_format": "CSV", "select": {"at": "c1", "n": "c2"}}
    lake.load(**arguments)
    lake.put(f"trips/{PERIOD}/late.txt", f"{LINE.format(0)},1000\n".encode())
    assert lake.load(**arguments)["loaded_objects"] == 1
    assert lake.load(**arguments)["status"] == "unchanged"
    assert published(lake) == sorted({*numbers, 1000})


@pytest.mark.thorough
def test_a_profile_of_few_partitions_stops_no_batch(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(lake, Case("toDate(at)", "{YYYY-MM-DD}", ""))
    days = [f"2026-10-{day:02}" for day in range(1, 6)]
    for number, day in enumerate(days):
        source.put(day, "a", 100 * number)
    log_in(lake, monkeypatch, "few_partitions")
    load = source.operator(periods=days)
    assert {each["status"] for each in load.execute({})} == {"published"}
    assert len(load.inserts) == 1
    source.assert_exact(*days)


@pytest.mark.thorough
@pytest.mark.parametrize("where", ["profile", "connection"])
def test_an_index_that_is_forced_is_found_before_the_first_night(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    numbered(lake, 2, 10)
    settings = {"force_data_skipping_indices": "i"} if where == "connection" else {}
    log_in(lake, monkeypatch, "forcing_index" if where == "profile" else "skipping", settings=settings)
    refused(lake, "force_data_skipping_indices is 'i' .* Remove it from one of the profiles", file_format="CSV")


@pytest.mark.thorough
@pytest.mark.parametrize("where", ["profile", "connection"])
def test_a_filter_of_results_filters_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    numbers = numbered(lake, 2, 10)
    settings = {"additional_result_filter": "n = 1"} if where == "connection" else {}
    log_in(lake, monkeypatch, "filtering_results" if where == "profile" else "skipping", settings=settings)
    lake.load(file_format="CSV", select={"at": "c1", "n": "c2"}, cluster=lake.cluster.single_node_name)
    assert published(lake) == sorted(numbers)


def test_a_user_who_may_only_read_is_told_so(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    numbered(lake, 2, 10)
    log_in(lake, monkeypatch, "read_only")
    refused(lake, "The user has readonly = 1, and so may send no settings.* remove `readonly` from its profile")


@pytest.mark.thorough
def test_a_setting_that_servers_refuse_is_not_blamed_on_a_file(
    trips_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    trips_lake.upload(Trips(rows_per_period=30, files_per_period=3))
    log_in(trips_lake, monkeypatch, "skipping", settings={"s3_max_upload_part_size": 1})
    with pytest.raises((AirflowFailException, ClickHouseServerError), match="Setting max_upload_part_size") as stopped:
        trips_lake.load()
    assert "cannot be read as" not in str(stopped.value)


CUTTING = ["cutting", "nullish", "extreme"]
#: Profiles that cut off answers between nodes, which no statement can change.
LIMITED = ["limited", "offset"]


def load_through_collection(lake: Lake, **options: Any) -> None:
    key = f"{lake.bucket}/trips/{{YYYY-MM}}/"
    through = {"named_collection": S3_NAMED_COLLECTION, "bucket": None, "aws_conn_id": None}
    lake.load(file_format="CSV", select={"at": "c1", "n": "c2"}, key=key, **through, **options)


@pytest.mark.thorough
@pytest.mark.parametrize("profile", CUTTING)
def test_a_listing_through_clickhouse_is_whole(lake: Lake, monkeypatch: pytest.MonkeyPatch, profile: str) -> None:
    numbers = numbered(lake, 120, 2)
    log_in(lake, monkeypatch, profile)
    load_through_collection(lake)
    assert published(lake) == sorted(numbers)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("profile", ["filtering", "selecting"])
def test_a_profile_that_rewrites_statements_changes_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, profile: str
) -> None:
    numbers = numbered(lake, 2, 10)
    log_in(lake, monkeypatch, profile)
    lake.load(file_format="CSV", select={"at": "c1", "n": "c2"}, cluster=lake.cluster.single_node_name)
    assert published(lake) == sorted(numbers)


@pytest.mark.thorough
@pytest.mark.parametrize("profile", CUTTING)
def test_nodes_that_ask_each_other_under_such_a_profile_answer_whole(lake: Lake, profile: str) -> None:
    numbers = numbered(lake, 120, 2)
    load_through_collection(lake, cluster=cluster_of(profile))
    assert published(lake) == sorted(numbers)


@pytest.mark.thorough
def test_a_listing_that_takes_longer_than_the_profile_allows_is_an_error(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbered(lake, 120, 2)
    log_in(lake, monkeypatch, "impatient")
    # 25.8 says of such a short time that the query is killed.
    killed = (AirflowFailException, "killed in pending state")
    error, says = killed if IS_OLDEST else (ClickHouseServerError, "159")
    with pytest.raises(error, match=says):
        load_through_collection(lake)
    assert published(lake) == []


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("profile", [*CUTTING, *LIMITED, "filtering", "selecting"])
def test_an_answer_is_whole_under_any_profile(lake: Lake, monkeypatch: pytest.MonkeyPatch, profile: str) -> None:
    log_in(lake, monkeypatch, profile)
    assert ClickHouseHook().query("SELECT number FROM numbers(200)") == [(number,) for number in range(200)]


@pytest.mark.thorough
def test_connection_settings_do_not_cut_an_answer(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    log_in(lake, monkeypatch, "fixed", settings={"limit": 1, "extremes": 1})
    assert ClickHouseHook().query("SELECT number FROM numbers(3)") == [(0,), (1,), (2,)]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("profile", FINDINGS)
def test_a_profile_that_fixes_what_a_load_needs_is_a_finding_of_load_and_doctor(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], profile: str
) -> None:
    numbered(lake, 2, 10)
    log_in(lake, monkeypatch, profile)
    refused(lake, FINDINGS[profile], file_format="CSV", select={"at": "c1", "n": "c2"})
    assert any(FINDINGS[profile] in finding for finding in doctor(lake, capsys))


@pytest.mark.thorough
@pytest.mark.three_nodes
@pytest.mark.parametrize("profile", ["fixed", "fixed_skipping"])
def test_so_is_one_of_the_user_as_whom_nodes_ask_each_other(lake: Lake, profile: str) -> None:
    numbered(lake, 2, 10)
    found = rf"'user_{profile}' of the user that other nodes use to query it forbids {NAMES[profile]}"
    refused(lake, found, file_format="CSV", select={"at": "c1", "n": "c2"}, cluster=cluster_of(profile))


@pytest.mark.thorough
@pytest.mark.three_nodes
@pytest.mark.parametrize("profile", [*LIMITED, "fixed_early"])
def test_so_is_one_that_cuts_the_answers_of_other_nodes_off(lake: Lake, profile: str) -> None:
    numbers = numbered(lake, 20, 2)
    found = "cut off by the profile of the user that nodes use to query each other"
    if IS_OLDEST and profile == "limited":
        # There a statement's own limit reaches the other nodes.
        lake.load(file_format="CSV", select={"at": "c1", "n": "c2"}, cluster=cluster_of(profile))
        assert published(lake) == sorted(numbers)
        return
    refused(lake, found, file_format="CSV", select={"at": "c1", "n": "c2"}, cluster=cluster_of(profile))


@pytest.mark.thorough
@pytest.mark.three_nodes
@pytest.mark.parametrize("profile", ["filtering", "selecting"])
def test_so_is_one_that_rewrites_the_answers_of_other_nodes(lake: Lake, profile: str) -> None:
    if profile not in PROFILES:
        pytest.skip("these servers do not know the settings of that profile")
    numbered(lake, 2, 10)
    found = "the user that other nodes use to query it has a profile that rewrites answers"
    refused(lake, found, file_format="CSV", select={"at": "c1", "n": "c2"}, cluster=cluster_of(profile))


@pytest.mark.thorough
@pytest.mark.parametrize("profile", LIMITED)
def test_a_limit_of_the_profile_does_not_cut_a_load_of_one_server(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, profile: str
) -> None:
    numbers = numbered(lake, 20, 2)
    log_in(lake, monkeypatch, profile, cluster=None)
    load_through_collection(lake, cluster=None)
    assert published(lake) == sorted(numbers)


@pytest.mark.thorough
def test_a_profile_may_fix_a_setting_where_loads_need_it(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = numbered(lake, 2, 10)
    log_in(lake, monkeypatch, "fixed_right")
    lake.load(file_format="CSV", select={"at": "c1", "n": "c2"}, cluster=cluster_of("fixed_right"))
    assert published(lake) == sorted(numbers)


@pytest.mark.thorough
def test_two_queries_at_a_time_are_enough(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = numbered(lake, 40, 2)
    log_in(lake, monkeypatch, "crowded")
    lake.load(file_format="CSV", select={"at": "c1", "n": "c2"})
    assert published(lake) == sorted(numbers)


def doctor(lake: Lake, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """All that the doctor finds about settings and the connection."""
    capsys.readouterr()
    main(["doctor", "--output=json", "--database", lake.database, "--table", lake.table, *arguments])
    checks = json.loads(capsys.readouterr().out)["checks"]
    return [each for check in checks if check["name"] in ("connection", "settings") for each in check["findings"]]


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_the_doctor_finds_what_the_profile_of_nodes_forbids(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    numbered(lake, 1, 1)
    (*_, found) = doctor(lake, capsys, "--cluster", cluster_of("fixed"))
    assert "'user_fixed' of the user that other nodes use to query it forbids optimize" in found


@pytest.mark.thorough
def test_no_answer_comes_from_a_cache(trips_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    # A server refuses to cache what statements about itself answer (704).
    connection = json.loads(os.environ["AIRFLOW_CONN_CHS3_DEFAULT"])
    connection["extra"] |= {"settings": {"use_query_cache": 1}}
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))
    trips = Trips(rows_per_period=30, files_per_period=3)
    trips_lake.upload(trips)
    assert trips_lake.load()["status"] == "published"
    assert trips_lake.facts() == trips.facts(PERIOD)
