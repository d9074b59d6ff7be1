"""Check access: Airflow leaves a plugin's app open to anyone unless the app checks."""

from __future__ import annotations

from collections.abc import Collection, Container
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_view
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from fastapi import Depends, HTTPException, Query
from sqlalchemy import select

from airflow_provider_chs3.core.load.retry_policy import RELOAD_OPTIONS
from airflow_provider_chs3.plugin.scope import Scope

#: For the whole app: users who may see Airflow's list of plugins may see the page.
MAY_SEE_PAGE = Depends(requires_access_view(AccessView.PLUGINS))


def _readable_dags(user: GetUserDep) -> set[str]:
    return get_auth_manager().get_authorized_dag_ids(user=user)


#: The DAGs whose runs may be named to the user.
ReadableDags = Annotated[set[str], Depends(_readable_dags)]


def _readable_dag(
    readable: ReadableDags, dag_id: Annotated[str | None, Query(description="only periods that this DAG loads")] = None
) -> str | None:
    # The answer must not reveal whether a DAG exists that the user may not read.
    if dag_id is not None and dag_id not in readable:
        raise HTTPException(status_code=403, detail="Forbidden")
    return dag_id


#: The DAG of the query, which the user may read; None if none was named.
ReadableDag = Annotated[str | None, Depends(_readable_dag)]


#: A number that Airflow's database can hold, or Airflow's placeholder if the task is not mapped.
MapIndex = Annotated[str | None, Query(pattern=r"^(-?\d{0,9}|[^-\d].*)$")]


def _readable_scope(
    dag_id: ReadableDag, run_id: str | None = None, task_id: str | None = None, map_index: MapIndex = None
) -> Scope | None:
    return None if dag_id is None else Scope.of(dag_id, run_id=run_id, task_id=task_id, map_index=map_index)


#: The DAG, run or task of the query, of a DAG that the user may read; None if none was named.
ReadableScope = Annotated[Scope | None, Depends(_readable_scope)]


def _details_of(dag_ids: Collection[str]) -> dict[str, DagDetails]:
    """Return how the auth manager is asked about DAGs; those of Airflow 3.1 belong to no team."""
    if not hasattr(DagModel, "get_dag_id_to_team_name_mapping"):
        return {dag_id: DagDetails(id=dag_id) for dag_id in dag_ids}
    with create_session() as session:
        teams = DagModel.get_dag_id_to_team_name_mapping(list(dag_ids), session=session)
    return {dag_id: DagDetails(id=dag_id, team_name=teams.get(dag_id)) for dag_id in dag_ids}


class AllowedDags:
    """The DAGs that a user may read or change in some way: Airflow is asked about each of them once."""

    def __init__(self, user: BaseUser, what: DagAccessEntity | None, *, method: Literal["GET", "POST", "PUT"] = "GET"):
        self._user = user
        self._what = what
        self._method: Literal["GET", "POST", "PUT"] = method
        self._known: dict[str, bool] = {}

    def __contains__(self, dag_id: object) -> bool:
        """Check whether the user may do that to a DAG."""
        name = str(dag_id)
        if name not in self._known:
            self._known[name] = get_auth_manager().is_authorized_dag(
                method=self._method, access_entity=self._what, details=_details_of([name])[name], user=self._user
            )
        return self._known[name]


def _logs_of(user: GetUserDep) -> AllowedDags:
    return AllowedDags(user, DagAccessEntity.TASK_LOGS)


def _xcoms_of(user: GetUserDep) -> AllowedDags:
    return AllowedDags(user, DagAccessEntity.XCOM)


#: The DAGs whose errors may be shown to the user in full: they may quote values of rows, as their logs do.
LogsOf = Annotated[AllowedDags, Depends(_logs_of)]
#: The DAGs whose statements may be shown to the user: tasks keep them as XComs.
XComsOf = Annotated[AllowedDags, Depends(_xcoms_of)]


@dataclass(frozen=True, kw_only=True)
class PeriodRights:
    """The rights of a user on periods."""

    readable_dags: Collection[str]
    readable_logs: Container[str]
    editable: Container[str]
    startable: Container[str]


def _rights_on_periods(user: GetUserDep, readable_dags: ReadableDags, readable_logs: LogsOf) -> PeriodRights:
    return PeriodRights(
        readable_dags=readable_dags,
        readable_logs=readable_logs,
        editable=AllowedDags(user, None, method="PUT"),
        startable=AllowedDags(user, DagAccessEntity.RUN, method="POST"),
    )


#: The rights on periods of the user.
RightsOnPeriods = Annotated[PeriodRights, Depends(_rights_on_periods)]


def owners_of(dag_ids: Collection[str]) -> dict[str, str]:
    """Return the owners of DAGs, as Airflow lists them."""
    with create_session() as session:
        rows = session.execute(select(DagModel.dag_id, DagModel.owners).where(DagModel.dag_id.in_(dag_ids))).all()
    return {row.dag_id: row.owners for row in rows if row.owners}


#: The DAG that forgets and merges periods, `transfers.period_actions`, if Airflow has it.
ACTIONS_DAG = "chs3_period_actions"


def rights(user: GetUserDep, readable_dags: ReadableDags, dag_id: ReadableDag) -> dict[str, Any]:
    """Return a user's rights on a DAG and on the DAG of the actions, and whether they are paused."""
    dag_ids = {dag_id, ACTIONS_DAG} & readable_dags
    asked = select(DagModel.dag_id, DagModel.is_paused).where(DagModel.dag_id.in_(dag_ids), ~DagModel.is_stale)
    with create_session() as session:
        rows = session.execute(asked).all()
    details = _details_of([row.dag_id for row in rows])
    found_rights = {row.dag_id: _rights_on(details[row.dag_id], user) | row._asdict() for row in rows}
    return {
        "dag": found_rights.get(dag_id),
        "actions_dag": found_rights.get(ACTIONS_DAG),
        "actions_dag_id": ACTIONS_DAG,
        "reload_options": {name: option.help for name, option in RELOAD_OPTIONS.items()},
    }


def _rights_on(details: DagDetails, user: BaseUser) -> dict[str, bool]:
    """Check the rights that Airflow's own routes check before they start a run, mark a task, or unpause the DAG."""
    may = partial(get_auth_manager().is_authorized_dag, details=details, user=user)
    return {
        "may_start_runs": may(method="POST", access_entity=DagAccessEntity.RUN),
        "may_end_tasks": may(method="PUT", access_entity=DagAccessEntity.TASK_INSTANCE),
        "may_edit": may(method="PUT"),
    }
