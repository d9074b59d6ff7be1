"""`python -m airflow_provider_chs3 rehearse`: what it plays, what it notices, and what it leaves behind."""

from __future__ import annotations

import json

import pytest

from airflow_provider_chs3.cli.rehearse import Rehearsal
from airflow_provider_chs3.core.doctor import rehearsal_tables as scratch
from airflow_provider_chs3.core.model.models import Node, TableName
from tests.support.lake import Lake
from tests.support.rehearsing import Rehearse, left, rehearse

__all__ = ["rehearse"]


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_all_scenes_are_told_and_nothing_is_left(lake: Lake, rehearse: Rehearse) -> None:
    code, out, err = rehearse()
    assert (code, err) == (0, ""), out
    header, *scenes, verdict = out.splitlines()
    assert "3 nodes, 3 shards, MergeTree PARTITION BY toYYYYMM(ts)" in header
    assert all(scene.startswith("ok ") and scene.endswith(" rows as in the objects") for scene in scenes)
    assert [scene.split("  ")[-1].split(":")[0] for scene in scenes][-3:] == [
        "two loads at once",
        "the wait for merges",
        "unchanged after all of this",
    ]
    assert verdict == "Every period held exactly the rows of its objects."
    assert left(lake) == ([], 0)


@pytest.mark.thorough
def test_json_has_versions_engine_and_scenes(lake: Lake, rehearse: Rehearse) -> None:
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.own (ts Date) ENGINE = MergeTree PARTITION BY toYYYYMM(ts) ORDER BY ts "
        "SETTINGS index_granularity = 1024"
    )
    code, out, _ = rehearse("--output=json", "--like", "own")
    found = json.loads(out)
    assert (code, found["nodes"], len(found["scenes"])) == (0, 1, 13)
    assert "index_granularity = 1024" in found["engine"]
    assert all(scene["is_exact"] and scene["seconds"] > 0 for scene in found["scenes"])


@pytest.mark.thorough
def test_a_row_of_somebody_else_is_noticed(lake: Lake, rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch) -> None:
    def insert(table: str) -> None:
        lake.on_node(0, f"INSERT INTO {lake.database}.{table} (id, ts) VALUES (7, '2001-02-03 00:00:00')")

    check = Rehearsal._check

    def check_after_an_insert(self: Rehearsal) -> int:
        insert(self.where.target.table)
        return check(self)

    monkeypatch.setattr(Rehearsal, "_check", check_after_an_insert)
    code, out, _ = rehearse()
    *_, scene, verdict = out.splitlines()
    assert (code, verdict) == (1, "A period did not hold exactly the rows of its objects.")
    assert scene.startswith("WRONG ")
    assert "the table holds 81 rows and the objects 80" in scene
    assert left(lake) == ([], 0)


@pytest.mark.thorough
def test_a_value_that_is_another_is_noticed(lake: Lake, rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch) -> None:
    body = scratch.body_of_file
    monkeypatch.setattr(scratch, "body_of_file", lambda rows: body(rows).replace(b"0.39", b"0.38", 1))
    code, out, _ = rehearse()
    assert code == 1
    assert "Decimal('0.38')" in out


def test_a_prefix_that_is_in_use_is_refused(lake: Lake, rehearse: Rehearse) -> None:
    lake.put("rehearsals/mine.csv", b"x")
    code, _, err = rehearse()
    assert (code, "There are objects under" in err) == (2, True)
    assert left(lake) == ([], 1)


@pytest.mark.thorough
def test_it_cleans_up_after_an_interrupt(lake: Lake, rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(self: Rehearsal) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(Rehearsal, "_load_without_a_file", interrupt)
    code, _, err = rehearse()
    assert (code, err) == (130, "rehearse: interrupted\n")
    assert left(lake) == ([], 0)


@pytest.mark.thorough
def test_what_one_that_was_killed_has_left_goes_with_clean(lake: Lake, rehearse: Rehearse) -> None:
    lake.create_table()
    lake.put("trips/2026-10/a.csv", b"x")
    lake.on_every_node(f"CREATE TABLE {lake.database}.rehearsal_chs3_0a1b (ts Date) ENGINE = MergeTree ORDER BY ts")
    lake.put("rehearsals/rehearsal_chs3_0a1b/2001-02/part-000.jsonl", b"{}")
    code, out, _ = rehearse("--clean")
    assert (code, out) == (0, "Removed the remains of 1 rehearsal.\n")
    assert left(lake) == ([lake.table], 1)
    assert rehearse("--clean")[1] == "No table of a rehearsal was left.\n"


@pytest.mark.thorough
def test_records_of_other_tables_stay(lake: Lake, rehearse: Rehearse) -> None:
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.trips (ts Date) ENGINE = MergeTree PARTITION BY toYYYYMM(ts) ORDER BY ts"
    )
    lake.put("trips/2026-10/a.csv", b"ts\n2026-10-01\n")
    lake.load()
    lake.s3.delete_object(Bucket=lake.bucket, Key="trips/2026-10/a.csv")
    code, _, _ = rehearse()
    assert code == 0
    tables = lake.on_node(0, f"SELECT DISTINCT target_table FROM {lake.database}.chs3_ledger")
    assert tables == [("trips",)]


def test_digests_of_replicas_tell_rows_with_null_apart(lake: Lake) -> None:
    name, node = f"{lake.database}.{lake.table}", Node(1, 1, "host", 9000)
    lake.on_node(0, f"CREATE TABLE {name} (id UInt64, note Nullable(String)) ENGINE = MergeTree ORDER BY id")
    where = scratch.Where(target=TableName(lake.database, lake.table), cluster=lake.cluster.name, default_cluster=None)
    question = next(scratch.digests(where, [node]))
    digests = set()
    for number in (1, 2):
        lake.on_node(0, f"TRUNCATE TABLE {name}")
        lake.on_node(0, f"INSERT INTO {name} VALUES ({number}, NULL)")
        digests.add(lake.on_node(0, str(question.sql[node]))[0])
    assert len(digests) == 2
