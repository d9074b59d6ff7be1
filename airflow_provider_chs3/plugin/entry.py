"""The plugin that all of Airflow's processes load: it registers the page without importing it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from airflow.providers.common.compat.sdk import AirflowPlugin

from airflow_provider_chs3.plugin.constants import HAS_PAGE, NAVIGATION_ROUTE, URL_PREFIX

#: Airflow's pages that show their months → the query that Airflow fills in.
_DESTINATIONS = {
    "dag": "dag_id={DAG_ID}",
    "dag_run": "dag_id={DAG_ID}&run_id={RUN_ID}",
    "task": "dag_id={DAG_ID}&task_id={TASK_ID}",
    "task_instance": "dag_id={DAG_ID}&run_id={RUN_ID}&task_id={TASK_ID}&map_index={MAP_INDEX}",
}

_Message = MutableMapping[str, Any]


class LazyApp:
    """The page's app, created on the first request: workers and DAG processors load plugins, but never serve them."""

    async def __call__(
        self,
        scope: _Message,
        receive: Callable[[], Awaitable[_Message]],
        send: Callable[[_Message], Awaitable[None]],
    ) -> None:
        """Answer a request, as ASGI defines it."""
        from airflow_provider_chs3.plugin.app import the_app

        await the_app()(scope, receive, send)


def _views() -> list[dict[str, str]]:
    href = f"{URL_PREFIX[1:]}/"
    view = {"name": "ClickHouse months", "href": href}
    navigation = view | {"destination": "nav", "category": "browse", "url_route": NAVIGATION_ROUTE}
    return [
        navigation,
        *(
            view | {"href": f"{href}?{query}", "destination": place, "url_route": f"{NAVIGATION_ROUTE}-of-{place}"}
            for place, query in _DESTINATIONS.items()
        ),
    ]


class Chs3Plugin(AirflowPlugin):
    """The months of all loaded tables, in the navigation and on the pages of DAGs, runs and tasks."""

    name = "chs3"
    # Airflow adds its own base path to addresses that do not begin with a slash.
    fastapi_apps = [{"app": LazyApp(), "url_prefix": URL_PREFIX, "name": "ClickHouse loads"}]  # noqa: RUF012
    external_views = _views() if HAS_PAGE else []
