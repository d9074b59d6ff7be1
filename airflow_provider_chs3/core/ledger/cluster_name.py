"""Find the cluster of earlier loads, if the connection does not name it: operators name clusters, too."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_chs3.core.cluster.topology import LEDGER_TABLE
from airflow_provider_chs3.core.ledger.table import ledgers_query, own_tables
from airflow_provider_chs3.core.sql.quoting import Sql, table
from airflow_provider_chs3.core.values.models import TableName
from airflow_provider_chs3.core.workflow.operations import Query, Steps


def cluster_of_ledgers() -> Steps[str | None]:
    """Return the cluster of earlier loads, from the ledgers of the server that the connection leads to.

    Returns:
        The cluster; None if no ledger names one, or they name several.
    """
    found = yield from Query(name="Find the ledgers", sql=ledgers_query())
    if not (databases := own_tables(found, LEDGER_TABLE)):
        return None
    named = yield from Query(name="Ask the ledgers for their cluster", sql=_clusters(databases))
    return named[0][0] if len(named) == 1 else None


def _clusters(databases: Iterable[str]) -> Sql:
    # Of each ledger, the one of what was published last.
    newest = " UNION ALL ".join(
        "SELECT toString(argMax(cluster, recorded_at)) AS cluster "
        f"FROM {table(TableName(database, LEDGER_TABLE))} WHERE event = 'published'"
        for database in databases
    )
    return Sql(f"SELECT DISTINCT cluster FROM ({newest}) WHERE cluster != ''")
