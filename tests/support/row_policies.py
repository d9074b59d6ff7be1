"""A user who sees some rows only."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.support.narrow_user import NARROW, WITH_NARROW_USER


@pytest.fixture(scope="module")
def filtered() -> Iterator[ClickHouseCluster]:
    """A node whose policies hide column `v`, and parts of all tables of tests."""
    policies = "".join(
        f"<{table}><filter>{condition}</filter></{table}>"
        for table, condition in {"columns": "name != 'v'", "parts": "NOT startsWith(database, 'test_')"}.items()
    )
    with ClickHouseCluster.start(1, **WITH_NARROW_USER) as cluster:
        hide(cluster, f"<system>{policies}</system>")
        yield cluster


def hide(cluster: ClickHouseCluster, policies: str) -> None:
    """Have policies filter what the user of loads reads."""
    users = cluster.nodes[0].folder / "users.xml"
    written = users.read_text(encoding="utf-8")
    of_user = f"<{NARROW.login}>"
    assert of_user in written
    users.write_text(written.replace(of_user, f"{of_user}<databases>{policies}</databases>", 1), encoding="utf-8")
    cluster.restart(0)
