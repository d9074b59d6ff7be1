"""The app behind the page: its script, and JSON. Every route checks with Airflow whether the user may see it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.staticfiles import StaticFiles
from pydantic import AfterValidator

from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.defaults import PAGE_CACHE_SECONDS
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.plugin.answers import schemas
from airflow_provider_chs3.plugin.answers.cluster import cluster_answers
from airflow_provider_chs3.plugin.answers.period_details import (
    PeriodOfTable,
    SeenDetails,
    details_as_json,
    look_at_details,
    look_with,
)
from airflow_provider_chs3.plugin.answers.periods import PeriodsQuestion, period_answers
from airflow_provider_chs3.plugin.answers.periods_answer import periods_answer
from airflow_provider_chs3.plugin.answers.throughput import Days, throughput_answers
from airflow_provider_chs3.plugin.cache import SharedAnswers
from airflow_provider_chs3.plugin.connections import connection_ids
from airflow_provider_chs3.plugin.observation.changes import Changes, look_at_changes
from airflow_provider_chs3.plugin.observation.objects import Objects, look_at_objects
from airflow_provider_chs3.plugin.observation.speed.period_parts import PeriodParts, look_at_period_parts
from airflow_provider_chs3.plugin.security import (
    MAY_SEE_PAGE,
    LogsOf,
    ReadableDags,
    ReadableScope,
    RightsOnPeriods,
    XComsOf,
    rights,
)

_FILES = StaticFiles(directory=Path(__file__).parent / "static")
#: Answers that query logs are shared this many times longer.
_LOGS_FRESH_FACTOR = 6
#: Connections that are queried at the same time; the nodes of each have their own threads.
_LOOKS_AT_ONCE = 4
#: The name of a connection, a database or a table.
Name = Annotated[str, Query(min_length=1, max_length=255)]
_HEADERS = {
    # Nothing here is a document: answers that a browser opens by themselves load and run nothing.
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def _is_period(text: str) -> str:
    try:
        return str(Period.parse(text))
    except ConfigurationError as error:
        raise ValueError(str(error)) from None


PeriodName = Annotated[str, AfterValidator(_is_period)]


#: The newest of the periods that are shown.
Until = Annotated[PeriodName | None, Query(description="only periods until this one, and those that need attention")]
#: Whether to answer sooner.
Quick = Annotated[bool, Query(description="where there are many periods, only the newest of each table")]


async def _of_period(conn_id: Name, database: Name, table: Name, period: PeriodName) -> PeriodOfTable:
    if conn_id not in await asyncio.to_thread(connection_ids):
        raise HTTPException(status_code=404, detail="Not Found")
    return PeriodOfTable(conn_id, TableName(database, table), Period.parse(period))


#: The period of a query; its connection is one that Airflow has.
OfPeriod = Annotated[PeriodOfTable, Depends(_of_period)]


def create_app() -> FastAPI:
    """Create an app. All routes check the right to see it; files are routes, too, as mounts would skip the check."""
    app = FastAPI(
        title="ClickHouse loads", docs_url=None, redoc_url=None, openapi_url=None, dependencies=[MAY_SEE_PAGE]
    )

    @app.middleware("http")
    async def add_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await call_next(request)
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    @app.get("/static/{name}", include_in_schema=False)
    async def file(name: str, request: Request) -> Response:
        response = await _FILES.get_response(name, request.scope)
        # Browsers keep it, and ask each time whether it is still the same.
        response.headers["Cache-Control"] = "private, no-cache"
        return response

    _add_view_routes(app)
    return app


def _add_view_routes(app: FastAPI) -> None:
    """Add the routes that the views request."""
    pool = ThreadPoolExecutor(max_workers=_LOOKS_AT_ONCE, thread_name_prefix="chs3-page")
    looks = SharedAnswers(period_answers().look, pool=pool, seconds=PAGE_CACHE_SECONDS)
    nodes = SharedAnswers(cluster_answers().look, pool=pool, seconds=PAGE_CACHE_SECONDS)
    loads = {
        days: SharedAnswers(throughput_answers(days).look, pool=pool, seconds=_LOGS_FRESH_FACTOR * PAGE_CACHE_SECONDS)
        for days in Days
    }

    @app.get("/api/periods", response_model=schemas.Periods)
    async def periods(
        scope: ReadableScope, rights: RightsOnPeriods, until: Until = None, quick: Quick = False
    ) -> Response:
        conn_ids = await asyncio.get_running_loop().run_in_executor(pool, connection_ids)
        is_quick = quick and not (scope or until)
        about = partial(PeriodsQuestion.about, scope=scope, until=until or "", is_quick=is_quick)
        seen = await asyncio.gather(*(looks.get(about(conn_id)) for conn_id in conn_ids))
        # Others' requests are served meanwhile: there may be thousands of periods.
        answer = await asyncio.to_thread(periods_answer, seen, scope=scope, rights=rights, are_newest=not until)
        return Response(answer, media_type="application/json")

    @app.get("/api/throughput", response_model=schemas.Speed)
    async def throughput(scope: ReadableScope, readable_dags: ReadableDags, days: Days = Days.WEEK) -> dict[str, Any]:
        conn_ids = await asyncio.get_running_loop().run_in_executor(pool, connection_ids)
        seen = await asyncio.gather(*(loads[days].get(conn_id) for conn_id in conn_ids))
        answers = [answer.as_json(scope=scope, readable_dags=readable_dags) for answer in seen]
        return {"days": int(days), "connections": _join_clusters(answers)}

    @app.get("/api/cluster", response_model=schemas.Cluster, response_model_exclude_unset=True)
    async def cluster(readable_dags: ReadableDags) -> dict[str, Any]:
        conn_ids = await asyncio.get_running_loop().run_in_executor(pool, connection_ids)
        seen = await asyncio.gather(
            *(asyncio.gather(nodes.get(conn_id), looks.get(PeriodsQuestion(conn_id))) for conn_id in conn_ids)
        )
        answers = (answer.as_json(periods, readable_dags=readable_dags) for answer, periods in seen)
        return {"connections": _join_clusters(answers)}

    app.get("/api/rights", response_model=schemas.Rights)(rights)
    _add_period_routes(app, pool)


def _join_clusters(connections: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the answer of one connection for each cluster, with the ids of all connections that lead to it.

    Connections lead to the same cluster if they see the same nodes. Users of fewer privileges may see fewer loads, so
    the answer with most loads stands for all; one with an error stands for itself.
    """
    clusters: dict[tuple[Any, ...], dict[str, Any]] = {}
    for seen in connections:
        names = tuple(sorted(filter(None, (node["name"] for node in seen["nodes"]))))
        is_known = names and not seen["error"]
        key = (seen["cluster"], *names) if is_known else ("connection", seen["conn_id"], seen["error"])
        known = clusters.get(key, {"conn_ids": [], "loads": ()})
        fullest = seen if not known["conn_ids"] or len(seen["loads"]) > len(known["loads"]) else known
        clusters[key] = {**fullest, "conn_ids": [*known["conn_ids"], seen["conn_id"]]}
    return list(clusters.values())


