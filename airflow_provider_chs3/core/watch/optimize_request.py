"""The request to merge closed periods, and the step that starts an OPTIMIZE."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from airflow_provider_chs3.core.model.models import Node, SettingValues, TableName
from airflow_provider_chs3.core.sql.quoting import Sql
from airflow_provider_chs3.core.steps.operations import Step
from airflow_provider_chs3.core.target.topology import PassedRequest
from airflow_provider_chs3.exceptions import Chs3Error

#: Prefix for every OPTIMIZE that this package starts, of any table: they are counted across the cluster.
QUERY_ID_PREFIX = "chs3_optimize_"


@dataclass(frozen=True, kw_only=True)
class OptimizeRequest(PassedRequest):
    """A request to merge the parts of periods, or of all that ended before `closed_by`, in UTC without a time zone."""

    closed_by: datetime
    target_parts: int = 1
    max_running: int = 2
    poll_interval_seconds: float = 10

    @classmethod
    def of_json(cls, values: Mapping[str, Any], *, default_cluster: str | None) -> Self:
        """Create the request from the values of `as_json`."""
        closed_by = datetime.fromisoformat(values["closed_by"])
        return super().of_json({**values, "closed_by": closed_by}, default_cluster=default_cluster)


@dataclass(frozen=True, kw_only=True)
class StartOnNodes(Step[dict[Node, str | Chs3Error]]):
    """Start statements without waiting for long ones. Returns `ENDED`, `GOES_ON` or the error of each node."""

    sql: Mapping[Node, Sql]
    query_id: Mapping[Node, str]
    settings: SettingValues


#: Outcomes of a start.
ENDED, GOES_ON = "ended", "goes on"


def query_id_of(target: TableName, partition_id: str) -> str:
    """Return the query id of a partition's OPTIMIZE, the same for all tasks: no node runs it twice at a time (216)."""
    digest = hashlib.sha256(repr((target.database, target.table)).encode()).hexdigest()[:16]
    return f"{QUERY_ID_PREFIX}{digest}_{partition_id}"
