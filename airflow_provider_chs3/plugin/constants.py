"""The constants that the page and the tasks that link to it share."""

from __future__ import annotations

from urllib.parse import urlsplit

from airflow import __version__
from airflow.providers.common.compat.sdk import conf

#: Where the API server mounts the page.
URL_PREFIX = "/chs3"
#: The page in the navigation of Airflow's UI.
NAVIGATION_ROUTE = "chs3-periods"
#: XCom of tasks that are about periods: their address on the page.
LINK_KEY = "chs3_periods_page"
#: XCom of plans: their results.
PLAN_KEY = "chs3_plan"
#: XCom of proofs: what they found of each period.
PROOF_KEY = "chs3_proof"
#: XCom of loads: their insert, without credentials, as soon as it is sent.
SQL_KEY = "insert_sql"

#: The operators that plan and load periods, as Airflow's database names them.
LOADERS = (
    "PlanLoadsOperator",
    "S3ToClickHouseOperator",
    "AzureBlobToClickHouseOperator",
    "GCSToClickHouseOperator",
    "HdfsToClickHouseOperator",
    "IcebergToClickHouseOperator",
    "DeltaToClickHouseOperator",
    "PostgresToClickHouseOperator",
    "MySqlToClickHouseOperator",
    "ClickHouseToClickHouseOperator",
)

#: In Airflow 3.1.0, the UI logs in without a cookie: its import of the page's script has no user.
HAS_PAGE = not __version__.startswith("3.1.0")


def base_path() -> str:
    """Return the path under which Airflow is served, from `[api] base_url`; empty at the root of its host."""
    return urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")
