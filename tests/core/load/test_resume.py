"""The record of an insert that another process may resume."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_chs3.core.files.file_set import Reading
from airflow_provider_chs3.core.files.loaded_columns import FileGroup, LoadedColumn
from airflow_provider_chs3.core.load.end_on_request import StopRequest
from airflow_provider_chs3.core.load.period_load import InsertPlan
from airflow_provider_chs3.core.load.resume import RecordedPeriod
from airflow_provider_chs3.core.model.models import Manifest, Setting, TableName, Unit
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.target.table_facts import Column
from airflow_provider_chs3.exceptions import ObjectsChangedError

AT = datetime(2026, 11, 1, 12, 0, 0, 123456, tzinfo=UTC)
PLAN = InsertPlan(
    reading=Reading(
        groups=(
            FileGroup(
                types={"it's": "Nullable(Int64)", "ü": "String"},
                loaded=(
                    LoadedColumn(Column("it's", "UInt8", default_kind="DEFAULT"), "`it\\'s` + 1", "Nullable(Int64)"),
                ),
                defaults={"ü": "'x'"},
            ),
            FileGroup(types={}, loaded=(), paths=frozenset({"b/2026-10/b"})),
        ),
        rows=7,
        names=("it's", "ü"),
    ),
    settings=(Setting("max_threads", 2, "all 2 cores read"),),
    memory_bytes=10,
    memory_steps=1,
)


def s3_object(name: str, *, seconds: int = 0, etag: str = "e") -> Unit:
    return Unit(f"b/2026-10/{name}", size_bytes=1, version=etag, last_modified=AT + timedelta(seconds=seconds))


LOADED = Manifest.of([s3_object("a", seconds=-5), s3_object("b")])


def recorded() -> RecordedPeriod:
    return RecordedPeriod(
        fingerprint=LOADED.fingerprint,
        newest=AT,
        before={},
        reason="never loaded",
        held_because="",
        increment=None,
        records={},
    )


def test_a_plan_survives_its_record() -> None:
    reading = json.loads(json.dumps(PLAN.reading.as_json()))
    numbers = {"memory_bytes": PLAN.memory_bytes, "memory_steps": PLAN.memory_steps}
    assert InsertPlan.of_record(reading, PLAN.settings_as_json, **numbers) == PLAN


def test_what_is_to_be_stopped_survives_json_but_for_the_default_cluster() -> None:
    request = StopRequest(
        target=TableName("d", "t"),
        periods=(Period.of_month(2026, 10), Period.of_month(2026, 11)),
        nonce="n",
        cluster=None,
        default_cluster="c",
        staging_database="s",
        owner='["dag"]',
    )
    values = json.loads(json.dumps(request.as_json()))
    assert StopRequest.of_json(values, default_cluster="other") == replace(request, default_cluster="other")


def test_objects_that_came_later_are_left_out() -> None:
    listed = Manifest.of([*LOADED.objects, s3_object("c", seconds=1)])
    assert recorded().manifest_in(listed) == LOADED


@pytest.mark.parametrize(
    "listed",
    [
        pytest.param([s3_object("a", seconds=-5)], id="deleted"),
        pytest.param([s3_object("a", seconds=-5), s3_object("b", seconds=1, etag="f")], id="overwritten"),
        pytest.param([*LOADED.objects, s3_object("c", seconds=-1)], id="one that says it is older"),
    ],
)
def test_any_other_change_is_one(listed: list[Unit]) -> None:
    with pytest.raises(ObjectsChangedError, match="changed while they were loaded"):
        recorded().manifest_in(Manifest.of(listed))
