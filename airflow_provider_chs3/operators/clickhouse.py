"""Run statements of your own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.runners.statements import BaseClickHouseOperator

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context


class ClickHouseOperator(BaseClickHouseOperator):
    """Run your own statements, any that ClickHouse knows, with parameters and external tables.

    A retry runs all of them again: what an earlier try inserted is then there twice. To load objects so that each
    month is exact after every retry, use `S3ToClickHouseOperator`.

    Args:
        with_column_types: Whether to return the columns too. Default: False.
        types_check: Whether the driver checks the types of all values before it sends them. Default: False.
        columnar: Whether rows are given and returned as columns. Default: False.
        **kwargs: As for `BaseClickHouseOperator`, and Airflow's own.

    Returns:
        What the last statement returned, as JSON: its rows as lists; with `with_column_types` a list of the rows and of
        name and type of each column; for an `INSERT … VALUES` with rows, their number. Dates, decimals, UUIDs and all
        else that JSON lacks are text.
    """

    def __init__(
        self, *, with_column_types: bool = False, types_check: bool = False, columnar: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.with_column_types = with_column_types
        self.types_check = types_check
        self.columnar = columnar

    def execute(self, context: Context) -> Any:
        """Run the statements."""
        from airflow_provider_chs3.core.values.json_values import as_json

        return as_json(
            self.run_statements(
                with_column_types=self.with_column_types, types_check=self.types_check, columnar=self.columnar
            )
        )
