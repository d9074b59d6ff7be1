"""Objects that are archived: refused at once, until they are restored."""

from __future__ import annotations

import time

import pytest

from airflow_provider_chs3.sources.s3.listing import ARCHIVES
from tests.integration.valued import AT, PREFIX, create, loaded, values
from tests.support.lake import Lake
from tests.support.refusal import refused

BODY = f"ts,n\n{AT},1\n".encode()


def put_archived(lake: Lake, name: str, storage_class: str, body: bytes = BODY) -> None:
    lake.s3.put_object(Bucket=lake.bucket, Key=f"{PREFIX}{name}", Body=body, StorageClass=storage_class)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("storage_class", ARCHIVES)
def test_they_are_refused_at_once(lake: Lake, storage_class: str) -> None:
    create(lake, "n Int8")
    lake.put(f"{PREFIX}a.csv", BODY)
    put_archived(lake, "b.csv", storage_class)
    started = time.monotonic()
    refused(lake, r"Cannot read s3://.*b\.csv .*: it is archived: restore the period's objects")
    assert time.monotonic() - started < 30


@pytest.mark.thorough
def test_other_classes_and_those_that_are_restored_are_read(lake: Lake) -> None:
    create(lake, "n Int8")
    for number, storage_class in enumerate(("INTELLIGENT_TIERING", "GLACIER_IR", "GLACIER")):
        put_archived(lake, f"{number}.csv", storage_class, f"ts,n\n{AT},{number}\n".encode())
    lake.s3.restore_object(Bucket=lake.bucket, Key=f"{PREFIX}2.csv", RestoreRequest={"Days": 1})
    lake.load()
    assert values(lake, "n") == [0, 1, 2]


@pytest.mark.thorough
def test_those_that_were_loaded_before_are_not_read_again(lake: Lake) -> None:
    create(lake, "n Int8")
    assert loaded(lake, "a.csv", BODY, "n") == [1]
    put_archived(lake, "a.csv", "GLACIER")
    assert lake.load()["status"] == "unchanged"
    lake.put(f"{PREFIX}b.csv", BODY)
    assert lake.load()["loaded_objects"] == 1
