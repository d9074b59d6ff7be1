"""Iceberg tables are found in each catalog: with the least rights, and without a secret in sight."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.testbed.nodes import Cluster
from airflow_provider_chs3.testbed.programs.packages import started_or_skip
from airflow_provider_chs3.testbed.s3 import S3Endpoint
from airflow_provider_chs3.testbed.trips import Trips
from tests.sources.iceberg_rest import IcebergRestServer
from tests.sources.lakehouses import IcebergTable
from tests.sources.objects import S3Objects
from tests.sources.row_deltas import data_files, delete_by_position
from tests.sources.table_lake import TableLake
from tests.sources.trips_target import PERIOD

TRIPS = Trips(rows_per_period=2_000)
#: The rights that a worker needs in Glue, and worker and servers in S3.
LEAST_RIGHTS = ("glue:GetTable", "s3:GetObject", "s3:ListBucket")
#: Codes of AWS, and what is said of them.
AWS_ERRORS = {
    "AccessDeniedException": "denies access",
    "UnrecognizedClientException": "refuses the keys",
    "ExpiredTokenException": "session token has expired",
}


class GlueTable(IcebergTable):
    """In the catalog of AWS Glue, as moto has it."""

    def catalog(self) -> Any:
        from pyiceberg.catalog.glue import GlueCatalog

        server = self.s3
        keys = {"glue.access-key-id": server.access_key, "glue.secret-access-key": server.secret_key}
        place = {"glue.endpoint": server.endpoint_url, "glue.region": server.region}
        return GlueCatalog("chs3", **keys, **place, **self.s3_properties)

    @property
    def connection(self) -> dict[str, Any]:
        return {"conn_type": "iceberg", "extra": {"type": "glue", "glue.endpoint": self.s3.endpoint_url}}


@dataclass(frozen=True)
class RestTable(IcebergTable):
    """In a REST catalog."""

    server: IcebergRestServer

    def catalog(self) -> Any:
        from pyiceberg.catalog.rest import RestCatalog

        return RestCatalog("chs3", uri=self.server.url, credential="writer:w", **self.s3_properties)

    @property
    def connection(self) -> dict[str, Any]:
        return self.server.airflow_connection()


@pytest.fixture(scope="module")
def rest_catalog(chs3_s3: S3Endpoint) -> Iterator[IcebergRestServer]:
    with started_or_skip(lambda: IcebergRestServer.start(chs3_s3, S3Objects.create(chs3_s3).bucket)) as server:
        yield server


@contextmanager
def filled(
    table: IcebergTable, cluster: Cluster, database: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TableLake]:
    """A lake with a period of trips; the table is dropped at the end, as all buckets share the catalog."""
    table.put(TRIPS.table(PERIOD))
    try:
        yield TableLake.create(table, cluster, database, monkeypatch)
    finally:
        table.catalog().drop_table("lake.trips")


@pytest.fixture
def glue_lake(
    chs3_s3: S3Endpoint, chs3_cluster: Cluster, chs3_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TableLake]:
    """A period of trips in a table of Glue."""
    table = GlueTable(chs3_s3, S3Objects.create(chs3_s3).bucket, tmp_path)
    with filled(table, chs3_cluster, chs3_database, monkeypatch) as lake:
        yield lake


@pytest.fixture
def rest_lake(
    rest_catalog: IcebergRestServer,
    chs3_s3: S3Endpoint,
    chs3_cluster: Cluster,
    chs3_database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[TableLake]:
    """A period of trips in a table of a REST catalog."""
    table = RestTable(chs3_s3, S3Objects.create(chs3_s3).bucket, tmp_path, rest_catalog)
    with filled(table, chs3_cluster, chs3_database, monkeypatch) as lake:
        yield lake


@pytest.fixture(params=["glue", "rest"])
def lake(request: pytest.FixtureRequest) -> TableLake:
    """A period of trips in a table of each catalog."""
    found: TableLake = request.getfixturevalue(f"{request.param}_lake")
    return found


@pytest.mark.thorough(but=1)
def test_a_period_is_loaded_and_then_what_was_committed_since_and_no_secret_shows(
    lake: TableLake, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    operator = lake.operator()
    caplog.clear()
    assert operator.execute({})["status"] == "published"
    shown = f"{caplog.text}{operator.insert_sql}{vars(operator)}{operator.store.source(operator.store.listing())!r}"
    assert lake.table.s3.secret_key not in shown
    assert "rest-secret" not in shown
    assert lake.facts() == TRIPS.facts(PERIOD)
    assert lake.load()["status"] == "unchanged"
    (file,) = data_files(lake.table.table())
    delete_by_position(lake.table.table(), {file.file_path: [0, 1_999]})
    assert lake.load()["rows"] == 1_998


def test_what_glue_does_not_have_or_refuses_is_told(glue_lake: TableLake, monkeypatch: pytest.MonkeyPatch) -> None:
    from botocore.exceptions import ClientError
    from pyiceberg.catalog.glue import GlueCatalog

    wrong = glue_lake.objects
    wrong.table = "lake.trip"
    with pytest.raises(AirflowFailException, match=r"Cannot list lake\.trip .*: there is no such table"):
        glue_lake.load(objects=wrong)
    for code, said in AWS_ERRORS.items():

        def refuse(self: GlueCatalog, name: object, code: str = code) -> None:
            raise ClientError({"Error": {"Code": code, "Message": "arn of somebody"}}, "GetTable")

        with monkeypatch.context() as during:
            during.setattr(GlueCatalog, "load_table", refuse)
            with pytest.raises(AirflowFailException, match=said) as failed:
                glue_lake.load()
        assert "arn of somebody" not in str(failed.value)
    wrong_keys = glue_lake.table.s3.airflow_connection() | {"password": "not-the-secret-of-this-user"}
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps(wrong_keys))
    with pytest.raises(AirflowFailException, match="the catalog denies access: check the keys"):
        glue_lake.load()


def loader_of(s3: S3Endpoint, *actions: str) -> S3Endpoint:
    """A user of AWS who may do this alone."""
    iam, name = s3.client("iam"), f"loader-{len(actions)}"
    iam.create_user(UserName=name)
    rights = [{"Effect": "Allow", "Action": action, "Resource": "*"} for action in actions]
    document = json.dumps({"Version": "2012-10-17", "Statement": rights})
    iam.put_user_policy(UserName=name, PolicyName="load", PolicyDocument=document)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return replace(s3, access_key=key["AccessKeyId"], secret_key=key["SecretAccessKey"])


@pytest.mark.thorough
def test_glue_needs_no_more_rights_than_documented(glue_lake: TableLake, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = loader_of(glue_lake.table.s3, *LEAST_RIGHTS)
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps(allowed.airflow_connection()))
    glue_lake.load()
    assert glue_lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
def test_a_right_of_glue_that_is_missing_is_told(glue_lake: TableLake, monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = loader_of(glue_lake.table.s3, *LEAST_RIGHTS[1:])
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps(lacking.airflow_connection()))
    with pytest.raises(AirflowFailException, match=r"the catalog denies access: .*glue:GetTable"):
        glue_lake.load()


@pytest.mark.thorough
def test_a_rest_catalog_takes_the_properties_of_its_own_authentication(
    rest_lake: TableLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = rest_lake.table.connection["host"]
    auth = {"type": "basic", "basic": {"username": "loader", "password": "rest-secret"}}
    connection = {"conn_type": "iceberg", "extra": {"type": "rest", "uri": url, "auth": auth}}
    monkeypatch.setenv("AIRFLOW_CONN_ICEBERG_DEFAULT", json.dumps(connection))
    rest_lake.load()
    assert rest_lake.facts() == TRIPS.facts(PERIOD)


def test_a_rest_catalog_that_does_not_answer_is_tried_again(
    glue_lake: TableLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = {"conn_type": "iceberg", "host": "http://127.0.0.1:1", "login": "loader", "password": "rest-secret"}
    monkeypatch.setenv("AIRFLOW_CONN_ICEBERG_DEFAULT", json.dumps(nobody))
    with pytest.raises(Exception, match=r"Cannot list lake\.trips .*: ConnectionError") as failed:
        glue_lake.load(retries=0)
    assert not isinstance(failed.value, AirflowFailException)
    assert "rest-secret" not in f"{failed.value!r}{failed.value.__cause__!r}"


class NamedTable(IcebergTable):
    """In a SQL catalog that has a name of its own."""

    def catalog(self) -> Any:
        from pyiceberg.catalog.sql import SqlCatalog

        return SqlCatalog("prod", uri=f"sqlite:///{self.folder}/catalog.db", **self.s3_properties)


def test_a_sql_catalog_is_told_by_its_name(
    chs3_s3: S3Endpoint, chs3_cluster: Cluster, chs3_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = NamedTable(chs3_s3, S3Objects.create(chs3_s3).bucket, tmp_path)
    with filled(table, chs3_cluster, chs3_database, monkeypatch) as lake:
        with pytest.raises(AirflowFailException, match=r"there is no such table\. A SQL catalog .* catalog_name"):
            lake.load()
        _name_catalog(lake, monkeypatch, name="prod")
        with pytest.raises(AirflowFailException, match=r"has 'name'.* set the catalog's name as catalog_name"):
            lake.load()
        _name_catalog(lake, monkeypatch, catalog_name="prod")
        lake.load()
        assert lake.facts() == TRIPS.facts(PERIOD)


def _name_catalog(lake: TableLake, monkeypatch: pytest.MonkeyPatch, **more: str) -> None:
    given = lake.table.connection
    named = json.dumps(given | {"extra": given["extra"] | more})
    monkeypatch.setenv("AIRFLOW_CONN_ICEBERG_DEFAULT", named)
