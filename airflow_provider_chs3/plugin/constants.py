"""The constants that the page and the tasks that link to it share."""

from __future__ import annotations

from airflow import __version__

#: Where the API server mounts the page.
URL_PREFIX = "/chs3"
#: The page in the navigation of Airflow's UI.
NAVIGATION_ROUTE = "chs3-months"
#: XCom of tasks that are about months: their address on the page.
LINK_KEY = "chs3_months_page"
#: XCom of plans: their results.
PLAN_KEY = "chs3_plan"
#: XCom of loads: their insert, without credentials, as soon as it is sent.
SQL_KEY = "insert_sql"

#: Up to Airflow 3.2, the UI logs in without a cookie: its import of the page's script has no user.
HAS_PAGE = tuple(int(number) for number in __version__.split(".")[:2]) >= (3, 3)
