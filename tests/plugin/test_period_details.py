"""The page on one period that is opened."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.cli.main import main
from tests.plugin.fixture_types import AsUser
from tests.plugin.period_loads import HOSTILE, TASK, TRIPS, ask, details, fail, loaded, loading
from tests.support.deferring import Gate, gate
from tests.support.lake import PERIOD, Lake
from tests.support.strikes import Strikes, strikes
from tests.support.temporary_keys import LIST_ONLY, TemporaryKeys

#: Fixtures.
__all__ = ["gate", "strikes"]


@pytest.mark.three_nodes
def test_a_published_period_tells_what_its_load_did_and_the_share_of_each_node(
    as_user: AsUser, trips_lake: Lake
) -> None:
    trips_lake.upload(TRIPS)
    result = trips_lake.load(settings={"max_block_size": 100})
    found = details(as_user, trips_lake)
    load = found["load"]
    assert load["is_published"]
    assert {name: load[name] for name in ("rows", "parts", "objects", "source_bytes", "query_ids")} == {
        name: result[name] for name in ("rows", "parts", "objects", "source_bytes", "query_ids")
    }
    assert load["seconds_by_step"] == result["seconds_by_step"]
    assert load["rows_per_second"] > 0 < load["bytes_per_second"]
    assert load["memory_bytes"] > 0
    assert "cores" in {each["name"]: each["reason"] for each in load["settings"]}["max_insert_threads"]
    names = [detail["name"] for detail in load["settings"]]
    assert names.index("max_insert_threads") < names.index("max_block_size") < names.index("optimize_on_insert")
    assert (found["failure"], found["inserting"], found["error"]) == (None, None, "")
    name = f"{trips_lake.database}.trips"
    trips_lake.on_node(0, f"INSERT INTO {name} (trip_id, pickup_at) VALUES (1, '{PERIOD}-05 00:00:00')")
    nodes = details(as_user, trips_lake)["nodes"]
    assert [node["share"]["rows"] for node in nodes] == trips_lake.rows_per_node()
    assert sum(node["share"]["published_rows"] for node in nodes) == 600
    assert nodes[0]["share"]["parts"] > 0 < nodes[0]["share"]["size_bytes"]


@pytest.mark.thorough
def test_a_failed_period_tells_its_error_until_a_load_succeeds(as_user: AsUser, trips_lake: Lake) -> None:
    loaded(trips_lake)
    fail(trips_lake, TASK)
    found = details(as_user, trips_lake)
    assert "cannot be filled from row 1 of" in json.dumps(found["failure"])
    assert found["load"]["is_published"]
    trips_lake.load()
    assert details(as_user, trips_lake)["failure"] is None


def test_an_error_comes_with_its_hint_and_without_secrets(
    as_user: AsUser, trips_lake: Lake, chs3_s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = TemporaryKeys.of(chs3_s3, actions=LIST_ONLY)
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", keys.airflow_connection())
    trips_lake.upload(TRIPS)
    with pytest.raises(AirflowFailException):
        trips_lake.load()
    found = details(as_user, trips_lake)
    assert found["failure"]["hint"].startswith("The storage refused the servers' keys")
    assert [secret for secret in (keys.secret_key, keys.session_token) if secret in json.dumps(found)] == []


@pytest.mark.thorough
def test_what_a_load_began_to_insert_is_told_when_it_is_gone(as_user: AsUser, trips_lake: Lake) -> None:
    fail(trips_lake, TASK)
    inserting = details(as_user, trips_lake)["inserting"]
    assert inserting["query_ids"][0].endswith("_insert1")
    assert inserting["settings"]


@pytest.mark.thorough
def test_a_load_at_work_tells_its_steps_so_far_and_those_of_the_load_before(
    as_user: AsUser, trips_lake: Lake, gate: Gate
) -> None:
    trips_lake.upload(TRIPS)
    before = trips_lake.load()
    trips_lake.upload(TRIPS, "2026-11")
    with loading(trips_lake, gate, period="2026-11"):
        found = details(as_user, trips_lake, period="2026-11")
    spent = found["inserting"]["seconds_by_step"]
    assert list(spent) == ["list", "inspect", "plan", "stage"]
    assert min(spent.values()) > 0
    last = found["last_finished"]
    assert (last["period"], last["rows"]) == (PERIOD, 600)
    assert last["seconds_by_step"] == before["seconds_by_step"]
    assert details(as_user, trips_lake)["last_finished"]["period"] == "2026-11"


@pytest.mark.thorough
def test_a_load_of_new_objects_alone_tells_what_it_reads(as_user: AsUser, trips_lake: Lake, strikes: Strikes) -> None:
    keys = trips_lake.upload(TRIPS)
    trips_lake.load()
    late = trips_lake.s3.get_object(Bucket=trips_lake.bucket, Key=keys[0])["Body"].read()
    trips_lake.put(f"trips/{PERIOD}/late.parquet", late)
    seen: list[dict[str, Any]] = []
    strikes.before("List again, and count what is staged", lambda: seen.append(details(as_user, trips_lake)))
    result = trips_lake.load()
    found = seen[0]["inserting"]
    read = {name: found[name] for name in ("objects", "source_bytes", "loaded_objects", "loaded_bytes")}
    assert read == {name: result[name] for name in read}
    assert (read["objects"], read["loaded_objects"], read["loaded_bytes"]) == (4, 1, len(late))


def test_a_period_tells_its_history_and_each_of_its_objects(as_user: AsUser, trips_lake: Lake) -> None:
    first, second, third = trips_lake.upload(TRIPS)
    began = trips_lake.load(keep_versions=1)["attempt"]
    trips_lake.put(f"trips/{PERIOD}/late.parquet", content(trips_lake, first))
    added = trips_lake.load(keep_versions=1)["attempt"]
    trips_lake.put(first, content(trips_lake, second))
    trips_lake.s3.delete_object(Bucket=trips_lake.bucket, Key=third)
    replaced = trips_lake.load(keep_versions=1)["attempt"]
    found = ask_objects(as_user, trips_lake)
    assert (found["error"], found["is_cut"]) == ("", False)
    keys = {each["path"].partition("/")[2]: (each["state"], each["attempt"], each["rows"]) for each in found["objects"]}
    assert keys == {
        third: ("gone", began, 200),
        first: ("changed", replaced, 200),
        second: ("loaded", began, 200),
        f"trips/{PERIOD}/late.parquet": ("loaded", added, 200),
    }
    fail(trips_lake, TASK)
    history = details(as_user, trips_lake)["history"]
    assert [(each["event"], each["loaded_rows"]) for each in history] == [
        ("failed", 0),
        ("load", 600),
        ("load", 200),
        ("load", 600),
    ]
    assert [each["attempt"] for each in history[1:]] == [replaced, added, began]
    assert [each["is_kept"] for each in history] == [False, False, True, False]
    assert "cannot be filled from row 1 of" in history[0]["why"]
    assert min(each["seconds"] for each in history[1:]) > 0


def ask_objects(as_user: AsUser, lake: Lake) -> Any:
    query = {"conn_id": "chs3_default", "database": lake.database, "table": "trips", "period": PERIOD}
    return as_user("viewer").get("/chs3/api/objects", params=query).raise_for_status().json()


@pytest.mark.thorough
def test_the_shell_lists_the_same_objects_as_current(
    as_user: AsUser, trips_lake: Lake, strikes: Strikes, capsys: pytest.CaptureFixture[str]
) -> None:
    def on_page() -> set[str]:
        return {each["path"] for each in ask_objects(as_user, trips_lake)["objects"] if each["state"] != "gone"}

    def in_shell() -> set[str]:
        capsys.readouterr()
        place = ("--database", trips_lake.database, "--table", "trips", "--cluster", trips_lake.cluster.name)
        main(["ledger", "--objects", "--output=json", *place])
        return {each["path"] for each in json.loads(capsys.readouterr().out) if each["is_current"]}

    first, second, third = (f"{trips_lake.bucket}/{key}" for key in trips_lake.upload(TRIPS))
    trips_lake.load()
    trips_lake.s3.delete_object(Bucket=trips_lake.bucket, Key=third.partition("/")[2])
    # Until it has published, the table holds the rows of the load before.
    strikes.die("before", f"Publish {PERIOD}", trips_lake.load)
    assert on_page() == in_shell() == {first, second, third}
    trips_lake.load()
    assert on_page() == in_shell() == {first, second}


def content(lake: Lake, key: str) -> bytes:
    return bytes(lake.s3.get_object(Bucket=lake.bucket, Key=key)["Body"].read())


@pytest.mark.thorough
@pytest.mark.parametrize("name", [HOSTILE, "it's; DROP TABLE trips --", 'back\\slash "and" `ticks`'])
def test_whatever_a_table_is_called(as_user: AsUser, lake: Lake, name: str) -> None:
    lake.table = "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"
    lake.create_table()
    lake.table = name
    loaded(lake)
    assert details(as_user, lake)["load"]["rows"] == 600


def test_there_is_nothing_else(as_user: AsUser, trips_lake: Lake) -> None:
    loaded(trips_lake)
    asked: list[tuple[dict[str, str], int]] = [
        ({"conn_id": "no_such_connection"}, 404),
        ({"conn_id": "aws_default"}, 404),
        ({"table": "no_such_table"}, 200),
        ({"database": "' OR 1 = 1 --\0"}, 200),
        ({"period": "2020-01"}, 200),
        ({"period": "2026-13"}, 422),
        ({"period": "1970-01"}, 422),
        ({"period": "2026-02-29"}, 422),
        ({"period": "2025-W53"}, 422),
        ({"period": "2026-10\n"}, 422),
        ({"period": "٢٠٢٦-10"}, 422),
        ({"table": ""}, 422),
        ({"table": "x" * 256}, 422),
    ]
    assert [(query, ask(as_user, trips_lake, **query).status_code) for query, _ in asked] == asked
