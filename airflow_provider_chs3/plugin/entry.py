"""The plugin that all of Airflow's processes load: it registers the page without importing it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import quote

from airflow.providers.common.compat.sdk import AirflowPlugin

from airflow_provider_chs3.plugin.constants import HAS_PAGE, NAVIGATION_ROUTE, URL_PREFIX, base_path

#: Where Airflow's UI shows the page: in the navigation, and as a tab of DAGs, runs and tasks.
_TABS = ("dag", "dag_run", "task", "task_instance")
#: A strip of periods for each of two tables, as on the page; the newest is loading.
_ICON = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24' fill='none' stroke='{colour}' stroke-width='1.5'>"
    "<path d='M3 4h4v6H3zM10 4h4v6h-4zM17 4h4v6h-4zM3 14h4v6H3zM10 14h4v6h-4z'/>"
    "<path d='M17 14h4v6h-4z' fill='{colour}'/></svg>"
)

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
    app = {
        "name": "ClickHouse loads",
        "bundle_url": f"{base_path()}{URL_PREFIX}/static/main.js",
        "icon": _icon(colour="#334155"),
        "icon_dark_mode": _icon(colour="#cbd5e1"),
    }
    navigation = app | {"destination": "nav", "category": "browse", "url_route": NAVIGATION_ROUTE}
    tabs = [app | {"destination": tab, "url_route": f"{NAVIGATION_ROUTE}-of-{tab}"} for tab in _TABS]
    return [navigation, *tabs]


def _icon(*, colour: str) -> str:
    # An image does not take the colour of the text beside it.
    return f"data:image/svg+xml,{quote(_ICON.format(colour=colour))}"


class Chs3Plugin(AirflowPlugin):
    """The periods of all loaded tables, in the navigation and on the pages of DAGs, runs and tasks."""

    name = "chs3"
    fastapi_apps = [{"app": LazyApp(), "url_prefix": URL_PREFIX, "name": "ClickHouse loads"}]  # noqa: RUF012
    react_apps = _react_apps() if HAS_PAGE else []
