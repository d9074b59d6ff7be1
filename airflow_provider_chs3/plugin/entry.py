"""What Airflow loads in all of its processes: it names the page, and imports nothing of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from airflow.providers.common.compat.sdk import AirflowPlugin

#: Where the API server mounts the page.
URL_PREFIX = "/chs3"

_Message = MutableMapping[str, Any]


class LazyApp:
    """The page's app, made with the first request: workers and DAG processors load plugins, and never serve any."""

    async def __call__(
        self,
        scope: _Message,
        receive: Callable[[], Awaitable[_Message]],
        send: Callable[[_Message], Awaitable[None]],
    ) -> None:
        """Answer a request, as ASGI has it."""
        from airflow_provider_chs3.plugin.app import the_app

        await the_app()(scope, receive, send)


class Chs3Plugin(AirflowPlugin):
    """Shows the months of all tables that loads fill, in the navigation and on the pages of DAGs."""

    name = "chs3"
    # Airflow adds its own base path to addresses that do not begin with a slash.
    fastapi_apps = [{"app": LazyApp(), "url_prefix": URL_PREFIX, "name": "ClickHouse loads"}]  # noqa: RUF012
    external_views = [  # noqa: RUF012
        {
            "name": "ClickHouse months",
            "href": f"{URL_PREFIX[1:]}/",
            "destination": "nav",
            "category": "browse",
            "url_route": "chs3-months",
        },
        {
            "name": "ClickHouse months",
            "href": f"{URL_PREFIX[1:]}/?dag_id={{DAG_ID}}",
            "destination": "dag",
            "url_route": "chs3-months-of-dag",
        },
    ]
