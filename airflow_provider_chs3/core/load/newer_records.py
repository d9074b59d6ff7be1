"""Detect that another load, which may have listed objects later, published the same period.

An attempt with newer staging ends older ones. An attempt that published and dropped its staging before this one created
its own escapes that; only its record shows it.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_chs3.core.ledger.records import PeriodOnNode
from airflow_provider_chs3.core.load.period_load import PeriodLoad
from airflow_provider_chs3.core.load.publication import node_key
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.exceptions import ObjectsChangedError


def records_of(periods: Mapping[Node, PeriodOnNode]) -> dict[str, str]:
    """Return the identity of the newest records of a period: `node_key` → attempt and event."""
    return {
        node_key(node): f"{period.record.attempt} {period.record.event}"
        for node, period in periods.items()
        if period.record
    }


def check_listed_since(load: PeriodLoad, periods: Mapping[Node, PeriodOnNode]) -> None:
    """Check that the ledger's records of the period are older than this load's listing.

    Only durations by the same clock are compared, because the clocks of nodes and worker may differ.

    Raises:
        ObjectsChangedError: If another load has recorded other objects since: it may have listed them later.
    """
    records = (period.record for period in periods.values() if period.record)
    # Records of the future are from before the node's clock was set back.
    if any(
        0 <= record.age_seconds <= load.timer.of_this_try_seconds and record.fingerprint != load.manifest.fingerprint
        for record in records
    ):
        raise published_meanwhile(load.period)


def check_none_newer(
    period: Period, records: Mapping[str, str], current: Mapping[Node, PeriodOnNode], *, attempt: str = ""
) -> None:
    """Check that no other load has recorded the period since the comparison.

    Raises:
        ObjectsChangedError: If another load has.
    """
    others = {node: period for node, period in current.items() if period.record and period.record.attempt != attempt}
    if any(records.get(node) != record for node, record in records_of(others).items()):
        raise published_meanwhile(period)


def published_meanwhile(period: Period) -> ObjectsChangedError:
    """Return the error of a load if another one published the period meanwhile."""
    return ObjectsChangedError(f"Another load published {period} meanwhile.")
