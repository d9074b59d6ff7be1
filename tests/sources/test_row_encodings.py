"""Texts arrive as UTF-8, whatever the database, the user's role and the session say of encodings."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.testbed.nodes import Cluster
from airflow_provider_chs3.testbed.trips import Trips
from tests.sources.row_lake import RowLake
from tests.sources.rows import MySqlRows, PostgresRows
from tests.sources.servers.mysql import MySqlServer
from tests.sources.servers.postgres import PostgresServer
from tests.sources.trips_target import PERIOD


def _utf8(lake: RowLake) -> dict[str, str]:
    return {"charset": "utf8mb4"} if lake.is_mysql else {"client_encoding": "UTF8"}


def _load(lake: RowLake, *, name: str, texts: dict[str, str], of: str = "text") -> None:
    """Load a period of a table that has these texts in columns of these names, and compare; then change one."""
    quoted = lake.store().listing().dialect.quoted
    columns = ", ".join(f"{quoted(text)} {of}" for text in texts)
    marks = ", ".join(["%s"] * len(texts))
    with closing(lake.rows.connection(**_utf8(lake))) as connection:
        cursor = connection.cursor()
        cursor.execute(f"CREATE TABLE {quoted(name)} (at date, {columns})")
        cursor.execute(f"INSERT INTO {quoted(name)} VALUES ('2026-01-05', {marks})", list(texts.values()))
        connection.commit()
    read = ", ".join(f"`{text}` String" for text in texts)
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.texts (at Date, {read}) ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY at"
    )
    options: dict[str, Any] = {"table": "texts", "source_table": name, "time_column": "at", "key_column": None}
    assert lake.load(**options)["status"] == "published"
    assert _read(lake, texts) == list(texts.values())
    assert lake.load(**options)["status"] == "unchanged"
    (first, *_) = texts
    with closing(lake.rows.connection(**_utf8(lake))) as connection:
        connection.cursor().execute(f"UPDATE {quoted(name)} SET {quoted(first)} = %s", (texts[first][::-1],))
        connection.commit()
    assert lake.load(**options)["status"] == "published"
    assert _read(lake, texts) == [texts[first][::-1], *list(texts.values())[1:]]


def _read(lake: RowLake, columns: dict[str, str]) -> list[str]:
    names = ", ".join(f"`{column}`" for column in columns)
    ((row,),) = (rows for rows in lake.on_every_node(f"SELECT {names} FROM {lake.database}.texts") if rows)
    return list(row)


@pytest.mark.thorough
@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII", "EUC_JP"])
@pytest.mark.parametrize("rows", ["postgres"], indirect=True)
def test_a_role_of_another_encoding_changes_no_text(row_lake: RowLake, encoding: str) -> None:
    row_lake.run(f"ALTER ROLE CURRENT_USER SET client_encoding = '{encoding}'")
    try:
        _load(row_lake, name=f"zürich_{encoding}", texts={"straße": "zürich é\\", "表": "é 表 🚕", "plain": "a"})
    finally:
        row_lake.run("ALTER ROLE CURRENT_USER RESET client_encoding")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("encoding", "text"),
    [("LATIN1", "zürich é"), ("WIN1252", "„zürich“ €"), ("EUC_JP", "日本 東京"), ("SQL_ASCII", "zürich 表")],
)
def test_a_database_of_another_encoding_arrives_as_utf_8(
    chs3_postgres: PostgresServer,
    chs3_cluster: Cluster,
    chs3_database: str,
    monkeypatch: pytest.MonkeyPatch,
    encoding: str,
    text: str,
) -> None:
    name = f"in_{encoding.lower()}"
    with closing(PostgresRows(chs3_postgres, "").connection(autocommit=True)) as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    rows = PostgresRows.create(replace(chs3_postgres, database=name))
    lake = RowLake.create(rows, chs3_cluster, chs3_database, monkeypatch)
    _load(lake, name="texts", texts={"plain": text, "a" if encoding == "SQL_ASCII" else text[:2]: "a"})


def test_bytes_that_are_no_utf_8_are_refused(
    chs3_postgres: PostgresServer, chs3_cluster: Cluster, chs3_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(PostgresRows(chs3_postgres, "").connection(autocommit=True)) as connection:
        connection.execute("CREATE DATABASE of_bytes ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    rows = PostgresRows.create(replace(chs3_postgres, database="of_bytes"))
    lake = RowLake.create(rows, chs3_cluster, chs3_database, monkeypatch)
    lake.rows.put(Trips(rows_per_period=10).table(PERIOD))
    lake.change("UPDATE {t} SET zone = E'z\\374rich'", client_encoding="SQL_ASCII")
    with pytest.raises((AirflowFailException, Chs3Error), match="invalid byte sequence"):
        lake.load()
    assert sum(lake.rows_per_node()) == 0


@pytest.mark.thorough
@pytest.mark.parametrize("charset", ["latin1", "utf16", "sjis", "utf8mb4"])
def test_a_session_of_mysql_in_another_encoding_changes_no_text(
    chs3_mysql: MySqlServer,
    chs3_cluster: Cluster,
    chs3_database: str,
    monkeypatch: pytest.MonkeyPatch,
    charset: str,
) -> None:
    texts = {"latin1": "zürich é", "utf16": "é 表 🚕", "sjis": "東京", "utf8mb4": "é 表 🚕"}
    lake = RowLake.create(MySqlRows.create(chs3_mysql), chs3_cluster, chs3_database, monkeypatch)
    root = {"unix_socket": str(chs3_mysql.folder / "socket"), "user": "root", "password": ""}
    lake.run("SET GLOBAL init_connect = 'SET NAMES latin1'", **root)
    try:
        _load(lake, name=f"zürich_{charset}", texts={"straße": texts[charset]}, of=f"text CHARACTER SET {charset}")
    finally:
        lake.run("SET GLOBAL init_connect = ''", **root)
