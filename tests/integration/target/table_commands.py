"""Tables of other grains, and commands about them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_chs3.cli.main import main
from tests.integration.grains import Case, Source
from tests.support.lake import Lake

BY_DAY = Case("toDate(at)", "{YYYY-MM-DD}", "2025-10-31", "2025-11-01")
WHOLE = Case("", "{YYYY-MM}", "all")
#: Partitions whose ids do not show their period.
HASHED = Case("formatDateTime(at, '%Y-%m-%d')", "{YYYY-MM-DD}", "2025-10-31", "2025-11-01")


@pytest.fixture(params=(BY_DAY, WHOLE, HASHED), ids=str)
def source(lake: Lake, request: pytest.FixtureRequest) -> Source:
    return Source(lake, request.param)


def table(lake: Lake) -> dict[str, Any]:
    return {"task_id": "task", **lake.target}


def shell(source: Source, capsys: pytest.CaptureFixture[str], command: str, *arguments: str, code: int = 0) -> Any:
    lake = source.lake
    capsys.readouterr()
    where = ["--table", lake.table, "--database", lake.database, "--cluster", lake.cluster.name, "--output=json"]
    assert main([command, *where, *arguments]) == code, capsys.readouterr()
    return json.loads(capsys.readouterr().out)


def parts(lake: Lake) -> dict[str, int]:
    sql = (
        "SELECT partition_id, count() FROM system.parts "
        f"WHERE active AND database = '{lake.database}' AND table = '{lake.table}' GROUP BY 1"
    )
    return dict(lake.on_node(0, sql))
