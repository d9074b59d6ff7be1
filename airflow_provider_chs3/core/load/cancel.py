"""End a load from outside, after a person has stopped its task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_chs3.core.load.end_attempts import end_attempts_with
from airflow_provider_chs3.core.load.load_request import LoadRequest
from airflow_provider_chs3.core.load.resume import find_attempts
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.steps.operations import Steps
from airflow_provider_chs3.core.target.node_facts import inspect_target
from airflow_provider_chs3.core.target.topology import PassedRequest
from airflow_provider_chs3.core.tuning.insert_settings import DDL_SETTINGS


@dataclass(frozen=True, kw_only=True)
class StopRequest(PassedRequest):
    """A request to end a load, in addition to the table's arguments."""

    periods: tuple[Period, ...]
    nonce: str
    owner: str = ""

    @classmethod
    def of(cls, request: LoadRequest, periods: Sequence[Period]) -> StopRequest:
        """Create the request that ends a load of periods."""
        given = {name: getattr(request, name) for name in cls.__dataclass_fields__ if name != "periods"}
        return cls(**given, periods=tuple(periods))


def stop_load(request: StopRequest) -> Steps[None]:
    """End a load: afterwards no node runs a query of it, and its staging is gone."""
    context = yield from inspect_target(request, settings=DDL_SETTINGS)
    attempts = yield from find_attempts(context, request.periods, request.owner)
    yield from end_attempts_with(context, *sorted({request.nonce, *(nonce for _, nonce in attempts)}))
