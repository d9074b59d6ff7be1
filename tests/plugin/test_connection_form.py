"""The connection's form in Airflow's UI: it shows every field, saves what is given, and its button tests it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from airflow.models import Connection
from airflow.utils.session import create_session
from sqlalchemy import delete

from airflow_provider_chs3.client.connection import ConnectionOptions
from airflow_provider_chs3.get_provider_info import get_provider_info
from tests.support.browsing import keep

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from airflow_provider_chs3.testbed.nodes import Cluster

CONN_ID = "by_form"


@pytest.fixture
def page(
    monkeypatch: pytest.MonkeyPatch, airflow_api: object, open_page: Callable[..., tuple[Page, list[str]]]
) -> Iterator[Page]:
    monkeypatch.setenv("AIRFLOW__CORE__TEST_CONNECTION", "Enabled")
    page, _ = open_page("/connections", role="admin")
    yield page
    with create_session() as session:
        session.execute(delete(Connection).where(Connection.conn_id == CONN_ID))


def test_it_is_filled_in_saved_and_tested(page: Page, chs3_cluster: Cluster) -> None:
    given = chs3_cluster.airflow_connection()
    page.get_by_role("button", name="Add Connection").click()
    form = page.get_by_role("dialog")
    page.get_by_role("combobox").first.click()
    page.keyboard.type("S3 loads")
    page.get_by_role("option", name="ClickHouse (S3 loads)").click()
    form.locator("[name=connection_id]").fill(CONN_ID)
    # Airflow's fields go by what this provider calls them.
    for label, name in (("Host", "host"), ("User", "login"), ("Native port", "port")):
        form.get_by_label(label, exact=True).fill(str(given[name]))
    form.locator("[name=password]").fill(given["password"])
    page.get_by_role("button", name="Extra Fields", exact=True).click()
    for field in get_provider_info()["connection-types"][0]["conn-fields"].values():  # type: ignore[index]
        form.get_by_text(field["label"], exact=True).wait_for()
    form.locator("[name=element_cluster]").fill("chs3")
    keep(page, "connection-form")
    page.get_by_role("button", name="Save", exact=True).click()
    with page.expect_response("**/connections/test") as answered:
        page.get_by_role("button", name="Test Connection").click()

    stored = Connection.get_connection_from_secrets(CONN_ID)
    options = ConnectionOptions.from_airflow(stored)
    assert (options.hosts, options.password) == (((given["host"], given["port"]),), given["password"])
    assert (options.cluster, options.compression, options.verify) == ("chs3", "lz4", True)
    said = answered.value.json()
    assert said["status"], said
    assert "is ClickHouse" in said["message"]
