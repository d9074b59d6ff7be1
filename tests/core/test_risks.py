"""Room on disk, and what hangs on the target."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from airflow_provider_chs3.core.models import Manifest, Month, S3Object
from airflow_provider_chs3.core.request import Policies
from airflow_provider_chs3.core.risks import look_for_risks
from airflow_provider_chs3.exceptions import PreflightError
from tests.core.surroundings import ONE, THREE, TWO, surroundings

ROOMY = ([("default", "Local", 10**9)], [])


def load(size_bytes: int = 3_000, write_mode: str = "replace"):
    manifest = Manifest((S3Object("b/k", size_bytes, "e", datetime(2026, 10, 1, tzinfo=UTC)),))
    return SimpleNamespace(
        around=surroundings(),
        files=SimpleNamespace(manifest=manifest),
        request=SimpleNamespace(month=Month(2026, 10), policies=Policies(write_mode=write_mode)),
    )


def said(answer, **options):
    steps = look_for_risks(load(**options))
    next(steps)
    remarks = []
    try:
        step = steps.send(answer)
        while True:
            remarks.append(step.name)
            step = next(steps)
    except StopIteration:
        return remarks


def test_with_room_and_nothing_special_nothing_is_said():
    assert said({ONE: [ROOMY], TWO: [ROOMY], THREE: [ROOMY]}) == []


@pytest.mark.parametrize("free", [0, 999])
def test_a_node_without_room_for_its_part_is_refused_with_disk_and_bytes(free):
    tight = ([("fast", "Local", free)], [])
    with pytest.raises(PreflightError, match=rf"ch-2:9000 has {free} bytes free on fast, .* about 1,000 bytes"):
        said({ONE: [ROOMY], TWO: [tight], THREE: [ROOMY]})


def test_the_disks_of_a_node_are_added_up():
    two = ([("a", "Local", 600), ("b", "Local", 600)], [])
    assert said({ONE: [two], TWO: [two], THREE: [two]}) == []


def test_views_are_named_once():
    viewed = (ROOMY[0], ["db.v"])
    (remark,) = said({ONE: [viewed], TWO: [viewed], THREE: [ROOMY]})
    assert remark.startswith("db.v read from db.trips, but see no rows of 2026-10")


def test_an_append_is_seen_by_views():
    viewed = (ROOMY[0], ["db.v"])
    assert said({ONE: [viewed], TWO: [viewed], THREE: [viewed]}, write_mode="append") == []


def test_disks_that_are_not_local_are_told():
    remote = ([("s3disk", "ObjectStorage", 10**15)], [])
    (remark,) = said({ONE: [remote], TWO: [ROOMY], THREE: [ROOMY]})
    assert "lies on s3disk" in remark
