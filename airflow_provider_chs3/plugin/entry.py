"""The plugin that all of Airflow's processes load: it registers the page without importing it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from airflow.providers.common.compat.sdk import AirflowPlugin

from airflow_provider_chs3.plugin.constants import HAS_PAGE, NAVIGATION_ROUTE, URL_PREFIX, base_path

#: Where Airflow's UI shows the page: in the navigation, and as a tab of DAGs, runs and tasks.
_TABS = ("dag", "dag_run", "task", "task_instance")

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


def _react_apps() -> list[dict[str, str]]:
    # Before 3.3, browsers take an address without a slash for the name of a module.
    app = {"name": "ClickHouse loads", "bundle_url": f"{base_path()}{URL_PREFIX}/static/main.js"}
    navigation = app | {"destination": "nav", "category": "browse", "url_route": NAVIGATION_ROUTE}
    tabs = [app | {"destination": tab, "url_route": f"{NAVIGATION_ROUTE}-of-{tab}"} for tab in _TABS]
    return [navigation, *tabs]


class Chs3Plugin(AirflowPlugin):
    """The periods of all loaded tables, in the navigation and on the pages of DAGs, runs and tasks."""

    name = "chs3"
    fastapi_apps = [{"app": LazyApp(), "url_prefix": URL_PREFIX, "name": "ClickHouse loads"}]  # noqa: RUF012
    react_apps = _react_apps() if HAS_PAGE else []