def _add_period_routes(app: FastAPI, pool: Executor) -> None:
    """Add the routes that the panel of one period requests."""
    logs_seconds = _LOGS_FRESH_FACTOR * PAGE_CACHE_SECONDS
    look_at_parts = look_with(look_at_period_parts, partial(PeriodParts, begun_at=None, now=None, nodes=[]))
    look_at_objects_of = look_with(look_at_objects, partial(Objects, objects=[], is_cut=False))
    look_at_one = look_with(look_at_details, partial(SeenDetails, None))
    details = SharedAnswers(look_at_one, pool=pool, seconds=PAGE_CACHE_SECONDS)
    histories = SharedAnswers(look_at_parts, pool=pool, seconds=logs_seconds)
    of_objects = SharedAnswers(look_at_objects_of, pool=pool, seconds=PAGE_CACHE_SECONDS)
    changed = SharedAnswers(look_with(look_at_changes, partial(Changes, nodes=[])), pool=pool, seconds=logs_seconds)

    @app.get("/api/period", response_model=schemas.PeriodDetails | None, response_model_exclude_unset=True)
    async def period(
        question: OfPeriod, readable_dags: ReadableDags, readable_logs: LogsOf, readable_xcoms: XComsOf
    ) -> dict[str, Any] | None:
        return details_as_json(
            await details.get(question),
            readable_dags=readable_dags,
            readable_logs=readable_logs,
            readable_xcoms=readable_xcoms,
        )

    @app.get("/api/parts")
    async def parts(question: OfPeriod) -> PeriodParts:
        return await histories.get(question)

    @app.get("/api/objects")
    async def objects(question: OfPeriod) -> Objects:
        return await of_objects.get(question)

    @app.get("/api/changes")
    async def changes(question: OfPeriod) -> Changes:
        return await changed.get(question)


@cache
def the_app() -> FastAPI:
    """Return the app of this process."""
    return create_app()
