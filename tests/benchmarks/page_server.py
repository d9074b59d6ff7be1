"""A process that has Airflow's API server with the page, and measures its answer about all periods.

    python -m tests.benchmarks.page_server '<Look as JSON>'

Nothing is shared between two answers, as if somebody opened the page after a while.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.benchmarks.rounds import Figures, measure_in_turns

FIRST_STATEMENTS, FIRST = "statements of the first answer alone, by the driver", "first answer: the newest periods"
STATEMENTS, ANSWER = "statements of the second alone", "second answer: all periods"
SECONDS, CPU_SECONDS = "seconds", "CPU seconds of Airflow's process"
_USERS = {
    "AIRFLOW__API_AUTH__JWT_SECRET": "only for this measurement, and long enough for HS512: 012345678901234567890123",
    "AIRFLOW__API_AUTH__JWT_ISSUER": "bench",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "viewer:viewer",
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CHS3__PAGE_CACHE_SECONDS": "0.001",
}


@dataclass(frozen=True, kw_only=True)
class Look:
    """The extent of a measurement."""

    periods: int
    rounds: int
    result_file: str


def _timed(work: Callable[[], Any]) -> Figures:
    began, cpu_began = time.monotonic(), time.process_time()
    work()
    return {SECONDS: time.monotonic() - began, CPU_SECONDS: time.process_time() - cpu_began}


def _page() -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return functions that ask for the first answer and for the second as a viewer, and parse nothing."""
    from airflow.api_fastapi.app import create_app
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from airflow.utils.db import initdb
    from fastapi.testclient import TestClient

    initdb()
    app = create_app(apps="core")
    token = app.state.auth_manager.generate_jwt(SimpleAuthManagerUser(username="viewer", role="viewer"))
    client = TestClient(app, headers={"Authorization": f"Bearer {token}"})
    path = "/chs3/api/periods"
    return lambda: client.get(f"{path}?quick=true").raise_for_status(), lambda: client.get(path).raise_for_status()


def _statements(ask: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function that repeats the statements of an answer, one after the other."""
    from clickhouse_driver import Client

    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook

    sent, query = [], ClickHouseHook.query

    def noted(hook: ClickHouseHook, sql: str, **options: Any) -> Any:
        sent.append(sql)
        return query(hook, sql, **options)

    ClickHouseHook.query = noted
    ask()
    ClickHouseHook.query = query
    given = json.loads(os.environ["AIRFLOW_CONN_CHS3_DEFAULT"])
    client = Client(given["host"], port=given["port"], user=given["login"], password=given["password"])
    return lambda: [client.execute(sql) for sql in sent]


def measure(look: Look) -> list[Any]:
    """Measure both in turns."""
    first, ask = _page()
    (newest,) = first().json()["connections"]
    (seen,) = ask().json()["connections"]
    if [table["table"] for table in newest["tables"]] != [table["table"] for table in seen["tables"]]:
        raise RuntimeError("The first answer lacks tables.")
    states = Counter(period["state"] for table in seen["tables"] for period in table["periods"])
    states["published"] += sum(table["unread"]["published"] for table in seen["tables"])
    if states != {"published": look.periods}:
        raise RuntimeError(f"The page has {states} instead of {look.periods} published periods.")
    works = {FIRST_STATEMENTS: _statements(first), FIRST: first, STATEMENTS: _statements(ask), ANSWER: ask}
    variants = {name: partial(_timed, work) for name, work in works.items()}
    return measure_in_turns("periods", variants, rounds=look.rounds, console=Console(stderr=True))


def main() -> None:
    """Measure what the argument says."""
    look = Look(**json.loads(sys.argv[1]))
    passwords = Path(os.environ["AIRFLOW_HOME"], "passwords.json")
    passwords.write_text('{"viewer": "viewer"}', encoding="utf-8")
    os.environ.update(_USERS, AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE=str(passwords))
    Path(look.result_file).write_text(json.dumps(measure(look)), encoding="utf-8")


if __name__ == "__main__":
    main()
