"""Retry statements that a server refuses because the user runs too many there."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TypeVar

from airflow_provider_chs3.core.model.error_codes import TOO_MANY_QUERIES
from airflow_provider_chs3.exceptions import ClickHouseServerError

T = TypeVar("T")

#: Seconds between two tries: a load's own concurrent statements take less than the sum.
_WAITS_SECONDS = (0.05, 0.1, 0.2, 0.4, *(0.8,) * 15)

_READS = re.compile(r"\s*(SELECT|DESCRIBE)\b", re.IGNORECASE)


def in_turn(run: Callable[[], T], sql: str) -> T:
    """Run a statement; if it is refused, retry for some 13 s.

    The initiating node refuses a statement before it starts. If another node refused its part, the rest may have run,
    so only reading statements are retried.

    Raises:
        ClickHouseServerError: If the server answers with another error, or still refuses it.
    """
    for seconds in _WAITS_SECONDS:
        try:
            return run()
        except ClickHouseServerError as error:
            is_whole = "Received from" not in error.message or _READS.match(sql)
            if error.code != TOO_MANY_QUERIES or not is_whole:
                raise
        time.sleep(seconds)
    return run()
