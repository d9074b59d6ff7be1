"""Airflow's API server in the test's process, with the plugin as Airflow finds it, and people who log in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.nodes import Cluster
from airflow_provider_chs3.testbed.s3 import S3Endpoint
from tests.integration.conftest import lake, trips_lake
from tests.support.browsing import browser, open_page, url
from tests.support.few_nodes import cluster_for
from tests.support.lake import Lake, lake_on
from tests.support.narrow_user import WITH_NARROW_USER

#: Fixtures.
__all__ = ["browser", "lake", "open_page", "trips_lake", "url"]


@pytest.fixture(scope="session")
def airflow_api(airflow_db: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    """The API server's app, with Airflow's SimpleAuthManager."""
    from airflow.api_fastapi.app import create_app

    with pytest.MonkeyPatch.context() as patch:
        secret = "only for these tests, and long enough for HS512: 0123456789012345678901234567"
        patch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", secret)
        patch.setenv("AIRFLOW__API_AUTH__JWT_ISSUER", "tests")
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", "admin:admin,viewer:viewer,nobody:")
        passwords = tmp_path_factory.mktemp("airflow") / "passwords.json"
        passwords.write_text(json.dumps({name: f"{name}'s password" for name in ("admin", "viewer", "nobody")}))
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE", str(passwords))
        yield create_app(apps="core")


@pytest.fixture
def cluster_of_test(request: pytest.FixtureRequest) -> Cluster:
    """One node, unless a test or its module is marked `three_nodes`."""
    return cluster_for(request)


@pytest.fixture
def own_cluster() -> Iterator[ClickHouseCluster]:
    """Two nodes that may be killed."""
    with ClickHouseCluster.start(2, **WITH_NARROW_USER) as cluster:
        yield cluster


@pytest.fixture
def own_lake(
    own_cluster: ClickHouseCluster, chs3_s3: S3Endpoint, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lake]:
    """An empty lake on these two."""
    with lake_on(own_cluster, chs3_s3, chs3_bucket, monkeypatch) as lake:
        yield lake


@pytest.fixture
def fresh_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks are not shared, with earlier tests neither."""
    from airflow_provider_chs3.plugin import app

    monkeypatch.setattr(app, "PAGE_CACHE_SECONDS", 0)
    app.the_app.cache_clear()


@pytest.fixture
def as_user(airflow_api: FastAPI, fresh_looks: None) -> Callable[[str | None], TestClient]:
    """A client of somebody with a role; None is somebody who has logged in and may do nothing."""
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    def client(role: str | None) -> TestClient:
        token = airflow_api.state.auth_manager.generate_jwt(SimpleAuthManagerUser(username=str(role), role=role))
        return TestClient(airflow_api, headers={"Authorization": f"Bearer {token}"})

    return client
