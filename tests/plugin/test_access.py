"""Who may see the page: every route asks Airflow, whichever routes there are."""

from __future__ import annotations

import subprocess
import sys
from urllib.parse import unquote
from xml.etree.ElementTree import fromstring

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from airflow_provider_chs3.plugin.app import create_app
from airflow_provider_chs3.plugin.constants import URL_PREFIX
from airflow_provider_chs3.plugin.entry import Chs3Plugin
from tests.plugin.fixture_types import AsUser

ROUTES = create_app().routes
CALLS = [
    (method, URL_PREFIX + route.path.replace("{name}", "main.js"))
    for route in ROUTES
    if isinstance(route, APIRoute)
    for method in sorted(route.methods)
]


def test_there_is_nothing_but_routes_that_depend_on_a_right() -> None:
    assert [route for route in ROUTES if not isinstance(route, APIRoute)] == []
    assert len(CALLS) >= 3


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize(("method", "path"), CALLS)
def test_a_stranger_is_turned_away(airflow_api: FastAPI, method: str, path: str) -> None:
    assert TestClient(airflow_api).request(method, path).status_code == 401


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_so_is_a_user_without_the_right(as_user: AsUser, method: str, path: str) -> None:
    assert as_user(None).request(method, path).status_code == 403


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_a_viewer_is_not(as_user: AsUser, method: str, path: str) -> None:
    # 422 where it wants to know what to look at.
    assert as_user("viewer").request(method, path).status_code in (200, 422)


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json", "/", "/static/", "/static/..%2Fapp.py"])
def test_there_are_no_other_pages(as_user: AsUser, path: str) -> None:
    assert as_user("admin").get(URL_PREFIX + path).status_code in (404, 422)


def test_a_dag_that_the_user_may_not_read_is_refused(
    as_user: AsUser, airflow_api: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(airflow_api.state.auth_manager, "get_authorized_dag_ids", lambda **_: {"mine"})
    viewer = as_user("viewer")
    found = {dag: viewer.get(f"{URL_PREFIX}/api/periods", params={"dag_id": dag}) for dag in ("mine", "secret")}
    assert {dag: answer.status_code for dag, answer in found.items()} == {"mine": 200, "secret": 403}


@pytest.mark.parametrize(
    ("map_index", "status"), [("9" * 20, 422), ("-" + "9" * 20, 422), ("-1", 200), ("7", 200), ("{MAP_INDEX}", 200)]
)
def test_a_map_index_is_one_that_airflow_can_have(
    as_user: AsUser, airflow_api: FastAPI, monkeypatch: pytest.MonkeyPatch, map_index: str, status: int
) -> None:
    monkeypatch.setattr(airflow_api.state.auth_manager, "get_authorized_dag_ids", lambda **_: {"any"})
    place = {"dag_id": "any", "run_id": "any", "task_id": "any", "map_index": map_index}
    assert as_user("admin").get(f"{URL_PREFIX}/api/periods", params=place).status_code == status


@pytest.mark.parametrize("path", ["/static/main.js", "/api/periods"])
def test_an_answer_opened_by_itself_runs_nothing(as_user: AsUser, path: str) -> None:
    headers = as_user("viewer").get(URL_PREFIX + path).headers
    assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert headers["x-content-type-options"] == "nosniff"


def test_a_browser_keeps_the_pages_files_for_its_user_and_asks_whether_they_are_the_same(as_user: AsUser) -> None:
    viewer, path = as_user("viewer"), f"{URL_PREFIX}/static/main.js"
    first = viewer.get(path)
    assert first.headers["cache-control"] == "private, no-cache"
    again = viewer.get(path, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert viewer.get(path, headers={"If-None-Match": '"older"'}).content == first.content
    # Whoever may not see it is not told that it is the same, either.
    assert as_user(None).get(path, headers={"If-None-Match": first.headers["etag"]}).status_code == 403
    assert viewer.get(f"{URL_PREFIX}/api/periods").headers["cache-control"] == "no-store"


def test_airflow_finds_the_plugin_by_its_entry_point(as_user: AsUser) -> None:
    plugins = as_user("viewer").get("/api/v2/plugins", params={"limit": 100}).raise_for_status().json()["plugins"]
    (ours,) = [plugin for plugin in plugins if plugin["name"] == Chs3Plugin.name]
    assert [(app["destination"], app["url_route"]) for app in ours["react_apps"]] == [
        ("nav", "chs3-periods"),
        ("dag", "chs3-periods-of-dag"),
        ("dag_run", "chs3-periods-of-dag_run"),
        ("task", "chs3-periods-of-task"),
        ("task_instance", "chs3-periods-of-task_instance"),
    ]
    assert {app["bundle_url"] for app in ours["react_apps"]} == {"/chs3/static/main.js"}
    for icon in ("icon", "icon_dark_mode"):
        (address,) = {app[icon] for app in ours["react_apps"]}
        assert fromstring(unquote(address.removeprefix("data:image/svg+xml,"))).tag.endswith("svg")
    assert [each["url_prefix"] for each in ours["fastapi_apps"]] == [URL_PREFIX]


def test_what_airflow_loads_everywhere_imports_nothing_of_the_page() -> None:
    script = (
        "import sys, airflow.providers.common.compat.sdk as sdk; sdk.AirflowPlugin; before = set(sys.modules); "
        "import airflow_provider_chs3.plugin.entry; print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    package = "airflow_provider_chs3"
    ours = {package, f"{package}.plugin", f"{package}.plugin.constants", f"{package}.plugin.entry"}
    assert set(done.stdout.split()) - ours == set()


@pytest.mark.thorough
def test_in_airflow_310_nothing_leads_to_the_page() -> None:
    script = (
        "import airflow; airflow.__version__ = '3.1.0'\n"
        "from airflow_provider_chs3.plugin.entry import Chs3Plugin\n"
        "from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator as Load\n"
        "print(Chs3Plugin.react_apps, Load.operator_extra_links)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[-2] == "[] ()"
