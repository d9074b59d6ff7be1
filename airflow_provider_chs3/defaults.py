"""Defaults that hold for a whole Airflow: section `[chs3]` of its configuration."""

from __future__ import annotations

import math
from typing import Final

from airflow.providers.common.compat.sdk import conf

from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.get_provider_info import OPTIONS as _OPTIONS

_SECTION = "chs3"


def _conn_id(option: str) -> str:
    conn_id = str(conf.get(_SECTION, option, fallback=_OPTIONS[option]["default"])).strip()
    if not conn_id:
        raise ConfigurationError(f"[{_SECTION}] {option} is empty: set the id of a connection, or remove the option.")
    return conn_id


def _seconds(option: str) -> float:
    seconds = float(conf.getfloat(_SECTION, option, fallback=_OPTIONS[option]["default"]))
    if not 0 < seconds < math.inf:
        raise ConfigurationError(f"[{_SECTION}] {option} = {seconds:g}: set a number of seconds above 0.")
    return seconds


CLICKHOUSE_CONN_ID: Final = _conn_id("clickhouse_conn_id")
AWS_CONN_ID: Final = _conn_id("aws_conn_id")
PROGRESS_INTERVAL_SECONDS: Final = _seconds("progress_interval_seconds")
OPTIMIZE_POLL_INTERVAL_SECONDS: Final = _seconds("optimize_poll_interval_seconds")
PAGE_QUERY_TIMEOUT_SECONDS: Final = _seconds("page_query_timeout_seconds")
PAGE_CACHE_SECONDS: Final = _seconds("page_cache_seconds")
