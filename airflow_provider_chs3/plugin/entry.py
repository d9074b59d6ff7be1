"""What Airflow loads in all of its processes: it names the page, and imports nothing of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from airflow import __version__
from airflow.providers.common.compat.sdk import AirflowPlugin

#: Where the API server mounts the page.
URL_PREFIX = "/chs3"
#: The page in the navigation of Airflow's UI.
NAVIGATION_ROUTE = "chs3-months"
#: XCom of tasks that are about months: their address on the page.
LINK_KEY = "chs3_months_page"
#: XCom of plans: what they found.
PLAN_KEY = "chs3_plan"

#: Up to Airflow 3.2 the UI logs in without a cookie, so that a page in a frame is nobody's.
HAS_PAGE = tuple(int(number) for number in __version__.split(".")[:2]) >= (3, 3)

#: Where Airflow shows the months that have to do with what is looked at → what it fills in.
_DESTINATIONS = {
    "dag": "dag_id={DAG_ID}",
    "dag_run": "dag_id={DAG_ID}&run_id={RUN_ID}",
    "task": "dag_id={DAG_ID}&task_id={TASK_ID}",
    "task_instance": "dag_id={DAG_ID}&run_id={RUN_ID}&task_id={TASK_ID}&map_index={MAP_INDEX}",
}

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
    """Shows the months of all tables that loads fill: in the navigation, and on the pages of DAGs, runs and tasks."""

    name = "chs3"
    # Airflow adds its own base path to addresses that do not begin with a slash.
    fastapi_apps = [{"app": LazyApp(), "url_prefix": URL_PREFIX, "name": "ClickHouse loads"}]  # noqa: RUF012
    external_views = _views() if HAS_PAGE else []
