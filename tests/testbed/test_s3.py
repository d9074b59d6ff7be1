"""The local S3 server refuses whom S3 refuses, and is shared by boto3, ClickHouse and Airflow."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.testbed.s3 import S3Server


def test_boto3_refuses_a_wrong_secret(chs3_s3, chs3_bucket):
    from botocore.exceptions import ClientError

    stranger = chs3_s3.client(aws_secret_access_key="wrong")
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        stranger.list_objects_v2(Bucket=chs3_bucket)


def test_clickhouse_is_refused_with_a_wrong_secret(chs3_cluster, chs3_s3, chs3_bucket):
    from clickhouse_driver.errors import ServerException

    with chs3_cluster.nodes[0].client() as client, pytest.raises(ServerException) as caught:
        client.execute(
            f"SELECT * FROM s3('{chs3_s3.endpoint_url}/{chs3_bucket}/*', '{chs3_s3.access_key}', 'wrong', 'One')"
        )
    assert caught.value.code == 499


def test_airflows_s3_hook_finds_the_server(chs3_airflow_connections, chs3_s3, chs3_bucket):
    from airflow.providers.amazon.aws.hooks.s3 import S3Hook

    chs3_s3.client().put_object(Bucket=chs3_bucket, Key="a/b.txt", Body=b"x")
    assert S3Hook().list_keys(bucket_name=chs3_bucket, prefix="a/") == ["a/b.txt"]


def test_the_anonymous_server_shows_public_objects_without_keys(chs3_cluster):
    with S3Server.start(anonymous=True) as server:
        server.client().create_bucket(Bucket="public")
        server.client().put_object(Bucket="public", Key="a.csv", Body=b"42\n", ACL="public-read")
        with chs3_cluster.nodes[0].client() as client:
            url = f"{server.endpoint_url}/public/*.csv"
            assert client.execute(f"SELECT * FROM s3('{url}', NOSIGN, 'CSV', 'a UInt8')") == [(42,)]


def test_nothing_is_left_after_stop():
    with S3Server.start() as server:
        pass
    assert server.process.poll() is not None
    assert not server.folder.exists()
