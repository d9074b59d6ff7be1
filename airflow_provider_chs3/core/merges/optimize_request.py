"""What is asked of the merging of closed months, and the statement that does it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_chs3.core.cluster.topology import TableRequest
from airflow_provider_chs3.core.sql.quoting import Sql
from airflow_provider_chs3.core.values.models import Month, Node, SettingValues, TableName
from airflow_provider_chs3.core.workflow.operations import Step
from airflow_provider_chs3.exceptions import Chs3Error, ConfigurationError

#: Of every OPTIMIZE that is started here, whatever its table: they are counted over the cluster.
QUERY_ID_PREFIX = "chs3_optimize_"


@dataclass(frozen=True, kw_only=True)
class OptimizeRequest(TableRequest):
    """What is asked for.

    Besides the table, it has these.

    Args:
        months: The months; None stands for all before `before`.
        before: The first month that is not closed.
        target_parts: Months with more parts than this on a node are merged there.
        max_running: How many OPTIMIZEs may run in the cluster at a time; no node runs more than one.
        poll_interval_seconds: Time between two looks, while things change.

    Raises:
        ConfigurationError: If a number makes no sense.
    """

    months: tuple[Month, ...] | None
    before: Month
    target_parts: int = 1
    max_running: int = 2
    poll_interval_seconds: float = 10

    def __post_init__(self) -> None:
        for name in ("target_parts", "max_running"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name}={getattr(self, name)}: give 1 or more.")
        if self.poll_interval_seconds <= 0:
            raise ConfigurationError(f"poll_interval_seconds={self.poll_interval_seconds} must be above 0.")

    def as_json(self) -> dict[str, Any]:
        """The same as JSON-safe values; without the default cluster, which is the connection's."""
        return {
            "database": self.target.database,
            "table": self.target.table,
            "cluster": self.cluster,
            "months": None if self.months is None else [str(month) for month in self.months],
            "before": str(self.before),
            "target_parts": self.target_parts,
            "max_running": self.max_running,
            "poll_interval_seconds": self.poll_interval_seconds,
        }

    @classmethod
    def of_json(cls, values: Mapping[str, Any], *, default_cluster: str | None) -> OptimizeRequest:
        """What `as_json` gave."""
        months = values["months"]
        return cls(
            target=TableName(values["database"], values["table"]),
            cluster=values["cluster"],
            default_cluster=default_cluster,
            months=None if months is None else tuple(map(Month.parse, months)),
            before=Month.parse(values["before"]),
            target_parts=values["target_parts"],
            max_running=values["max_running"],
            poll_interval_seconds=values["poll_interval_seconds"],
        )


@dataclass(frozen=True, kw_only=True)
class StartOnNodes(Step[dict[Node, str | Chs3Error]]):
    """Start one statement on each of several nodes, and don't wait for its end where that takes long.

    Gives for each node `ENDED`, `GOES_ON`, or the error that it answered with.

    Args:
        sql: The statement for each node.
        query_id: Its id on each node.
        settings: Settings to send with each.
    """

    sql: Mapping[Node, Sql]
    query_id: Mapping[Node, str]
    settings: SettingValues


#: What came of a start.
ENDED, GOES_ON = "ended", "goes on"


def query_id_of(target: TableName, partition_id: str) -> str:
    """The id of the OPTIMIZE of a partition, the same for all who want it: no node runs it twice at a time (216)."""
    digest = hashlib.sha256(repr((target.database, target.table)).encode()).hexdigest()[:16]
    return f"{QUERY_ID_PREFIX}{digest}_{partition_id}"
