"""What a user may do to months. Airflow does it, by its own API, which asks again: no route here changes anything."""

from __future__ import annotations

from functools import partial
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from sqlalchemy import select

from airflow_provider_chs3.plugin.access import ReadableDag, ReadableDags

#: The DAG that forgets months, and merges them: `dags/chs3_month_actions.py`, where somebody has put it.
ACTIONS_DAG = "chs3_month_actions"


def rights(user: GetUserDep, readable_dags: ReadableDags, dag_id: ReadableDag) -> dict[str, Any]:
    """What a user may do with a DAG, and with that of the actions, and whether they are paused.

    Args:
        user: Who asks.
        readable_dags: The DAGs that the user may read.
        dag_id: One of them; None asks for the DAG of the actions alone.

    Returns:
        For either DAG None where it is not there, or the user may not read it.
    """
    wanted = {dag_id, ACTIONS_DAG} & readable_dags
    asked = select(DagModel.dag_id, DagModel.is_paused).where(DagModel.dag_id.in_(wanted), ~DagModel.is_stale)
    with create_session() as session:
        found = session.execute(asked).all()
        teams = DagModel.get_dag_id_to_team_name_mapping([row.dag_id for row in found], session=session)
    found_rights = {
        row.dag_id: _rights_on(DagDetails(id=row.dag_id, team_name=teams.get(row.dag_id)), user) | row._asdict()
        for row in found
    }
    return {
        "dag": found_rights.get(dag_id),
        "actions_dag": found_rights.get(ACTIONS_DAG),
        "actions_dag_id": ACTIONS_DAG,
    }


def _rights_on(details: DagDetails, user: BaseUser) -> dict[str, bool]:
    """What Airflow's own routes ask before they start a run, and before they mark a task."""
    may = partial(get_auth_manager().is_authorized_dag, details=details, user=user)
    return {
        "may_start_runs": may(method="POST", access_entity=DagAccessEntity.RUN),
        "may_end_tasks": may(method="PUT", access_entity=DagAccessEntity.TASK_INSTANCE),
    }
