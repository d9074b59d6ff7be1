"""Whether another load, which may have listed later, recorded the period of this one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_chs3.core.ledger.partition_state import PartitionState
from airflow_provider_chs3.core.ledger.records import PeriodOnNode, Record
from airflow_provider_chs3.core.load.publication import check_none_newer, records_of
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.exceptions import ObjectsChangedError

PERIOD = Period.of_month(2026, 10)
ONE, TWO = (Node(number, 1, f"ch-{number}", 9000) for number in (1, 2))
RECORD = Record("published", "first", "f", "d", 100, 2, 10, 1, 1)


def on_nodes(*records: Record | None) -> dict[Node, PeriodOnNode]:
    return {node: PeriodOnNode(record, PartitionState()) for node, record in zip((ONE, TWO), records, strict=True)}


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ((None, None), (RECORD, RECORD)),
        ((RECORD, RECORD), (RECORD, replace(RECORD, attempt="second", event="intent"))),
        # It was about to publish when this load looked.
        ((RECORD, replace(RECORD, attempt="second", event="intent")), (replace(RECORD, attempt="second"),) * 2),
    ],
)
def test_a_record_of_another_load_is_newer(
    before: tuple[Record | None, Record | None], now: tuple[Record | None, Record | None]
) -> None:
    with pytest.raises(ObjectsChangedError, match="Another load published 2026-10 meanwhile"):
        check_none_newer(PERIOD, records_of(on_nodes(*before)), on_nodes(*now))


@pytest.mark.parametrize(
    ("before", "now"),
    [
        # Merges changed its parts.
        ((RECORD, RECORD), (replace(RECORD, sequence=7, evidence="{}"),) * 2),
        # The ledger was lost, or the period was forgotten: that is no load's doing.
        ((RECORD, RECORD), (RECORD, None)),
    ],
)
def test_the_same_record_written_anew_or_lost_is_not(
    before: tuple[Record | None, Record | None], now: tuple[Record | None, Record | None]
) -> None:
    check_none_newer(PERIOD, records_of(on_nodes(*before)), on_nodes(*now))
