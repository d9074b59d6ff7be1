"""PostgreSQL: how its values are sent, whatever the settings of the user's role are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.model.store_kind import ROWS, StoreKind
from airflow_provider_chs3.sources.database.dialect import NULLS, TYPED, Dialect, SqlColumn, SqlTable, Times, own_prefix

POSTGRES = StoreKind(
    title="PostgreSQL",
    function="postgresql",
    privilege="READ ON POSTGRES",
    exact=(NULLS,),
    contents=ROWS,
    format=TYPED,
)

#: ClickHouse reads these as they are.
_INTEGERS = {"smallint": "Nullable(Int16)", "integer": "Nullable(Int32)", "bigint": "Nullable(Int64)"}
#: Types whose texts are ASCII; texts of all others are in the encoding of the database.
_ASCII = frozenset(("numeric", "boolean", "uuid", "inet", "cidr"))
#: Types whose bytes differ wherever their values do. Other types are compared as texts, as they are loaded.
_SENT = frozenset(
    (
        *_INTEGERS,
        *("real", "double precision", "numeric", "boolean", "uuid", "inet", "cidr", "bytea", "json", "jsonb"),
        *("text", "character varying", "character", "date", "timestamp without time zone", "timestamp with time zone"),
    )
)
#: Type categories of arrays, composite types and ranges.
_CONTAINERS = frozenset("ACR")
_INSTANT = "timestamp with time zone"
_TIMES = {"date": Times.DATES, "timestamp without time zone": Times.LOCAL, _INSTANT: Times.INSTANTS}
_HOUR = '"T"HH24"Z"'
#: The text of an instant in UTC.
_MARKED = "if(endsWith({0}, 'infinity') OR endsWith({0}, 'BC'), {0}, concat(replaceOne({0}, ' ', 'T'), 'Z'))"
#: Whether the session writes texts as they are read: its role may have set otherwise.
_AS_READ = "current_setting('client_encoding') = 'UTF8' AND left(current_setting('DateStyle'), 3) = 'ISO'"

#: A domain is read as the type that it is of, in the end.
_COLUMNS = """
WITH RECURSIVE found AS (
SELECT a.attnum, a.attname, a.atttypid AS typid
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT attnum, attname, t.typbasetype FROM found JOIN pg_type t ON t.oid = typid WHERE t.typbasetype <> 0
)
SELECT attname, format_type(typid, NULL), typcategory FROM found JOIN pg_type t ON t.oid = typid
WHERE t.typbasetype = 0 ORDER BY attnum
"""


class Postgres(Dialect):
    """PostgreSQL."""

    kind = POSTGRES
    scheme = "postgres"

    def quoted(self, name: str) -> str:
        """Quote an identifier, in ASCII: the session of the servers may take other bytes for another encoding."""
        text = name.replace('"', '""')
        if text.isascii():
            return f'"{text}"'
        escaped = (letter if letter.isascii() else f"\\+{ord(letter):06X}" for letter in text.replace("\\", "\\\\"))
        return f'U&"{"".join(escaped)}"'

    def columns(self, table: SqlTable) -> tuple[str, tuple[str, ...]]:
        """Return the statement for the columns of a table, and its parameters."""
        return _COLUMNS, (table.schema or "public", table.name)

    def column(self, name: str, *described: str) -> SqlColumn:
        """Return how a column is read."""
        kind, category = described
        column = self.quoted(name)
        if kind in _INTEGERS:
            return SqlColumn(name=name, type=kind, written=column, clickhouse_type=_INTEGERS[kind], is_integer=True)
        if kind in ("real", "double precision"):
            # Its bytes: a role may have set how many digits a text has.
            bits = "4" if kind == "real" else "8"
            size = int(bits) * 8
            return SqlColumn(
                name=name,
                type=kind,
                written=f"encode(float{bits}send({column}), 'hex')",
                read=f"reinterpretAsFloat{size}(reverse(unhex({{0}})))",
                clickhouse_type=f"Nullable(Float{size})",
            )
        if kind == "bytea":
            return SqlColumn(name=name, type=kind, written=f"encode({column}, 'hex')", read="unhex({0})")
        if kind in _TIMES:
            at = f"({column} AT TIME ZONE 'UTC')" if kind == _INSTANT else column
            read = _MARKED if kind == _INSTANT else "{0}"
            # JSON has times by ISO, whatever the role has set.
            other = f"replace(to_json({at}) #>> '{{}}', 'T', ' ')"
            return SqlColumn(name=name, type=kind, written=f"{at}::text", other=other, read=read)
        if kind in _ASCII:
            return SqlColumn(name=name, type=kind, written=f"{column}::text")
        text = _text_of(kind, column)
        return SqlColumn(
            name=name,
            type=kind,
            written=text,
            other=f"encode(convert_to({text}, 'UTF8'), 'hex')",
            read="if({is_other} = 1, unhex({0}), {0})",
            is_container=category in _CONTAINERS,
        )

    def rows_of_period(
        self, table: SqlTable, columns: Sequence[SqlColumn], period: Period, *, part: tuple[int, int] = (0, 1)
    ) -> str:
        """Return the statement that reads a period's rows; see `Dialect.rows_of_period`.

        The servers take all texts for UTF-8, and times for ISO's, but their session writes both as the database or the
        role says. So the statement looks, once, and elsewhere sends texts in hex, and times by way of JSON. Always
        would take twice as long.
        """
        elsewhere = [replace(column, written=column.other or column.written) for column in columns]
        plain, other = (
            super(Postgres, self).rows_of_period(table, sent, period, part=part).removeprefix("SELECT ")
            for sent in (columns, elsewhere)
        )
        is_other = f"{own_prefix(columns)}is_other"
        return (
            f"SELECT 0 AS {is_other}, {plain} AND {_AS_READ} "
            f"UNION ALL SELECT 1 AS {is_other}, {other} AND NOT ({_AS_READ})"
        )

    def times_of(self, column: SqlColumn) -> Times | None:
        """Return what a column of times holds."""
        return _TIMES.get(column.type)

    def moment(self, at: datetime, times: Times) -> str:
        """Return a moment as a literal."""
        if times is Times.INSTANTS:
            return f"'{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}+00'::timestamptz"
        return f"'{at:%Y-%m-%d %H:%M:%S}'::{'date' if times is Times.DATES else 'timestamp'}"

    def day_of(self, column: SqlColumn, times: Times, *, with_hour: bool) -> str:
        """Return the text of the day of a row, or of its hour."""
        name = self.quoted(column.name)
        at = f"({name} AT TIME ZONE 'UTC')" if times is Times.INSTANTS else name
        return f"to_char({at}, 'YYYY-MM-DD{_HOUR if with_hour else ''}')"

    def slice_of(self, column: SqlColumn, *, number: int, count: int) -> str:
        """Return the condition of one of so many slices."""
        name = self.quoted(column.name)
        whole = f"{name}::bigint" if column.is_integer else f"hashtext({name}::text)::bigint"
        # The remainder of a negative number is negative, and a NULL has none.
        return f"coalesce(({whole} % {count} + {count}) % {count}, 0) = {number}"

    def digest(self, columns: Sequence[SqlColumn]) -> str:
        """Return the aggregate over all values of these columns: of the bytes in which the database sends them.

        Beside the bytes of each, `record_send` writes its type and length. MD5 of texts took four times as long.
        """
        values = ", ".join(self.quoted(column.name) if column.type in _SENT else column.written for column in columns)
        return f"sum(hashtextextended(encode(record_send(ROW({values})), 'hex'), 0))"

    def state(self, table: SqlTable) -> str:
        """Return the expression of the snapshot, with nothing in progress.

        The end of whatever writes is the end of a transaction, and moves the snapshot on. With some in progress, a
        replica does not say which. None of that holds for what a view, a foreign table or a policy shows, which may go
        by the clock. Another server, after a failover, counts transactions for itself; a crash empties unlogged tables.
        """
        names = f"nspname = {_literal(table.schema or 'public')} AND relname = {_literal(table.name)}"
        return (
            "(SELECT extract(epoch FROM pg_postmaster_start_time()) || ' ' || pg_current_snapshot() "
            f"FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE {names} "
            "AND relkind IN ('r', 'm') AND relpersistence = 'p' AND NOT relhassubclass AND NOT relrowsecurity "
            "AND pg_snapshot_xmin(pg_current_snapshot()) = pg_snapshot_xmax(pg_current_snapshot()))"
        )


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"E'{escaped}'"


def _text_of(kind: str, column: str) -> str:
    # A cast would cut off the spaces that pad a value of CHAR(n), which a SELECT shows.
    return f"textin(bpcharout({column}))" if kind in ("character", "bpchar") else f"{column}::text"
