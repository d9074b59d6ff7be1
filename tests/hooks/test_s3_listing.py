"""The worker's listing of S3."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.session import Session as BotocoreSession

from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.steps.operations import ReadBytes
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.sources.s3.client import parse_time
from airflow_provider_chs3.sources.s3.listing import S3Listing
from airflow_provider_chs3.sources.side_by_side import AT_ONCE


def test_times_are_read_without_botocores_guessing(
    chs3_airflow_connections: None, chs3_s3: Any, chs3_bucket: str
) -> None:
    def guess(value: Any) -> None:
        raise AssertionError(f"guessed at {value!r}")

    before = datetime.now(UTC) - timedelta(seconds=2)
    chs3_s3.client().put_object(Bucket=chs3_bucket, Key="trips/1.parquet", Body=b"x")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("botocore.parsers.DEFAULT_TIMESTAMP_PARSER", guess)
        (listed,) = S3Listing("aws_default").objects(chs3_bucket, "trips/")
    assert (listed.path, listed.size_bytes) == (f"{chs3_bucket}/trips/1.parquet", 1)
    assert before < listed.last_modified < datetime.now(UTC) + timedelta(seconds=2)


@pytest.mark.parametrize(("given", "kept"), [({}, AT_ONCE), ({"max_pool_connections": 50}, 50)])
def test_requests_that_run_at_once_each_keep_a_connection(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], kept: int
) -> None:
    extra = {"region_name": "eu-west-1", "config_kwargs": given}
    connection = {"conn_type": "aws", "login": "a key id", "password": "its secret", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_AWS_POOL", json.dumps(connection))
    client = S3Listing("aws_pool")._client
    assert (client.meta.config.max_pool_connections, client.meta.region_name) == (kept, "eu-west-1")


def test_a_client_names_its_operator_to_aws_without_a_look_at_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    class LoadOperator:
        def execute(self) -> Any:
            return S3Listing("aws_caller")._client

    def stack() -> None:
        raise AssertionError("looked at the sources of all frames")

    connection = {
        "conn_type": "aws",
        "login": "a key id",
        "password": "its secret",
        "extra": {"region_name": "eu-west-1"},
    }
    monkeypatch.setenv("AIRFLOW_CONN_AWS_CALLER", json.dumps(connection))
    monkeypatch.setattr("inspect.stack", stack)
    assert "Caller/LoadOperator " in LoadOperator().execute().meta.config.user_agent_extra


def test_client_and_keys_come_from_one_session(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = {
        "conn_type": "aws",
        "login": "a key id",
        "password": "a secret",
        "extra": {"region_name": "eu-west-1"},
    }
    monkeypatch.setenv("AIRFLOW_CONN_AWS_ONCE", json.dumps(connection))
    made: list[None] = []
    begin = BotocoreSession.__init__

    def counted(*args: Any, **kwargs: Any) -> None:
        made.append(None)
        begin(*args, **kwargs)

    monkeypatch.setattr(BotocoreSession, "__init__", counted)
    keys, endpoint_url = S3Listing("aws_once").access()
    assert (keys.access_key_id, keys.secret_access_key, endpoint_url) == (
        "a key id",
        "a secret",
        "https://s3.eu-west-1.amazonaws.com",
    )
    assert len(made) == 1


@pytest.mark.parametrize(("conn_id", "told"), [("aws_empty", "has no keys"), ("gcs_hmac_default", "does not exist")])
def test_a_connection_without_keys_is_told_from_a_missing_one(
    chs3_airflow_connections: None, monkeypatch: pytest.MonkeyPatch, conn_id: str, told: str
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AIRFLOW_CONN_AWS_EMPTY", json.dumps({"conn_type": "aws"}))
    with pytest.raises(ConfigurationError, match=f"AWS connection '{conn_id}' {told}, and nothing else"):
        S3Listing(conn_id).access()


@pytest.mark.parametrize(
    "text", ["2026-10-01T12:00:00.000Z", "2026-10-01T12:00:00Z", "Thu, 01 Oct 2026 12:00:00 GMT", "1790856000"]
)
def test_a_time_is_the_same_however_it_is_written(text: str) -> None:
    assert parse_time(text) == datetime(2026, 10, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("connections", [1, 3])
def test_parts_that_several_requests_read_come_in_their_order(
    chs3_airflow_connections: None, chs3_s3: Any, chs3_bucket: str, connections: int
) -> None:
    body = random.Random(1).randbytes(9 * 1024**2)
    chs3_s3.client().put_object(Bucket=chs3_bucket, Key="trips/1.csv.zst", Body=body)
    hook = ClickHouseHook("chs3_default")
    runner = Runner(session=hook, listing=S3Listing("aws_default"), log=hook.log, progress_interval_seconds=1)
    asked = {"bucket": chs3_bucket, "key": "trips/1.csv.zst", "connections": connections}
    for start, length in ((0, len(body)), (5, 4096), (4 * 1024**2 - 1, 4 * 1024**2 + 2)):
        pieces = runner.perform(ReadBytes(name="Read", start=start, length=length, **asked))
        assert b"".join(pieces) == body[start : start + length]
    some = runner.perform(ReadBytes(name="Read", start=0, length=len(body), **asked))
    assert next(some) == body[: 4 * 1024**2]
    some.close()
