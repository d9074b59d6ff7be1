"""Engines of SQLAlchemy, where its dialect for ClickHouse is installed, and what is said where not."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.common.compat.sdk import AirflowOptionalProviderFeatureException

if TYPE_CHECKING:
    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook

MakeHook = Callable[..., "ClickHouseHook"]

HAS_DIALECT = find_spec("clickhouse_sqlalchemy") is not None
with_dialect = pytest.mark.skipif(
    not HAS_DIALECT, reason="clickhouse-sqlalchemy is not installed (tox -e lowest has it)"
)
without_dialect = pytest.mark.skipif(HAS_DIALECT, reason="clickhouse-sqlalchemy is installed")

ASKED = "SELECT currentUser(), currentDatabase(), getSetting('max_threads'), number FROM numbers(:count)"


def ask(hook: ClickHouseHook) -> Any:
    from sqlalchemy import text

    with hook.get_sqlalchemy_engine().connect() as connection:
        return connection.execute(text(ASKED), {"count": 2}).fetchall()


@with_dialect
def test_an_engine_asks_as_the_connection_says(make_hook: MakeHook, chs3_database: str) -> None:
    hook = make_hook(schema=chs3_database, extra={"settings": {"max_threads": 3}})
    assert ask(hook) == [("loader", chs3_database, 3, number) for number in range(2)]


@with_dialect
def test_an_engine_goes_on_with_another_host(make_hook: MakeHook, first_node: Any, closed_port: int) -> None:
    alt_hosts = [f"{first_node.host}:{first_node.tcp_port}"]
    hook = make_hook(port=closed_port, extra={"alt_hosts": alt_hosts, "settings": {"max_threads": 3}})
    assert len(ask(hook)) == 2


@with_dialect
@pytest.mark.parametrize("trusts", ["ca_certs", "nothing"])
def test_an_engine_speaks_tls(
    make_hook: MakeHook, first_node: Any, certificate: Path, tls_in_front_of: Callable[..., int], trusts: str
) -> None:
    trust: dict[str, Any] = {"ca_certs": str(certificate)} if trusts == "ca_certs" else {"verify": False}
    port = tls_in_front_of(first_node.host, first_node.tcp_port)
    hook = make_hook(port=port, extra={"secure": True, "settings": {"max_threads": 3}, **trust})
    assert len(ask(hook)) == 2


@with_dialect
def test_a_data_frame_is_written(hook: ClickHouseHook, chs3_database: str) -> None:
    pandas = pytest.importorskip("pandas")
    hook.query(f"CREATE TABLE {chs3_database}.frame (a UInt8, b String) ENGINE = Memory")
    frame = pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    frame.to_sql("frame", hook.get_sqlalchemy_engine(), schema=chs3_database, if_exists="append", index=False)
    assert hook.query(f"SELECT * FROM {chs3_database}.frame ORDER BY a") == [(1, "x"), (2, "y")]


@without_dialect
def test_a_dialect_that_is_missing_is_told(hook: ClickHouseHook) -> None:
    with pytest.raises(AirflowOptionalProviderFeatureException, match=r"pip install 'clickhouse-sqlalchemy>=0\.3'"):
        hook.get_sqlalchemy_engine()
