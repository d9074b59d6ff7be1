"""MySQL and MariaDB: how their values are sent, whatever the time zone of the session is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from airflow_provider_chs3.core.model.models import Setting
from airflow_provider_chs3.core.model.store_kind import ROWS, StoreKind
from airflow_provider_chs3.sources.database.dialect import NULLS, TYPED, Dialect, SqlColumn, SqlTable, Times

MYSQL = StoreKind(
    title="MySQL",
    function="mysql",
    privilege="READ ON MYSQL",
    exact=(
        NULLS,
        Setting("external_storage_max_read_rows", 0, "no limit cuts the data off silently"),
        Setting("external_storage_max_read_bytes", 0, "no limit cuts the data off silently"),
    ),
    contents=ROWS,
    format=TYPED,
)

_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit")
_BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")
_TIMES = {"date": Times.DATES, "datetime": Times.LOCAL, "timestamp": Times.INSTANTS}
_NUMBERS = ("decimal", "float", "double")
_SPATIAL = re.compile(r"geom|point|linestring|polygon")
_ZERO = "0000-00-00 00:00:00"

_COLUMNS = """
SELECT column_name, data_type, column_type FROM information_schema.columns
WHERE table_schema = coalesce(%s, DATABASE()) AND table_name = %s ORDER BY ordinal_position
"""


class MySql(Dialect):
    """MySQL, and MariaDB."""

    kind = MYSQL
    scheme = "mysql"

    def quoted(self, name: str) -> str:
        """Quote an identifier."""
        return "`" + name.replace("`", "``") + "`"

    def columns(self, table: SqlTable) -> tuple[str, tuple[str, ...]]:
        """Return the statement for the columns of a table, and its parameters."""
        return _COLUMNS, (table.schema, table.name)  # type: ignore[return-value]  # NULL is the session's database

    def column(self, name: str, *described: str) -> SqlColumn:
        """Return how a column is read."""
        kind, full = (text.lower() for text in described)
        column = self.quoted(name)
        if kind in _INTEGERS:
            signed = kind not in ("year", "bit") and "unsigned" not in full
            whole = f"CAST({column} AS {'SIGNED' if signed else 'UNSIGNED'})"
            read = "Nullable(Int64)" if signed else "Nullable(UInt64)"
            # Servers call a narrow one a narrow type.
            cast = f"CAST({{0}}, '{read}')"
            return SqlColumn(name=name, type=full, written=whole, read=cast, clickhouse_type=read, is_integer=True)
        if _SPATIAL.search(kind):
            return SqlColumn(name=name, type=full, written=f"HEX({column})", read="unhex({0})")
        if kind in _BYTES or kind in _TEXTS:
            # As it is: a function of a long value returns NULL (max_allowed_packet).
            return SqlColumn(name=name, type=full, written=column)
        return SqlColumn(name=name, type=full, written=_text_of(kind, full, column))

    def times_of(self, column: SqlColumn) -> Times | None:
        """Return what a column of times holds."""
        return _TIMES.get(column.type.partition("(")[0])

    def moment(self, at: datetime, times: Times) -> str:
        """Return a moment as a literal."""
        if times is not Times.INSTANTS:
            return f"'{at:%Y-%m-%d %H:%M:%S}'"
        # The function returns NULL for moments that no column of instants holds.
        return f"COALESCE(FROM_UNIXTIME({int(at.timestamp())}), '9999-12-31')"

    def day_of(self, column: SqlColumn, times: Times, *, with_hour: bool) -> str:
        """Return the text of the day of a row, or of its hour."""
        name = self.quoted(column.name)
        at = _in_utc(name) if times is Times.INSTANTS else name
        return f"DATE_FORMAT({at}, '%Y-%m-%d{'T%HZ' if with_hour else ''}')"

    def slice_of(self, column: SqlColumn, *, number: int, count: int) -> str:
        """Return the condition of one of so many slices."""
        whole = column.written if column.is_integer else f"CRC32({column.written})"
        # The remainder of a negative number is negative, and a NULL has none.
        return f"COALESCE(MOD(MOD({whole}, {count}) + {count}, {count}), 0) = {number}"

    def digest(self, columns: Sequence[SqlColumn]) -> str:
        """Return the aggregate over all values of these columns.

        Together, the values of a row may be longer than what the server makes of texts (max_allowed_packet): NULL. Then
        each is hashed by itself. Doing that to all rows took four times as long.
        """
        together = ", ".join(map(self._hashed, columns))
        one_by_one = ", ".join(f"COALESCE(MD5({column.written}), '')" for column in columns)
        row = f"COALESCE(SHA1(CONCAT_WS(',', {together})), SHA1(CONCAT_WS(',', {one_by_one})))"
        return f"SUM(CAST(CONV(LEFT({row}, 15), 16, 10) AS UNSIGNED))"

    def _hashed(self, column: SqlColumn) -> str:
        """Return what is hashed of a column: of texts, which may have commas, length and bytes; of NULL, neither."""
        times = self.times_of(column)
        if times is Times.INSTANTS:
            return f"COALESCE(UNIX_TIMESTAMP({self.quoted(column.name)}), '')"
        if times:
            return f"COALESCE({self.quoted(column.name)}, '')"
        if column.is_integer:
            return f"COALESCE({column.written}, '')"
        if column.type.startswith(_NUMBERS):
            number = self.quoted(column.name)
            return f"COALESCE({_in_full(number) if column.type.startswith('float') else number}, '')"
        # Texts of several character sets have no common text.
        return f"COALESCE(LENGTH({column.written}), ''), CAST({column.written} AS BINARY)"


def _text_of(kind: str, full: str, column: str) -> str:
    is_whole = "(" not in full
    if kind in ("date", "datetime"):
        text = f"CAST({column} AS CHAR)"
        return text if is_whole else _without_zeros(text)
    if kind == "timestamp":
        utc = f"DATE_FORMAT({_in_utc(column)}, '%Y-%m-%dT%H:%i:%s{'' if is_whole else '.%f'}')"
        marked = f"CONCAT({utc if is_whole else _without_zeros(utc)}, 'Z')"
        return f"IF(UNIX_TIMESTAMP({column}) = 0, '{_ZERO}', {marked})"
    if kind in ("float", "double"):
        return f"CAST({_in_full(column)} AS CHAR)"
    return f"CAST({column} AS CHAR)"


def _in_full(column: str) -> str:
    # The text of a FLOAT has six digits.
    return f"CAST({column} AS DOUBLE)"


def _in_utc(column: str) -> str:
    # By its instant: an hour that the session's clocks show twice would be one. Few servers know zones by name.
    return f"('1970-01-01 00:00:00' + INTERVAL UNIX_TIMESTAMP({column}) * 1000000 MICROSECOND)"


def _without_zeros(text: str) -> str:
    return f"TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM {text}))"
