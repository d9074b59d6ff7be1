"""Find out whether another load, which may have listed objects later, published the period of this one.

Of two attempts, the one with the newer staging ends the other. An attempt that published and has dropped its staging
before this one creates its own is met by neither; its record shows it.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_chs3.core.ledger.records import PeriodOnNode
from airflow_provider_chs3.core.load.load_context import LoadContext, node_key
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.exceptions import ObjectsChangedError


def records_of(periods: Mapping[Node, PeriodOnNode]) -> dict[str, str]:
    """Return what distinguishes the newest record of a period from a later one: `node_key` → attempt and event."""
    return {
        node_key(node): f"{period.record.attempt} {period.record.event}"
        for node, period in periods.items()
        if period.record
    }


def check_listed_since(load: LoadContext, periods: Mapping[Node, PeriodOnNode]) -> None:
    """Check that what the ledger knows of the period was recorded before this load listed the objects.

    Only durations are compared, each by one clock, as the clocks of nodes and worker may differ.

    Raises:
        ObjectsChangedError: If another load recorded other objects since then: it may have listed them later.
    """
    records = (period.record for period in periods.values() if period.record)
    # A record of the future is one from before the node's clock was set back.
    if any(
        0 <= record.age_seconds <= load.timer.of_this_try_seconds and record.fingerprint != load.manifest.fingerprint
        for record in records
    ):
        raise published_meanwhile(load.request.period)


def check_none_newer(
    period: Period, records: Mapping[str, str], current: Mapping[Node, PeriodOnNode], *, attempt: str = ""
) -> None:
    """Check that no other load has recorded the period since this one compared it with the ledger.

    Raises:
        ObjectsChangedError: If another load has.
    """
    others = {node: period for node, period in current.items() if period.record and period.record.attempt != attempt}
    if any(records.get(node) != record for node, record in records_of(others).items()):
        raise published_meanwhile(period)


def published_meanwhile(period: Period) -> ObjectsChangedError:
    """Return the error of a load that finds a period published by another one since it began."""
    return ObjectsChangedError(f"Another load published {period} meanwhile.")
