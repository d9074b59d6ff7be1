"""End a load from outside, after a person has stopped its task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_chs3.core.attempt.resume import attempts_of
from airflow_provider_chs3.core.cluster.node_facts import inspect_target
from airflow_provider_chs3.core.cluster.topology import TableRequest
from airflow_provider_chs3.core.request.load_request import LoadRequest
from airflow_provider_chs3.core.staging.ending import end_attempt, end_attempts_with
from airflow_provider_chs3.core.staging.tables import Attempt
from airflow_provider_chs3.core.tuning.exact_settings import DDL_SETTINGS
from airflow_provider_chs3.core.values.models import Month, TableName
from airflow_provider_chs3.core.workflow.operations import Steps


@dataclass(frozen=True, kw_only=True)
class StopRequest(TableRequest):
    """A request to end a load.

    In addition to the table's arguments:

    Args:
        month: The month.
        nonce: The attempt.
        owner: The task that loads: what its earlier tries started is ended too. Empty ends this attempt alone.
        is_of_months: Whether the load is of several months, so that all attempts of the nonce are ended, and only they.
    """

    month: Month
    nonce: str
    owner: str = ""
    is_of_months: bool = False

    @classmethod
    def of(cls, request: LoadRequest, *, is_of_months: bool = False) -> StopRequest:
        """Create the request that ends a load."""
        given = {name: getattr(request, name) for name in cls.__dataclass_fields__ if name != "is_of_months"}
        return cls(**given, is_of_months=is_of_months)

    def as_json(self) -> dict[str, str | None]:
        """Return JSON-safe values, without the default cluster, which is the connection's."""
        return {
            "database": self.target.database,
            "table": self.target.table,
            "month": str(self.month),
            "nonce": self.nonce,
            "cluster": self.cluster,
            "staging_database": self.staging_database,
            "owner": self.owner,
        }

    @classmethod
    def of_json(cls, values: Mapping[str, Any], *, default_cluster: str | None) -> StopRequest:
        """Create the request from the values of `as_json`."""
        return cls(
            target=TableName(values["database"], values["table"]),
            month=Month.parse(values["month"]),
            nonce=values["nonce"],
            cluster=values["cluster"],
            default_cluster=default_cluster,
            staging_database=values["staging_database"],
            owner=values["owner"],
        )


def stop_load(request: StopRequest) -> Steps[None]:
    """End a load: afterwards no node runs a query of it, and its staging is gone.

    Raises:
        TransientError: If queries do not end.
    """
    context = yield from inspect_target(request, settings=DDL_SETTINGS)
    if request.is_of_months:
        yield from end_attempts_with(context, request.nonce)
        return
    nonces = {request.nonce}
    if request.owner:
        nonces |= yield from attempts_of(context, request.month, request.owner)
    for nonce in sorted(nonces):
        yield from end_attempt(context, Attempt(context.target, request.month, nonce))
