"""What XCom gets of a result."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from ipaddress import IPv4Address
from uuid import UUID

import pytest

from airflow_provider_chs3.core.model.json_values import as_json


@pytest.mark.parametrize("value", [None, True, 0, -(2**63), 2**64 - 1, 1.5, "text", [1, ["a"]], {"a": [None]}])
def test_what_json_has_stays(value):
    assert as_json(value) == value
    assert type(as_json(value)) is type(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((1, ("a",)), [1, ["a"]]),
        (2**64, "18446744073709551616"),
        (-(2**63) - 1, "-9223372036854775809"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (Decimal("1.50"), "1.50"),
        (date(2026, 1, 2), "2026-01-02"),
        (datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), "2026-01-02T03:04:05.000006+00:00"),
        (time(3, 4, 5), "03:04:05"),
        (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (IPv4Address("1.2.3.4"), "1.2.3.4"),
        ({1: (Decimal(2),)}, {"1": ["2"]}),
    ],
)
def test_what_json_lacks_is_text(value, expected):
    assert as_json(value) == expected
    assert json.loads(json.dumps(as_json(value), allow_nan=False)) == expected
