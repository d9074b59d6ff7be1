"""`insert_rows` of common-sql, with rows that go out as typed blocks."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import count, islice
from typing import Any

from airflow.providers.common.sql.hooks.sql import DbApiHook

from airflow_provider_chs3.core.sql.quoting import identifier, unquoted
from airflow_provider_chs3.exceptions import ConfigurationError, RowError


class RowInserts(DbApiHook):
    """The part of the hook that inserts rows."""

    supports_executemany = True

    def insert_rows(
        self,
        table: str,
        rows: Iterable[Sequence[Any]],
        target_fields: Sequence[str] | None = None,
        commit_every: int = 1000,
        replace: bool = False,
        **kwargs: Any,
    ) -> None:
        """Insert rows, a block for each commit.

        Args:
            table: The table.
            rows: The rows, with values of the columns' Python types, such as `datetime` for a DateTime.
            target_fields: The columns; None takes all in the table's order.
            commit_every: Rows to an INSERT, 1,000 by default; 0 puts all into one.
            replace: Must be False: ClickHouse has no REPLACE INTO.
            **kwargs: As common-sql has them.

        Raises:
            RowError: A row does not fit the table; it names row and column. Earlier blocks were inserted.
            ConfigurationError: `replace` is set.
            ClickHouseServerError: The server answered with an error.
            ClickHouseConnectionError: It did not answer.
        """
        taken = count()
        numbered = (row for row, _ in zip(rows, taken, strict=False))
        try:
            # common-sql inserts nothing at all where it is 0.
            super().insert_rows(table, numbered, target_fields, commit_every or sys.maxsize, replace, **kwargs)
        except RowError as error:
            # The blocks before the one that failed.
            in_blocks = (next(taken) - 1) // commit_every * commit_every if commit_every else 0
            raise RowError(in_blocks + error.row, error.problem, in_blocks) from None

    def bulk_insert_rows(
        self,
        table: str,
        rows: Iterable[Sequence[Any]],
        column_names: Sequence[str] | None = None,
        batch_size: int = 100_000,
    ) -> int:
        """Insert many rows, an INSERT of one typed block for each batch; never more than a batch is in memory.

        Nothing prevents doubled rows: a retry inserts all of them again, and if the connection breaks
        during a batch, its rows may be there or not. Rows of a batch that are of one partition appear together.

        Args:
            table: The table, `trips` or `taxi.trips`.
            rows: The rows, with values of the columns' Python types, such as `datetime` for a DateTime.
            column_names: Their columns. Default: all of the table, in its order.
            batch_size: Rows to a batch. Default: 100,000. Each batch makes a part in every partition that it has rows
                of: many small ones slow the server down.

        Returns:
            The number of rows.

        Raises:
            RowError: A row does not fit the table; it names row and column. Earlier batches were inserted.
            ConfigurationError: `batch_size` is not a number of rows, or a name is empty.
            ClickHouseServerError: The server answered with an error.
            ClickHouseConnectionError: It did not answer.
        """
        if batch_size < 1:
            raise ConfigurationError(f"bulk_insert_rows: batch_size={batch_size!r} must be 1 or more rows.")
        columns = f" ({', '.join(identifier(name) for name in column_names)})" if column_names else ""
        statement = f"INSERT INTO {_quoted(table)}{columns} VALUES"
        remaining = iter(rows)
        inserted = 0
        with closing(self.get_conn()) as connection:
            while batch := list(islice(remaining, batch_size)):
                try:
                    with closing(connection.cursor()) as cursor:
                        cursor.executemany(statement, batch)
                except RowError as error:
                    raise RowError(inserted + error.row, error.problem, inserted) from None
                inserted += len(batch)
        return inserted

    @staticmethod
    def _serialize_cell(cell: object, conn: object = None) -> Any:
        # Rows go out as typed blocks: text, which common-sql would make of them, fits no number's column.
        return cell

    def _generate_insert_sql(
        self, table: str, values: Any, target_fields: Any = None, replace: bool = False, **kwargs: Any
    ) -> str:
        if replace:
            raise ConfigurationError(
                f"insert_rows(replace=True) into {table}: ClickHouse has no REPLACE INTO. Insert into a "
                "ReplacingMergeTree, or replace the partition."
            )
        return super()._generate_insert_sql(table, values, target_fields, **kwargs)


def _quoted(table: str) -> str:
    database, dot, name = table.rpartition(".")
    return f"{identifier(unquoted(database))}.{identifier(unquoted(name))}" if dot else identifier(unquoted(name))
