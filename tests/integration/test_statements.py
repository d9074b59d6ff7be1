"""How many statements a load sends to each node: more would make loads on many nodes slow before anybody notices."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.hooks.connection import Address
from tests.integration.several_months import MONTHS, Months, months

__all__ = ["months"]

pytestmark = pytest.mark.three_nodes


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Counter[Address | None]:
    """Statements by the node that they were sent to; None is the node that the connection leads to."""
    counts: Counter[Address | None] = Counter()
    query = ClickHouseHook.query

    def counted(hook: ClickHouseHook, sql: str, *, address: Address | None = None, **options: Any) -> Any:
        counts[address] += 1
        return query(hook, sql, address=address, **options)

    monkeypatch.setattr(ClickHouseHook, "query", counted)
    return counts


def of_nodes(sent: Counter[Address | None]) -> list[int]:
    return sorted((count for address, count in sent.items() if address is not None), reverse=True)


#: Most statements to the node that records a load, and to each other one.
MOST = {"first": (27, 22), "unchanged": (9, 6), "new file": (36, 29)}
#: Of a load of two months, and of each further one: its staging table is created, filled, published and dropped.
OF_TWO, OF_ANOTHER = (36, 31), 4


def is_within(sent: Counter[Address | None], most: tuple[int, int]) -> bool:
    first, *others = of_nodes(sent)
    return first <= most[0] and max(others) <= most[1]


@pytest.mark.parametrize("kind", MOST)
def test_a_load_of_one_month(months: Months, sent: Counter[Address | None], kind: str) -> None:
    if kind != "first":
        months.load("2026-10")
    if kind == "new file":
        months.put("2026-10", "c")
    sent.clear()
    status = months.statuses("2026-10")["2026-10"]
    assert status == ("unchanged" if kind == "unchanged" else "published")
    assert is_within(sent, MOST[kind]), of_nodes(sent)


@pytest.mark.parametrize("count", [2, 4])
def test_a_load_of_several_months(months: Months, sent: Counter[Address | None], count: int) -> None:
    sent.clear()
    assert list(months.statuses(*MONTHS[:count]).values()) == ["published"] * count
    most = tuple(number + OF_ANOTHER * (count - 2) for number in OF_TWO)
    assert is_within(sent, (most[0], most[1])), of_nodes(sent)
