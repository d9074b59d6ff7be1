"""Forget, merge, discard, restore or unpin periods: actions of the loads page in Airflow's UI.

The page starts a run of this DAG for each action, so Airflow decides who may act, and records who did. It finds the DAG
by its id, and offers these actions once a file in Airflow's `dags` folder has this line:

    from airflow_provider_chs3.transfers.period_actions import dag

By hand:

    airflow dags trigger chs3_period_actions --conf '{"action": "merge", "database": "taxi", "table": "trips",
        "period": "2026-01"}'

Users who may start its runs may do that to any period of any table that a connection of type `chs3` leads to.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Param, task

from airflow_provider_chs3.operators.held import DiscardPeriodsOperator
from airflow_provider_chs3.operators.ledger import ForgetPeriodsOperator
from airflow_provider_chs3.operators.optimize import OptimizePartitionOperator
from airflow_provider_chs3.operators.versions import RestorePeriodsOperator, UnpinPeriodsOperator

_PERIOD = r"\d{4}(-(Q[1-4]|W\d\d|\d\d(-\d\d(T\d\dZ)?)?))?"

with DAG(
    dag_id="chs3_period_actions",
    description="Forget, merge, discard, restore or unpin a period: for the loads page",
    schedule=None,
    # The runs of a paused DAG would wait.
    is_paused_upon_creation=False,
    doc_md=__doc__,
    params={
        "action": Param(
            type="string",
            enum=["forget", "merge", "discard", "restore", "unpin"],
            description="forget: its rows stay, and no load is known to have put them there. merge: to one part a "
            "node. discard: rows that failed a check. restore: what it held before its last load. unpin: loads may "
            "replace what was restored",
        ),
        "period": Param(
            type="string",
            pattern=f"^(all|{_PERIOD}(,{_PERIOD})*)$",
            description="such as 2026-10, 2026-10-05, or 'all' of a whole table; several, with commas, to forget",
        ),
        "database": Param(type="string", minLength=1),
        "table": Param(type="string", minLength=1, description="MergeTree, or a Distributed table over it"),
        "staging_database": Param("", type="string", description="where the ledger is; empty: beside the table"),
        "cluster": Param("", type="string", description="empty: the Distributed table's, or the connection's"),
        "clickhouse_conn_id": Param("chs3_default", type="string", minLength=1),
    },
) as dag:

    @task.branch(task_id="choose")
    def _choose(**context: Any) -> str:
        return str(context["params"]["action"])

    where: dict[str, Any] = {
        "periods": "{{ params.period }}",
        "database": "{{ params.database }}",
        "table": "{{ params.table }}",
        "cluster": "{{ params.cluster }}",
        "clickhouse_conn_id": "{{ params.clickhouse_conn_id }}",
    }
    of_ledger = where | {"staging_database": "{{ params.staging_database }}"}
    forget = ForgetPeriodsOperator(task_id="forget", **of_ledger)
    merge = OptimizePartitionOperator(task_id="merge", **where)
    discard = DiscardPeriodsOperator(task_id="discard", **of_ledger)
    restore = RestorePeriodsOperator(task_id="restore", **of_ledger)
    unpin = UnpinPeriodsOperator(task_id="unpin", **of_ledger)

    _choose() >> [forget, merge, discard, restore, unpin]
